"""What one slot holds, as text: its columns, the words that differ, and who holds the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from kvaudit.constants import WORD_BYTES
from kvaudit.core.blame_report import BlameReport
from kvaudit.core.layout import slot_label
from kvaudit.core.slot_facts import ByteComparison, ColumnDigests, ContentCopy
from kvaudit.core.violation import hash_label
from kvaudit.render.labels import column_labels, count_label, listed
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.reader_labels import readers_label, unread_label

# Columns, copies, comparisons and words of each that are listed.
MAX_COLUMNS: Final = 8
MAX_COPIES: Final = 6
MAX_COMPARED: Final = 3
MAX_WORDS: Final = 4
# Columns of which a group is shown by its hashes.
_FEW: Final = 2


def column_lines(report: BlameReport) -> list[Text]:
    """The columns that differ with their hashes, and the others in groups."""
    if not report.columns:
        return []
    wrong = [column for column in report.columns if _is_wrong(column)]
    cells = [_column_cells(column) for column in wrong[:MAX_COLUMNS]]
    more = [line(f"and {len(wrong) - MAX_COLUMNS:,} more", indent=1)] * (len(wrong) > MAX_COLUMNS)
    return [
        line(("bytes", "bold"), f"  {_extent(report.columns)}"),
        *aligned(cells),
        *more,
        *aligned(list(_groups(report.columns))),
    ]


def _extent(columns: Sequence[ColumnDigests]) -> str:
    """`1 of 60 stamped columns differs`."""
    judged = [column for column in columns if column.differs is not None]
    if not judged:
        return f"{count_label(len(columns), 'column')}, none of them stamped"
    differing = sum(bool(column.differs) for column in judged)
    verb = "differs" if differing == 1 else "differ"
    return f"{differing} of {count_label(len(judged), 'stamped column')} {verb}"


def _is_wrong(column: ColumnDigests) -> bool:
    return bool(column.differs) or column.solved is not None


def _column_cells(column: ColumnDigests) -> tuple[str, ...]:
    written = f"stamped {hash_label(column.stamped)}"
    if column.stamped is None:
        of = "" if column.solved_bytes is None else f" of its first {column.solved_bytes} bytes"
        written = f"solved {hash_label(column.solved)}{of}, if it alone changed"
    return (column.name, written, *_held_cells(column), column.pattern)


def _held_cells(column: ColumnDigests) -> tuple[str, ...]:
    """What it hashes to now, recomputed and dumped."""
    found = [("recomputed", column.recomputed), ("dumped", column.dumped)]
    return tuple(f"{name} {hash_label(value)}" for name, value in found if value is not None)


def _groups(columns: Sequence[ColumnDigests]) -> Iterator[tuple[str, ...]]:
    """The columns that are not wrong, by what is known of them; few of them with their hashes."""
    groups: dict[str, list[ColumnDigests]] = {}
    for column in columns:
        if not _is_wrong(column):
            groups.setdefault(_what_is_known(column), []).append(column)
    for label, members in groups.items():
        if len(members) > _FEW:
            layers, names = column_labels([column.name for column in members])
            yield (label, count_label(len(members), "column"), layers, names)
        else:
            for column in members:
                yield (label, column.name, *_held_cells(column))


def _what_is_known(column: ColumnDigests) -> str:
    known = "as stamped"
    if column.stamped is None:
        known = "not stamped"
    elif column.held is None:
        known = "stamped, and not in the file"
    return f"{known}, {column.pattern}" if column.pattern else known


def word_lines(report: BlameReport) -> list[Text]:
    """The words of the columns that differ; columns of which as little is known stand together."""
    if not report.comparisons:
        return []
    groups: dict[str, list[ByteComparison]] = {}
    for comparison in report.comparisons:
        known = comparison.column if comparison.num_differing else comparison.says
        groups.setdefault(known, []).append(comparison)
    alike = list(groups.values())
    lines = [heading("words")]
    for group in alike[:MAX_COMPARED]:
        names = listed([comparison.column for comparison in group])
        lines.append(line(f"{names}: {_counted(group[0])}", indent=1))
        lines += aligned([cells for each in group for cells in _word_cells(each)], indent=2)
    rest = [comparison.column for group in alike[MAX_COMPARED:] for comparison in group]
    if rest:
        lines.append(line(f"and in {listed(rest)}", indent=1))
    return lines


def _counted(comparison: ByteComparison) -> str:
    if comparison.num_words is None or comparison.num_differing is None:
        return comparison.says
    counts = f"{comparison.num_differing:,} of {count_label(comparison.num_words, 'word')}"
    verb = "differs" if comparison.num_differing == 1 else "differ"
    return f"{comparison.says}: {counts} {verb}"


def _word_cells(comparison: ByteComparison) -> Iterator[tuple[str, ...]]:
    """The first words that differ; where nothing is known of them, the first of all."""
    if not comparison.num_differing:
        for word in comparison.words[:1]:
            yield (comparison.column, f"byte {word.byte}", f"holds {_hex(word.holds)}")
        return
    for word in comparison.words[:MAX_WORDS]:
        was = "" if word.other is None else f"was {_hex(word.other)}"
        bits = "" if word.bits is None else count_label(word.bits, "bit")
        yield (f"byte {word.byte}", f"holds {_hex(word.holds)}", was, bits)


def _hex(word: int) -> str:
    """The word's bytes in memory order: `3f 80 00 00 00 00 00 00`."""
    return word.to_bytes(WORD_BYTES, "little").hex(" ")


def copy_lines(report: BlameReport) -> list[Text]:
    """The slots that share content; where some share most of it, those that share less are counted."""
    if not report.copies:
        return []
    shown = (close_copies(report) or report.copies)[:MAX_COPIES]
    cells = [_copy_cells(copy, report) for copy in shown]
    rest = report.num_copies - len(shown)
    less = " that share less" if len(shown) < min(MAX_COPIES, len(report.copies)) else ""
    more = [line(f"and {rest:,} more{less}", indent=1)] if rest > 0 else []
    title = f"  {count_label(report.num_copies, 'slot')} of those searched"
    return [line(("same content", "bold"), title), *aligned(cells), *more]


def close_copies(report: BlameReport) -> list[ContentCopy]:
    """Those that share a record or half of the columns: one column may be the same token's alone."""
    return [
        copy
        for copy in report.copies
        if copy.same_records or 2 * len(_shared_columns(copy)) >= len(report.columns)
    ]


def _shared_columns(copy: ContentCopy) -> set[str]:
    return {*copy.same_columns, *copy.stamped_columns, *copy.written_columns}


def _copy_cells(copy: ContentCopy, report: BlameReport) -> tuple[str, ...]:
    # What holds the same was mostly stamped so: only what it does not hold any more is news.
    lost = [name for name in copy.stamped_columns if name not in copy.same_columns]
    shares = [
        f"the same record in {', '.join(copy.same_records)}" if copy.same_records else "",
        _shared("holds the same", copy.same_columns, report),
        _shared("was stamped with what this slot holds", lost, report),
        _shared("holds what was stamped in this slot", copy.written_columns, report),
    ]
    return (
        slot_label(copy.slot, report.page_size),
        readers_label(copy.readers) or unread_label(report),
        "; ".join(filter(None, shares)),
    )


def _shared(what: str, columns: Sequence[str], report: BlameReport) -> str:
    """`holds the same in 3 of 60 columns (kv.k.0-2)`."""
    if not columns:
        return ""
    _, names = column_labels(columns)
    return f"{what} in {len(columns)} of {count_label(len(report.columns), 'column')} ({names})"
