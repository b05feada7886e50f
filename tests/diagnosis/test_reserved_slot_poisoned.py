"""KV307: NaN and infinities in reserved slots."""

from __future__ import annotations

import pytest

from kvaudit.core.snapshot import DumpMoment
from tests.helpers.diagnosing import report_of
from tests.helpers.typed_pools import BAD_WORDS, finite_world, poison, put_word, typed


def _rules(world: object, **options: object) -> list[tuple[str, list[int]]]:
    report = report_of(world.dataset(snapshot=typed(world, **options)))
    return [(found.rule, found.slots) for found in report.findings if found.rule != "KV004"]


@pytest.mark.parametrize("word", BAD_WORDS)
def test_a_nan_in_slot_0_is_named(word: str) -> None:
    world = finite_world()
    put_word(world, "kv.v.0", 0, BAD_WORDS[word])
    (finding,) = report_of(world.dataset(snapshot=typed(world))).findings
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV307", [0], [])
    assert finding.summary == (
        "slot 0 (page 0 +0) is reserved and holds a NaN or an infinity in kv.v.0"
    )


def test_every_reserved_slot_is_looked_at() -> None:
    world = finite_world(reserved="0-1")
    poison(world, 1)
    assert _rules(world) == [("KV307", [1])]


def test_rubbish_that_is_finite_is_legal_there() -> None:
    world = finite_world()
    for data in world.kv.values():
        data[0] = 0x3C
    assert not _rules(world)


def test_slot_0_of_a_pool_that_uses_it_is_not_reserved() -> None:
    world = finite_world(reserved="none")
    poison(world, 0)
    assert not _rules(world)


def test_a_dump_in_mid_step_is_not_looked_at() -> None:
    world = finite_world()
    poison(world, 0)
    assert not [rule for rule, _ in _rules(world, at=DumpMoment.MID_STEP) if rule == "KV307"]
