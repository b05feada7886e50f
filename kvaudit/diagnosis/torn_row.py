"""KV303 torn-row: a slot is half of one content and half of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_layer
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import homes_in
from kvaudit.diagnosis.byte_rows import ByteRows, byte_rows, folded, words_of
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Rule, at, content_at, hashes_counted

RULE = Rule(id="KV303", name="torn-row", severity=Severity.ERROR)

# One part in so many of a row be another slot's: rows of the same token have single words in common.
_MIN_SHARE: Final = 4
_WORD_BYTES: Final = 8
# Columns whose ends are read of all rows.
_MAX_COLUMNS: Final = 4
# Layers on either side of a tear between layers: a single one is rather damage of that layer.
_MIN_LAYERS: Final = 2


def explain(failures: Failures) -> list[Explanation]:
    """Rows whose end or beginning is another slot's, or of which some layers on are not their own.

    Such a slot was read or copied while it was written, or written by two at once. Where the other
    half is of no slot in the dump, and the tear within a row, nothing tells it from other bytes.
    """
    view = failures.byte_view
    return [*_torn_in_rows(view), *_torn_between_layers(view)]


def _torn_in_rows(view: ByteView) -> Iterator[Explanation]:
    """A slot is torn in all its columns, so that the first one which differs is looked at.

    Where only the combined hash of several differs, nothing says which one that is.
    """
    asked = np.empty(0, dtype=np.int64)
    num_columns = 0
    for part in byte_rows(view):
        members = np.flatnonzero(~np.isin(part.rows, asked))
        if part.is_solved or part.data is None or not members.size:
            continue
        if part.data.shape[1] <= _WORD_BYTES or num_columns == _MAX_COLUMNS:
            continue
        num_columns += 1
        asked = np.union1d(asked, part.rows)
        ends = _end_words(view, part.column, part.data.shape[1])
        for is_tail in (False, True):
            yield from _shared_ends(
                view, part, members, ends=ends[:, int(is_tail)], is_tail=is_tail
            )


def _end_words(view: ByteView, column: str, num_bytes: int) -> NDArray[np.uint64]:
    """The first and the last hashed word of every row of a column, shape [num_rows, 2], uint64."""
    kv_column = view.evidence.snapshot.kv[column]
    ends = np.empty((kv_column.num_rows, 2), dtype=np.uint64)
    last_word = (num_bytes - 1) // _WORD_BYTES * _WORD_BYTES
    for window in kv_column.windows():
        rows = slice(window.first_row, window.first_row + len(window.data))
        ends[rows, :1] = words_of(window.data[:, : min(_WORD_BYTES, num_bytes)])
        ends[rows, 1:] = words_of(window.data[:, last_word:num_bytes])
    return ends


def _shared_ends(
    view: ByteView,
    part: ByteRows,
    members: NDArray[np.int64],
    *,
    ends: NDArray[np.uint64],
    is_tail: bool,
) -> Iterator[Explanation]:
    """Rows of which this end is that of a slot whose content is another one."""
    elsewhere = ends.copy()
    elsewhere[part.rows] = 0
    wanted = ends[part.rows[members]]
    donors = homes_in(elsewhere, wanted)
    found = (donors >= 0) & (wanted != 0)
    members, donors = members[found], donors[found]
    theirs = view.content.kv_bytes(part.column, donors)
    if theirs is None or part.words is None or part.data is None or not members.size:
        return
    words = words_of(theirs[:, : part.data.shape[1]])
    same = part.words[members] == words
    num_words = same.shape[1]
    along = same[:, ::-1] if is_tail else same
    shared = np.where(same.all(axis=1), num_words, np.argmin(along, axis=1))
    torn = (shared * _MIN_SHARE >= num_words) & ~along[:, -1]
    # What holds the right content has more in common with it than this end.
    torn &= folded(words) != part.written[members]
    for member, donor, length in zip(
        members[torn].tolist(), donors[torn].tolist(), shared[torn].tolist(), strict=True
    ):
        split = (num_words - length if is_tail else length) * _WORD_BYTES
        yield _in_row(view, part, int(part.rows[member]), donor=donor, split=split, is_tail=is_tail)


def _in_row(
    view: ByteView, part: ByteRows, row: int, *, donor: int, split: int, is_tail: bool
) -> Explanation:
    slots = view.evidence.snapshot.slots
    where = f"from byte {split} on" if is_tail else f"up to byte {split}"
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=row,
            summary=(
                f"{at(slots[row], view.evidence)} is torn: {where}, "
                f"{part.column} holds what {at(slots[donor], view.evidence)} holds there"
            ),
            roots=np.array([row], dtype=np.int64),
            facts={
                "column": part.column,
                "split_byte": split,
                "part": "tail" if is_tail else "head",
                "content_of_slot": int(slots[donor]),
            },
        )
    )


def _torn_between_layers(view: ByteView) -> Iterator[Explanation]:
    """Rows that differ in all columns from some layer on, or up to some layer, and in no other."""
    channels = {channel.name: channel.rows for channel in view.channels() if channel.is_column}
    columns = [name for name in view.kv_columns if name in view.evidence.snapshot.stamped]
    layers = sorted({layer for name in columns if (layer := column_layer(name)) is not None})
    open_rows = [channels[name] for name in columns if name in channels]
    if len(layers) < 2 * _MIN_LAYERS or not open_rows:
        return
    rows = np.unique(np.concatenate(open_rows))
    wrong = np.ones((len(rows), len(layers)), dtype=np.bool_)
    touched = np.zeros_like(wrong)
    for name in columns:
        here = np.isin(rows, channels.get(name, rows[:0]))
        number = layers.index(column_layer(name) or 0)
        wrong[:, number] &= here
        touched[:, number] |= here
    for is_tail in (True, False):
        along = wrong[:, ::-1] if is_tail else wrong
        counts = np.where(along.all(axis=1), 0, np.argmin(along, axis=1))
        torn = (wrong == touched).all(axis=1) & (touched.sum(axis=1) == counts)
        torn &= (counts >= _MIN_LAYERS) & (counts <= len(layers) - _MIN_LAYERS)
        for count in np.unique(counts[torn]).tolist():
            split = layers[len(layers) - count] if is_tail else layers[count - 1]
            for run in view.bounded_runs(rows[torn & (counts == count)]):
                yield _between_layers(view, run, split=split, is_tail=is_tail)


def _between_layers(
    view: ByteView, run: NDArray[np.int64], *, split: int, is_tail: bool
) -> Explanation:
    slot = view.evidence.snapshot.slots[run[0]]
    which = f"from layer {split} on" if is_tail else f"up to layer {split}"
    more = f"; {hashes_counted(len(run), view.evidence)} in a row" if len(run) > 1 else ""
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=run.tobytes(),
            summary=(
                f"{content_at(slot, view.evidence)} is torn between layers: {which} it is not what was "
                f"stamped, and the others are{more}"
            ),
            roots=run,
            facts={"split_layer": split, "part": "tail" if is_tail else "head"},
            alternatives=("KV203", "KV301"),
            settled_by="another copy of these slots: the sender's dump, or one of an earlier step",
        )
    )
