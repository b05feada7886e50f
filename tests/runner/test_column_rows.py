"""Column differences name everyone who reads the slot."""

from __future__ import annotations

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.violation import Violation
from tests.helpers import corruptions
from tests.helpers.worlds import fixture_f


def test_readers_come_from_sequences_and_plans_without_repeats(run) -> None:
    world = fixture_f(stamps=("kv.v.0",))
    corruptions.flip_bit(world, "kv.v.0", 7)
    pool = AuditedPool(
        snapshot=world.snapshot(), sequences=(world.sequences(),), plans=(world.plan(),)
    )
    (row,) = run(Dataset(pools=[pool])).violations
    assert row.request_ids == ("B",)


def test_a_plan_without_names_still_gives_the_position(run) -> None:
    world = fixture_f(stamps=("kv.v.0",))
    corruptions.flip_bit(world, "kv.v.0", 7)
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(names=False),))
    (row,) = run(Dataset(pools=[pool])).violations
    assert (row.request_ids, row.expected_position, row.expected_token) == ((), 1, 22)


def test_slots_are_shown_in_the_engines_numbering(run) -> None:
    from tests.helpers.worlds import build

    world = (
        build(stamps=("kv.v.0",), reserved="none").request("A", tokens=[1, 2], slots=[0, 1]).done()
    )
    corruptions.flip_bit(world, "kv.v.0", 0)
    (row,) = run(world.dataset()).violations
    assert (row.slot, row.request_ids) == (0, ("A",))


def test_a_plan_that_judges_no_tokens_expects_none(run) -> None:
    world = fixture_f(stamps=("kv.v.0",))
    corruptions.flip_bit(world, "kv.v.0", 7)
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(check_tokens=False),))
    (row,) = run(Dataset(pools=[pool])).violations
    assert (row.expected_position, row.expected_token) == (1, -1)


def test_each_row_names_its_own_columns(run) -> None:
    world = fixture_f(stamps=("kv.v.1", "kv.k.0", "kv.v.0"))
    for column, slot in (("kv.v.1", 3), ("kv.k.0", 3), ("kv.v.0", 5), ("kv.v.1", 8)):
        corruptions.flip_bit(world, column, slot)

    def shown(rows: list[Violation]) -> list[tuple[int, tuple[str, ...]]]:
        return [(row.slot, row.columns) for row in rows]

    every = [(3, ("kv.k.0", "kv.v.1")), (5, ("kv.v.0",)), (8, ("kv.v.1",))]
    for limit in range(4):
        report = run(world.dataset(), max_violations=limit)
        assert (report.violations_total, shown(report.violations)) == (3, every[:limit])
