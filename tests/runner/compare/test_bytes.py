"""Columns of all legs, folded once a dump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.comparison_choices import ComparedContent
from kvaudit.core.coverage import Family
from kvaudit.core.element_types import decoded, encoded
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.snapshot import DigestGrain, PoolKey, Snapshot
from kvaudit.errors import SnapshotInconsistent
from tests.helpers.comparing import HOST, THERE, change_byte, compared, dumped
from tests.helpers.worlds import World, fold, mix


def test_a_dump_between_two_legs_is_folded_once() -> None:
    back = dumped(key=PoolKey(tier="device", step=2))
    two = compared(dumped(), dumped(THERE, key=HOST)).timing.kv_bytes
    assert two == 2 * 8 * 4 * 16
    assert compared(dumped(), dumped(THERE, key=HOST), back).timing.kv_bytes == two * 3 // 2


def test_digests_beside_bytes_must_be_theirs() -> None:
    world = dumped(THERE, key=HOST)
    digests = world.snapshot(digests_only=True).digests
    change_byte(world, 12)
    both = world.snapshot(digests=digests, path="b.arrow")
    with pytest.raises(SnapshotInconsistent) as error:
        compared(dumped(), both)
    assert (error.value.path, error.value.row) == ("b.arrow", 12)
    assert compared(dumped(), both, content=ComparedContent.BYTES).exit_code == 1
    left = dumped()
    as_digests = left.snapshot(digests=left.snapshot(digests_only=True).digests)
    assert compared(as_digests, both, content=ComparedContent.DIGESTS).exit_code == 0


def _typed(world: World, values: dict[str, np.ndarray], dtype: str) -> Snapshot:
    snapshot = world.snapshot()
    kv = {
        name: ArrayKvColumn(name=name, data=encoded(data, dtype), read_bytes=16, dtype=dtype)
        for name, data in values.items()
    }
    return replace(snapshot, kv=kv)


@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 8), ("float16", 8), ("float32", 4)])
def test_recomputed_kv_is_right_within_a_tolerance_and_damage_is_not(
    dtype: str, width: int
) -> None:
    rng = np.random.default_rng(0)
    here = {name: rng.normal(size=(16, width)).astype(np.float32) for name in dumped().kv}
    order = np.arange(16)
    order[[*THERE[0], *THERE[1]]] = [2, 3, 4, 5, 6, 7, 8, 9]
    there = {
        name: data[order] * (1 + 0.004 * rng.normal(size=(16, width))).astype(np.float32)
        for name, data in here.items()
    }
    left = _typed(dumped(), here, dtype)
    right = _typed(dumped(THERE, key=HOST), there, dtype)
    assert compared(left, right).exit_code == 1
    report = compared(left, right, tolerance=0.05)
    assert report.exit_code == 0
    assert report.coverage.families[Family.BYTES].ratio == 1.0
    there["kv.v.1"][12, 1] += 9
    report = compared(left, _typed(dumped(THERE, key=HOST), there, dtype), tolerance=0.05)
    assert [(row.slot, row.columns) for row in report.violations] == [(12, ("kv.v.1",))]
    assert decoded(encoded(here["kv.k.0"], dtype), dtype).shape == (16, width)


def test_digests_that_differ_within_no_tolerance_are_not_covered() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    left, right = dumped().snapshot(digests_only=True), damaged.snapshot(digests_only=True)
    report = compared(left, right, tolerance=0.1)
    assert not report.violations_total
    assert report.exit_code == 5
    assert report.coverage.families[Family.BYTES].checked == 8 * 4 - 1
    assert "1 different digest may be right" in report.legs[0].unchecked[0]


def _by_page(world: World, *, slots: tuple[int, ...] | None = None) -> Snapshot:
    """A dump of digests of pages."""
    snapshot = world.snapshot(digests_only=True, slots=slots)
    pages = snapshot.slots // world.page_size
    digests = {}
    for name, data in world.kv.items():
        values = np.zeros(len(pages), dtype=np.uint64)
        for page in np.unique(pages):
            running = 0
            for slot in snapshot.slots[pages == page]:
                running = mix(running ^ fold(data[slot].tobytes()))
            values[pages == page] = running
        digests[name] = ArrayColumn(name=name, values=values.view(np.int64))
    return replace(snapshot, canary={}, digests=digests, digest_grain=DigestGrain.PAGE)


def test_digests_of_pages_are_compared_page_by_page() -> None:
    slots, moved = range(2, 10), ((10, 11, 12, 13), (6, 7, 2, 3))
    left = dumped()
    right = dumped(moved, key=HOST)
    here = left.dataset(snapshot=_by_page(left, slots=tuple(slots)))
    places = (2, 3, 6, 7, 10, 11, 12, 13)
    there = right.dataset(snapshot=_by_page(right, slots=places))
    report = compared(here, there)
    assert report.exit_code == 0
    assert report.coverage.families[Family.BYTES].planned == 4 * 4
    assert report.coverage.families[Family.BYTES].scope == "(by page)"
    change_byte(right, 12)
    report = compared(here, right.dataset(snapshot=_by_page(right, slots=places)))
    assert [row.slot for row in report.violations] == [12]


def test_pages_whose_slots_changed_places_are_not_covered() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    report = compared(
        left.dataset(snapshot=_by_page(left, slots=tuple(range(2, 10)))),
        right.dataset(snapshot=_by_page(right, slots=(2, 3, 4, 5, 10, 11, 12, 13))),
    )
    assert report.exit_code == 5
    assert any("1 of 4 pages" in sentence for sentence in report.legs[0].unchecked)


def test_what_many_slots_hold_is_no_proof_that_zero_content_moved() -> None:
    damaged = dumped(THERE, key=HOST)
    damaged.kv["kv.k.0"][12] = 0
    [found] = compared(dumped(), damaged).findings
    assert found.evidence["num_zero"] == 1
    assert "num_held_elsewhere" not in found.evidence
    assert "kv.k.0 is zero" in found.summary
