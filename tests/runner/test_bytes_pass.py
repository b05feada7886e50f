"""Columns against their stamps, and the combined hash of each mode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit import api
from kvaudit.constants import FailReason, RealKvHashMode
from kvaudit.core.coverage import Family
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.report import Report, Verdict
from kvaudit.errors import SnapshotInconsistent
from tests.helpers import corruptions
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import fixture_f

ALL, PARTIAL = RealKvHashMode.ALL, RealKvHashMode.PARTIAL
EVERY = ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")


def _details(report: Report) -> tuple[int, int]:
    details = report.coverage.families[Family.BYTES].details
    return details["columns_unstamped"], details["columns_absent"]


def test_one_flipped_bit_names_its_slot_and_column_alone(run) -> None:
    world = fixture_f(stamps=EVERY)
    corruptions.flip_bit(world, "kv.v.1", 7)
    (row,) = run(world.dataset()).violations
    assert (row.tag, row.entry, row.slot, row.columns) == (None, None, 7, ("kv.v.1",))
    assert row.reasons == FailReason.COLUMN_DIGEST_MISMATCH
    assert (row.expected_position, row.expected_token, row.request_ids) == (1, 22, ("B",))


def test_a_slot_is_one_row_with_all_its_columns_and_readers(run) -> None:
    world = fixture_f(stamps=EVERY)
    sharer = replace(world.requests[0], request_id="C")
    world.requests.append(sharer)
    corruptions.overwrite_bytes(world, 3)
    (row,) = run(world.dataset()).violations
    assert row.columns == ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")
    assert row.request_ids == ("A", "C")


def test_slots_without_an_expectation_are_not_compared(run) -> None:
    world = fixture_f(stamps=EVERY)
    corruptions.overwrite_bytes(world, 12)
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].planned == 8 * 4


def test_a_digest_that_is_not_the_hash_of_its_bytes_is_an_input_error(run) -> None:
    world = fixture_f(stamps=EVERY)
    digests = world.snapshot(digests_only=True).digests
    both = world.snapshot(digests=digests)
    assert run(world.dataset(snapshot=both)).verdict is Verdict.CLEAN
    wrong = digests["kv.k.1"].read().copy()
    wrong[12] += 1
    broken = {**digests, "kv.k.1": ArrayColumn(name="digest.k.1", values=wrong)}
    with pytest.raises(SnapshotInconsistent) as caught:
        run(world.dataset(snapshot=world.snapshot(digests=broken)))
    assert (caught.value.column, caught.value.row) == ("digest.k.1", 12)


@pytest.mark.parametrize("mode", [RealKvHashMode.NONE, PARTIAL, ALL])
@pytest.mark.parametrize("column", ["kv.k.0", "kv.v.1"])
def test_digests_beside_the_bytes_are_compared_in_every_mode(run, mode, column: str) -> None:
    world = fixture_f(mode=mode, row_bytes=32, stamped_columns=("kv.k.0",))
    digests = world.snapshot(digests_only=True).digests
    assert run(world.dataset(snapshot=world.snapshot(digests=digests))).verdict is Verdict.CLEAN
    digests[column].values[7] += 1
    with pytest.raises(SnapshotInconsistent, match=column):
        run(world.dataset(snapshot=world.snapshot(digests=digests)))


@pytest.mark.parametrize("digests", [False, True], ids=["bytes", "bytes and digests"])
@pytest.mark.parametrize("stamps", [(), ("kv.k.1",), EVERY], ids=len)
@pytest.mark.parametrize("mode", [RealKvHashMode.NONE, PARTIAL, ALL])
def test_the_bytes_announced_are_those_folded(mode, stamps, digests: bool) -> None:
    world = fixture_f(mode=mode, row_bytes=32, stamped_columns=EVERY[:2], stamps=stamps)
    changes = {"digests": world.snapshot(digests_only=True).digests} if digests else {}
    watcher = Watcher()
    report = api.audit(
        world.dataset(snapshot=world.snapshot(**changes)), backend="cpu", observer=watcher
    )
    assert watcher.stages["bytes"] == (report.timing.kv_bytes,) * 2


def test_columns_without_a_stamp_are_counted_and_lower_nothing(run) -> None:
    report = run(fixture_f(mode=ALL, stamps=("kv.v.0",)).dataset())
    assert _details(report) == (2, 0)
    assert report.coverage.families[Family.BYTES].ratio == 1.0


def test_a_stamp_without_bytes_lowers_coverage(run) -> None:
    world = fixture_f(stamps=("kv.v.0", "kv.v.1"))
    kept = {name: column for name, column in world.snapshot().kv.items() if name != "kv.v.1"}
    report = run(world.dataset(snapshot=world.snapshot(kv=kept)))
    covered = report.coverage.families[Family.BYTES]
    assert (covered.planned, covered.checked) == (16, 8)
    assert _details(report) == (2, 1)
    assert report.verdict is Verdict.INCOMPLETE
    assert "bytes or digests" in report.incomplete_reasons[0]


def test_stamps_that_are_zero_throughout_were_never_written(run) -> None:
    world = fixture_f(stamps=("kv.v.0", "kv.v.1"))
    world.stamps["kv.v.1"][:] = 0
    report = run(world.dataset())
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].planned == 8
    assert report.findings[0].evidence["columns"] == ["stamped.v.1"]


@pytest.mark.parametrize("canary", [("k.head", "k.tail"), ()])
@pytest.mark.parametrize("digests_only", [False, True])
def test_a_snapshot_without_a_row_lacks_its_slots_and_is_not_taken_for_unstamped(
    run, canary: tuple[str, ...], digests_only
) -> None:
    world = fixture_f(stamps=EVERY, canary=canary)
    report = run(world.dataset(snapshot=world.snapshot(slots=[], digests_only=digests_only)))
    assert report.verdict is Verdict.INCOMPLETE
    families = report.coverage.families
    assert (families[Family.BYTES].planned, families[Family.BYTES].checked) == (32, 0)
    if canary:
        assert families[Family.RECORDS].details["not_in_snapshot"] == 16
        assert families[Family.RECORDS].checked == 0


def test_a_combined_hash_that_lacks_a_column_is_not_covered_and_no_error(run) -> None:
    world = fixture_f(mode=ALL, stamped_columns=("kv.k.0", "kv.k.1"), canary=("k.tail",))
    corruptions.flip_bit(world, "kv.k.0", 7)
    kept = {name: column for name, column in world.snapshot().kv.items() if name != "kv.k.1"}
    report = run(world.dataset(snapshot=world.snapshot(kv=kept)))
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES] is None
    assert report.coverage.absent[Family.BYTES] == "a column is absent"


@pytest.mark.parametrize("mode", [ALL, PARTIAL])
def test_each_half_has_its_own_combined_hash(run, mode: RealKvHashMode) -> None:
    world = fixture_f(
        mode=mode, row_bytes=32, stamped_columns=EVERY, canary=("k.tail", "v.tail"), stamps=EVERY
    )
    assert run(world.dataset()).verdict is Verdict.CLEAN
    corruptions.flip_bit(world, "kv.v.1", 7)
    report = run(world.dataset())
    tags = [(row.tag and row.tag.name, row.slot) for row in report.violations]
    assert tags == [("TAIL_V_FULL", 7), (None, 7)]
    assert report.coverage.families[Family.BYTES].planned == 8 * (4 + 2)


def test_partial_covers_the_first_16_bytes_alone(run) -> None:
    """CASES.md T31."""
    for mode, expected in ((PARTIAL, Verdict.CLEAN), (ALL, Verdict.VIOLATIONS)):
        world = fixture_f(mode=mode, row_bytes=32)
        corruptions.flip_bit(world, "kv.k.0", 7, bit=20 * 8)
        assert run(world.dataset()).verdict is expected


def test_partial_cannot_be_had_from_digests(run) -> None:
    world = fixture_f(mode=PARTIAL, row_bytes=32)
    report = run(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES] is None


def test_in_mode_all_each_column_is_folded_once(run) -> None:
    world = fixture_f(mode=ALL, stamped_columns=EVERY, canary=("k.tail", "v.tail"), stamps=EVERY)
    assert run(world.dataset()).timing.kv_bytes == 8 * 4 * 16


def test_the_fold_order_is_the_listed_one(run) -> None:
    world = fixture_f(mode=ALL, stamped_columns=("kv.k.1", "kv.k.0"))
    assert run(world.dataset()).verdict is Verdict.CLEAN
    turned = world.snapshot(stamped_columns=("kv.k.0", "kv.k.1"))
    assert run(world.dataset(snapshot=turned)).violations_total == 8
