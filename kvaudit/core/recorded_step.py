"""A run, step by step: what changed in an engine's tables, and what its launches did.

A trace alone gives back the tables and the records of a run. Whoever replays it keeps a table of
slots by request row and position, without a slot anywhere at first, and takes each `RecordedStep`
in these parts, in this order:

1. `edits`: edit i sets positions [positions[i], positions[i] + lens[i]) of row request_index[i].
2. `freed`: the row's first lens[i] positions stay in memory as a finished sequence, up to the first
   whose slot is written or copied to later. The row has no slot then, and may be given to another
   request by a later row of the trace.
3. `copies`: the records of the source slots replace those of the targets, all read before one is
   written.
4. `batch`, verify: the plan kernel's rules on the table, with its request_index, prefix_lens and
   extend_seq_lens. A position without a slot is padding (slot 0), and as a predecessor is not
   reachable.
5. `write`: the write kernel's rules. Afterwards entry i of the batch's request b stands in its row
   at position prefix_lens[b] + i: with out_cache_loc of the entry, or, where that is negative,
   without a slot.

What a trace cannot tell is the KV, and with it each record's real_kv_hash: snapshots hold them. A
snapshot of step N holds what all parts of the steps up to N left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlannedLaunch, PlannedWrite
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ValuesInvalid

_NOTHING: Final = np.empty(0, dtype=np.int64)
_NOTHING.setflags(write=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableEdits:
    """Parts of request rows that are set before the step runs: what no write of the row explains.

    A shared prefix, a fork, a block replaced by an equal one, a position that left the window.

    Fields:
        request_index: the row of each edit, shape [n], int64, from 1.
        positions: its first position, shape [n], int64.
        lens: how many positions it sets, shape [n], int64.
        slots: their slots, edit after edit, shape [lens.sum()], int64; negative = none.
    """

    request_index: NDArray[np.int64]
    positions: NDArray[np.int64]
    lens: NDArray[np.int64]
    slots: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.request_index) == len(self.positions) == len(self.lens):
            raise ValuesInvalid("the lists of the table edits have different lengths")
        if int(self.lens.sum()) != len(self.slots):
            raise ValuesInvalid(
                f"the table edits set {int(self.lens.sum())} positions to {len(self.slots)} slots"
            )

    def __iter__(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Row, first position, and slots, shape [its len], int64, of each edit."""
        ends = np.cumsum(self.lens).tolist()
        parts = (self.request_index.tolist(), self.positions.tolist(), self.lens.tolist(), ends)
        for row, position, length, end in zip(*parts, strict=True):
            yield row, position, self.slots[end - length : end]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FreedRequests:
    """Requests that the engine is done with.

    Fields:
        request_index: their rows, shape [n], int64, from 1.
        lens: positions of each that stay in memory, shape [n], int64, in tokens.
    """

    request_index: NDArray[np.int64]
    lens: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.request_index) != len(self.lens):
            raise ValuesInvalid("the lists of the freed requests have different lengths")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotCopies:
    """Slots that the engine copied.

    Fields:
        src: the sources, shape [n], int64.
        dst: the targets, shape [n], int64.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.src) != len(self.dst):
            raise ValuesInvalid(f"{len(self.src)} source slots for {len(self.dst)} targets")


NO_EDITS: Final = TableEdits(
    request_index=_NOTHING, positions=_NOTHING, lens=_NOTHING, slots=_NOTHING
)
NONE_FREED: Final = FreedRequests(request_index=_NOTHING, lens=_NOTHING)
NO_COPIES: Final = SlotCopies(src=_NOTHING, dst=_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedBatch:
    """What the plan kernel was given of a step's requests.

    Fields:
        request_index: row of each request in the table, shape [bs], int64; PADDING_REQUEST is none.
        prefix_lens: positions already written, shape [bs], int64, in tokens.
        extend_seq_lens: positions that the step writes, shape [bs], int64, in tokens.
    """

    request_index: NDArray[np.int64]
    prefix_lens: NDArray[np.int64]
    extend_seq_lens: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {len(self.request_index), len(self.prefix_lens), len(self.extend_seq_lens)}
        if len(lengths) != 1:
            raise ValuesInvalid(f"the batch's lists have different lengths: {sorted(lengths)}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedStep:
    """One row of a trace. The module's docstring says in which order its parts are applied.

    Fields:
        step: the engine's step. Steps never fall; a row without `write` may share that of another.
        tags: the launches that ran, ascending; None = not said.
        edits: what changed in the table.
        freed: the requests that ended.
        copies: the slots that were copied.
        batch: what was planned; None where nothing ran.
        write: what was written; None where nothing was.
        verify: the entries that were checked; None = derived from the table and the batch.
    """

    step: int
    tags: tuple[LaunchTag, ...] | None = None
    edits: TableEdits = NO_EDITS
    freed: FreedRequests = NONE_FREED
    copies: SlotCopies = NO_COPIES
    batch: RecordedBatch | None = None
    write: PlannedWrite | None = None
    verify: PlannedLaunch | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.write is not None:
            num_requests = len(self.batch.request_index)
            if num_requests > self.write.plan.capacity:
                raise ValuesInvalid(
                    f"{num_requests} requests for {self.write.plan.capacity} seeds of the write plan"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceExtent:
    """How large a trace is: what a replay allocates.

    Fields:
        num_rows: its rows.
        first_step: step of the first row; None without rows.
        last_step: step of the last row; None without rows.
        num_request_rows: rows of the table, the padding row included.
        max_len: positions of the longest row.
        max_requests: requests of the largest batch.
        max_verify_entries: entries of the largest verify plan that a batch gives without a window.
    """

    num_rows: int
    first_step: int | None
    last_step: int | None
    num_request_rows: int
    max_len: int
    max_requests: int
    max_verify_entries: int


class Trace(Protocol):
    """A recorded run of one pool, read as it is walked: any length needs bounded memory."""

    @property
    def path(self) -> str:
        """The file as the user wrote it."""
        ...

    @property
    def key(self) -> PoolKey:
        """The pairing key, without a step."""
        ...

    @property
    def extent(self) -> TraceExtent:
        """How large it is."""
        ...

    def steps(self) -> Iterator[RecordedStep]:
        """All rows in order; each call walks them anew.

        Raises:
            InputError: a row is not what the format says.
        """
        ...
