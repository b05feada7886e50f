from __future__ import annotations

from kvaudit.core.snapshot import PoolKey
from tests.helpers.comparing import change_byte, compared, dumped, finding_of
from tests.helpers.worlds import World


def _steps(*damaged: tuple[int, ...]) -> list[World]:
    worlds = []
    for step, slots in enumerate(damaged):
        world = dumped(key=PoolKey(step=100 + step))
        for slot in slots:
            change_byte(world, slot)
        worlds.append(world)
    return worlds


def test_the_first_failed_rows_say_between_which_steps_the_damage_began() -> None:
    found = finding_of(*_steps((), (4,)), select=("KV403",))
    assert (found.rule, found.slots, found.request_ids) == ("KV403", [4], ["A"])
    assert found.evidence["steps"] == [100, 101]
    assert found.evidence["failed_rows"] == [0, 2]
    assert found.evidence["checked"][0] == found.evidence["checked"][1] > 0
    assert found.summary.startswith("2 failed rows at step 101, and none at step 100")


def test_more_failed_rows_say_that_something_goes_on_and_name_the_new_slots() -> None:
    found = finding_of(*_steps((4,), (4, 7, 8)), select=("KV403",))
    assert found.slots == [7, 8]
    assert found.summary.startswith("6 failed rows at step 101, and 2 at step 100: something still")


def test_the_order_of_the_files_is_not_that_of_the_steps() -> None:
    later, earlier = reversed(_steps((), (4,)))
    assert finding_of(later, earlier, select=("KV403",)).evidence["steps"] == [100, 101]


def test_as_many_or_fewer_failed_rows_are_no_finding() -> None:
    assert not compared(*_steps((4,), (7,)), select=("KV403",)).findings
    assert not compared(*_steps((4, 7), (7,)), select=("KV403",)).findings
    assert not compared(*_steps((), ())).findings


def test_dumps_of_two_places_are_not_audited() -> None:
    left, right = _steps((), (4,))
    right.key = PoolKey(step=101, tier="host")
    assert not compared(left, right, select=("KV403",)).findings
