"""An audit of page digests says what it covers, and names pages: never more, never less."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.backends.cpu import CpuBackend
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import NO_STEP
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import DigestGrain, DumpMoment, Snapshot
from kvaudit.errors import ConfigError
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.render.violation_ring import violation_ring
from kvaudit.runner.stamp import stamp
from tests.helpers import corruptions
from tests.helpers.long_pools import long_pool
from tests.helpers.worlds import World, build, fixture_f

STAMPS = ("kv.k.0", "kv.v.1")
LIVE = range(2, 10)


def by_page(world: World, *, slots: Iterable[int] = LIVE, **changes: object) -> AuditedPool:
    """The pool's digests, a page each, with its sequences."""
    digests = world.snapshot(slots=slots, digests_only=True, **changes)
    pages = PoolDump(snapshot=digests, sequences=world.sequences()).by_page()
    return AuditedPool(snapshot=pages.snapshot, sequences=(pages.sequences,))


def of(*pools: AuditedPool) -> Dataset:
    return Dataset(pools=list(pools))


def test_stamped_pages_are_covered_and_records_are_not_planned(run) -> None:
    report = run(of(by_page(fixture_f(stamps=STAMPS))))
    assert report.verdict is Verdict.CLEAN
    covered = report.coverage.families[Family.BYTES]
    assert (covered.planned, covered.checked, covered.scope) == (16, 16, "(by page)")
    assert report.coverage.families[Family.RECORDS] is None
    assert report.coverage.absent[Family.RECORDS] == "no canary"


def test_pages_without_a_stamp_cover_no_byte(run) -> None:
    report = run(of(by_page(fixture_f())))
    assert report.coverage.families[Family.BYTES] is None
    assert report.coverage.absent[Family.BYTES] == "not stamped"
    assert run(of(by_page(fixture_f())), require=(Family.BYTES,)).verdict is Verdict.INCOMPLETE


@pytest.mark.parametrize("slot", [4, 5])
@pytest.mark.parametrize("column", STAMPS)
def test_a_page_that_differs_is_one_row_at_its_first_slot(run, slot: int, column: str) -> None:
    world = fixture_f(stamps=STAMPS)
    corruptions.flip_bit(world, column, slot)
    report = run(of(by_page(world)))
    assert (report.verdict, report.violations_total) == (Verdict.VIOLATIONS, 1)
    (row,) = report.violations
    assert (row.slot, row.columns, row.request_ids) == (4, (column,), ("A",))
    assert (row.expected_position, row.expected_token) == (2, 13)


def test_everyone_who_reads_a_page_that_differs_is_named(run) -> None:
    """Two requests in one page, of which the second reads the slot that changed."""
    world = (
        build(stamps=STAMPS, page_size=4, reserved="0-3")
        .request("A", tokens=[11, 12], slots=[4, 5])
        .request("B", tokens=[21, 22], slots=[6, 7])
        .done()
    )
    corruptions.flip_bit(world, "kv.v.1", 7)
    report = run(of(by_page(world, slots=range(4, 8))))
    (row,) = report.violations
    assert (row.slot, row.request_ids) == (4, ("A", "B"))
    (finding,) = report.findings
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV301", [4, 5, 6, 7], ["A", "B"])
    assert finding.summary == "the KV at page 1 is not what was stamped, in kv.v.1"
    assert [line.plain.strip() for line in violation_ring(report)[1:2]] == [
        "page 1 (slots 4-7)  requests A, B  position 0"
    ]


@pytest.mark.parametrize("page_size", [1, 2, 16])
def test_pages_that_follow_one_another_are_one_finding(run, page_size: int) -> None:
    world = long_pool(page_size, stamps=("kv.k.0", "kv.v.0"))
    slots = world.request_of("R1").slots[2 * page_size :]
    corruptions.zero_slots(world, slots, records=False)
    live = sorted(slot for request in world.requests for slot in request.slots)
    report = run(of(by_page(world, slots=live)))
    (finding,) = report.findings
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV302", slots, ["R1"])
    num_pages = -(-len(slots) // page_size)
    assert (finding.evidence["rows"], report.violations_total) == (num_pages, num_pages)
    assert finding.summary == (
        f"bytes are zero from page {slots[0] // page_size} on, in {num_pages} pages, "
        "to the end of its sequence"
    )


def test_a_slot_that_no_digest_covers_is_missed_and_not_clean(run) -> None:
    """A planned slot beside the live ones of its page, whose bytes no digest saw."""
    world = fixture_f(stamps=STAMPS)
    report = run(of(by_page(world, slots=range(2, 9))))
    assert report.verdict is Verdict.INCOMPLETE
    covered = report.coverage.families[Family.BYTES]
    assert (covered.planned, covered.checked) == (16, 14)


def test_a_page_with_a_slot_that_was_never_stamped_is_not_judged(run, tmp_path) -> None:
    world = fixture_f(stamps=STAMPS)
    for name in STAMPS:
        world.stamps[name][5] = 0
    stamped = np.where(np.arange(world.num_slots) == 5, NO_STEP, 3)
    evidence = {"stamped_step": ArrayColumn(name="stamped_step", values=stamped[list(LIVE)])}
    pool = by_page(world, evidence=evidence)
    write_snapshot(tmp_path / "a.arrow", pool.snapshot)
    report = run(of(replace(pool, snapshot=read_file(tmp_path / "a.arrow"))))
    assert report.verdict is Verdict.CLEAN
    covered = report.coverage.families[Family.BYTES]
    assert (covered.planned, covered.checked) == (12, 12)
    (note,) = report.findings
    assert (note.rule, list(note.slots)) == ("KV004", [4, 5])


def test_a_scope_of_slots_names_the_first_of_them_in_the_page(run) -> None:
    world = fixture_f(stamps=STAMPS)
    corruptions.flip_bit(world, "kv.k.0", 4)
    report = run(of(by_page(world)), slots=SlotRanges.parse("5-7"))
    assert [row.slot for row in report.violations] == [5]


def test_pages_of_a_dump_in_mid_step_are_no_violation(run) -> None:
    world = fixture_f(stamps=STAMPS)
    corruptions.flip_bit(world, "kv.k.0", 4)
    report = run(of(by_page(world, at=DumpMoment.MID_STEP)))
    assert report.violations_total == 0
    assert report.verdict is Verdict.INCOMPLETE


def stamped_copy(world: World, **options: object) -> Snapshot:
    pool = by_page(world, stamped={})
    return stamp(pool, backend=CpuBackend(), **options)


def test_a_stamp_on_page_digests_is_of_pages(run, tmp_path) -> None:
    world = fixture_f()
    copy = stamped_copy(world)
    assert (copy.digest_grain, dict(copy.canary)) == (DigestGrain.PAGE, {})
    write_snapshot(tmp_path / "a.arrow", copy)
    snapshot = read_file(tmp_path / "a.arrow")
    report = run(of(AuditedPool(snapshot=snapshot, sequences=(world.sequences(),))))
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].planned == 8 * len(snapshot.digests)


def test_a_stamp_on_page_digests_combines_no_column() -> None:
    with pytest.raises(ConfigError, match="of pages") as refused:
        stamped_copy(fixture_f(), combined=("kv.k.0",))
    assert refused.value.hint
