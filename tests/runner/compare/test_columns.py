from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.comparison import CompareOptions, LegKind
from kvaudit.core.comparison_choices import ComparedContent
from kvaudit.core.snapshot import DigestGrain, DumpMoment, Snapshot
from kvaudit.errors import SchemaMismatch, SnapshotInconsistent
from kvaudit.runner.compare.columns import LegColumns, leg_columns, reads_bytes
from tests.helpers.comparing import dumped, side_of
from tests.helpers.stamped_pools import F_STAMPS

BYTES, DIGESTS = dumped().snapshot(), dumped().snapshot(digests_only=True)


def _columns(
    left: Snapshot,
    right: Snapshot,
    *,
    kind: LegKind = LegKind.TRANSFER,
    **options: object,
) -> LegColumns:
    return leg_columns(
        side_of(left), side_of(right, "B"), kind=kind, options=CompareOptions(**options)
    )


@pytest.mark.parametrize("right", [BYTES, DIGESTS])
def test_bytes_are_compared_with_bytes_or_with_digests(right: Snapshot) -> None:
    found = _columns(BYTES, right)
    assert found.compared == F_STAMPS
    assert not found.left_out


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (ComparedContent.DIGESTS, "A has no digests of it"),
        (ComparedContent.BYTES, "B has no bytes of it"),
    ],
)
def test_what_was_not_asked_for_is_left_out_by_name(content: ComparedContent, why: str) -> None:
    found = _columns(BYTES, DIGESTS, content=content)
    assert set(found.left_out.values()) == {why}
    assert not found.compared


def test_a_column_of_one_dump_alone_is_left_out_whichever_has_it() -> None:
    few = replace(BYTES, kv={"kv.k.0": BYTES.kv["kv.k.0"]})
    assert set(_columns(BYTES, few).left_out.values()) == {"A alone has it"}
    assert set(_columns(few, BYTES).left_out.values()) == {"B alone has it"}
    only = _columns(few, BYTES, audit=AuditOptions(layers=(1,)))
    assert set(only.left_out) == {"kv.k.1", "kv.v.1"}


def test_digests_of_pages_are_not_compared_with_digests_of_slots() -> None:
    pages = replace(DIGESTS, canary={}, digest_grain=DigestGrain.PAGE)
    found = _columns(pages, DIGESTS)
    assert set(found.left_out.values()) == {"digests of pages in one dump, of slots in the other"}
    assert _columns(pages, pages).compared == F_STAMPS


@pytest.mark.parametrize(
    ("change", "kind", "options"),
    [
        ({}, LegKind.TRANSFER, {"audit": AuditOptions(skip_bytes=True)}),
        ({"at": DumpMoment.MID_STEP}, LegKind.TRANSFER, {}),
        ({}, LegKind.RANKS, {}),
        ({"kv": {}}, LegKind.TRANSFER, {}),
    ],
)
def test_a_leg_that_compares_no_bytes_says_why(
    change: dict[str, object], kind: LegKind, options: dict[str, object]
) -> None:
    other = replace(BYTES, **change)
    found = _columns(other, other, kind=kind, **options)
    assert found.excused
    assert not found.compared


def test_digests_that_cover_no_byte_compare_nothing() -> None:
    blind = replace(BYTES, kv={n: replace(c, read_bytes=0) for n, c in BYTES.kv.items()})
    assert set(_columns(blind, blind).left_out.values()) == {"digests of A cover no byte of it"}
    with pytest.raises(SnapshotInconsistent):
        _columns(blind, BYTES)


@pytest.mark.parametrize(
    "change", [{"read_bytes": 8}, {"dtype": "float16"}], ids=["read_bytes", "dtype"]
)
def test_another_reach_or_type_is_another_geometry(change: dict[str, object]) -> None:
    typed = replace(BYTES, kv={n: replace(c, dtype="bfloat16") for n, c in BYTES.kv.items()})
    other = replace(
        typed, path="b.arrow", kv={n: replace(c, **change) for n, c in typed.kv.items()}
    )
    with pytest.raises(SnapshotInconsistent, match=r"b\.arrow"):
        _columns(typed, other)


def test_a_type_that_one_dump_does_not_tell_contradicts_nothing() -> None:
    typed = replace(BYTES, kv={n: replace(c, dtype="torch.half") for n, c in BYTES.kv.items()})
    assert _columns(typed, BYTES).compared == F_STAMPS


def test_a_tolerance_needs_types() -> None:
    with pytest.raises(SchemaMismatch, match="no dtype"):
        _columns(BYTES, BYTES, tolerance=0.1)


def test_bytes_are_not_read_where_digests_alone_were_asked_for() -> None:
    assert reads_bytes(BYTES, "kv.k.0", ComparedContent.BOTH)
    assert not reads_bytes(BYTES, "kv.k.0", ComparedContent.DIGESTS)
    assert not reads_bytes(DIGESTS, "kv.k.0", ComparedContent.BOTH)
