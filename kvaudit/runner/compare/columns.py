"""Which KV columns of two dumps can be compared, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvaudit.core.column_names import column_layer, column_order
from kvaudit.core.comparison import CompareOptions, LegKind
from kvaudit.core.comparison_choices import ComparedContent
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.errors import SnapshotInconsistent
from kvaudit.runner.compare.side import Side
from kvaudit.runner.compare.tolerance import check_types

# Metadata that says whether ranks hold the same heads.
_SHARDING: Final = "kv_sharding"
_REPLICATED: Final = "replicated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegColumns:
    """The columns of one leg.

    Fields:
        compared: those that are compared, in layer order.
        left_out: why the others are not, by column; each of them lowers the coverage.
        excused: why no column is to be compared; "" where some are.
    """

    compared: tuple[str, ...] = ()
    left_out: dict[str, str]
    excused: str = ""


def leg_columns(left: Side, right: Side, *, kind: LegKind, options: CompareOptions) -> LegColumns:
    """Choose the columns of a leg.

    Raises:
        SnapshotInconsistent: a column of both has another geometry in each.
        SchemaMismatch: a tolerance was asked for, and a column has no type that is known.
    """
    ours, theirs = left.snapshot, right.snapshot
    names = {
        name
        for snapshot in (ours, theirs)
        for name in (*snapshot.kv, *snapshot.digests)
        if options.audit.layers is None or column_layer(name) in options.audit.layers
    }
    excused = _excused(left, right, kind=kind, options=options)
    if excused or not names:
        return LegColumns(left_out={}, excused=excused or "no bytes")
    compared, left_out = [], {}
    for name in sorted(names, key=column_order):
        why = _why_not(left, right, name, content=options.content)
        _check_geometry(ours, theirs, name)
        if why:
            left_out[name] = why
        else:
            compared.append(name)
    if options.tolerance is not None:
        for snapshot in (ours, theirs):
            for name in compared:
                if reads_bytes(snapshot, name, options.content):
                    check_types(snapshot.kv[name], path=snapshot.path)
    return LegColumns(compared=tuple(compared), left_out=left_out)


def reads_bytes(snapshot: Snapshot, name: str, content: ComparedContent) -> bool:
    """Whether a column's bytes are read, and not its digests."""
    return name in snapshot.kv and content is not ComparedContent.DIGESTS


def _excused(left: Side, right: Side, *, kind: LegKind, options: CompareOptions) -> str:
    """Why nothing of the KV is to be compared; "" where it is."""
    if options.audit.skip_bytes:
        return "left out"
    if kind is LegKind.RANKS:
        held = [side.snapshot.metadata.get(_SHARDING) for side in (left, right)]
        if held != [_REPLICATED, _REPLICATED]:
            return "ranks hold other heads: kv_sharding is not replicated in both"
    hasty = [s.letter for s in (left, right) if s.snapshot.at is DumpMoment.MID_STEP]
    return f"{' and '.join(hasty)} taken in mid-step" if hasty else ""


def _why_not(left: Side, right: Side, name: str, *, content: ComparedContent) -> str:
    """Why a column of one dump cannot be compared with the other's; "" where it can."""
    for side, other in ((left, right), (right, left)):
        snapshot = side.snapshot
        if name not in snapshot.kv and name not in snapshot.digests:
            return f"{other.letter} alone has it"
        if content is ComparedContent.DIGESTS and name not in snapshot.digests:
            return f"{side.letter} has no digests of it"
        if content is ComparedContent.BYTES and name not in snapshot.kv:
            return f"{side.letter} has no bytes of it"
        if reads_bytes(snapshot, name, content) and not snapshot.kv[name].read_bytes:
            return f"digests of {side.letter} cover no byte of it"
    if left.snapshot.digest_grain is not right.snapshot.digest_grain:
        return "digests of pages in one dump, of slots in the other"
    return ""


def _check_geometry(left: Snapshot, right: Snapshot, name: str) -> None:
    """Refuse a column whose rows differ in width, reach or type.

    Raises:
        SnapshotInconsistent: naming both files.
    """
    ours, theirs = left.kv.get(name), right.kv.get(name)
    if ours is None or theirs is None:
        return
    for what, one, other in (
        ("bytes a slot", ours.row_bytes, theirs.row_bytes),
        ("bytes that digests cover", ours.read_bytes, theirs.read_bytes),
        ("elements", _plain(ours.dtype), _plain(theirs.dtype)),
    ):
        if one != other and "" not in (one, other):
            raise SnapshotInconsistent(
                f"{one} {what}, and {other} in {right.path or 'the other dump'}",
                path=left.path or None,
                column=name,
                hint="compare dumps of one model, dtype and tensor-parallel size; --layer names "
                "the columns to compare",
            )


def _plain(dtype: str) -> str:
    return dtype.removeprefix("torch.")
