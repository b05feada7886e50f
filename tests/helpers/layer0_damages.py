"""Ten ways to damage layer 0 of a real pool, as its own rows and its model's make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.element_types import decoded, encoded
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import Snapshot

K, V = "kv.k.0", "kv.v.0"


@dataclass(kw_only=True)
class Layer0Copy:
    """Layer 0 of a pool without stamps, to write to.

    Fields:
        k, v: bytes of each row of the snapshot, shape [num_rows, row_bytes], uint8.
        table: the model's rows, of all heads.
    """

    snapshot: Snapshot
    sequences: Sequences
    table: Layer0Table
    k: np.ndarray
    v: np.ndarray
    metadata: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, pool: AuditedPool, table: Layer0Table, *, head: int | None = None) -> Layer0Copy:
        """The pool itself, or what a rank that has one of its heads would hold."""
        snapshot = pool.snapshot
        halves = [snapshot.kv[name].read_rows(0, snapshot.num_rows).copy() for name in (K, V)]
        metadata = {}
        if head is not None:
            width = halves[0].shape[1] // table.num_heads
            halves = [half[:, head * width : (head + 1) * width].copy() for half in halves]
            metadata = {"tp_rank": str(head), "world_size": str(table.num_heads)}
        return cls(
            snapshot=snapshot,
            sequences=pool.sequences[0],
            table=table,
            k=halves[0],
            v=halves[1],
            metadata=metadata,
        )

    def live(self, min_rows: int) -> list[int]:
        """Live sequences of at least so many rows."""
        held = [min(n, k) for n, k in zip(self.lengths, self.sequences.kv_lens, strict=True)]
        return [
            number
            for number, length in enumerate(held)
            if length >= min_rows and self.sequences.states[number] is not SequenceState.FINISHED
        ]

    @property
    def lengths(self) -> list[int]:
        return np.diff(self.sequences.slot_offsets).tolist()

    def rows_of(self, number: int) -> np.ndarray:
        """The rows of a sequence, in its order."""
        slots = self.sequences.slots_of(number)[: self.sequences.kv_lens[number]]
        return self.snapshot.rows_of(slots.copy())

    def own_rows(self, number: int) -> np.ndarray:
        """Where its own rows begin and end: those that no other sequence reads, as a mask."""
        rows = self.rows_of(number)
        others = [
            self.rows_of(other) for other in range(self.sequences.num_sequences) if other != number
        ]
        return ~np.isin(rows, np.concatenate(others))

    def write(self, rows: np.ndarray, tokens: Sequence[int], positions: Sequence[int]) -> None:
        """What a forward of this model would leave in rows."""
        entries = self.table.rows_of(np.array(tokens, dtype=np.int64))
        turned = self.table.rope.rotated(
            self.table.k_rows(entries), np.array(positions, dtype=np.int64)
        )
        heads = self._heads
        self.k[rows] = encoded(turned[:, heads].reshape(len(rows), -1), self.dtype)
        self.v[rows] = encoded(
            self.table.v_rows(entries)[:, heads].reshape(len(rows), -1), self.dtype
        )

    @property
    def _heads(self) -> slice:
        if "tp_rank" not in self.metadata:
            return slice(None)
        return slice(int(self.metadata["tp_rank"]), int(self.metadata["tp_rank"]) + 1)

    @property
    def dtype(self) -> str:
        return self.snapshot.kv[V].dtype.removeprefix("torch.")

    def copy(self, sources: np.ndarray, targets: np.ndarray) -> None:
        for data in (self.k, self.v):
            data[targets] = data[sources].copy()

    def dataset(self) -> Dataset:
        kv = {
            name: ArrayKvColumn(name=name, data=data, read_bytes=data.shape[1], dtype=self.dtype)
            for name, data in ((K, self.k), (V, self.v))
        }
        snapshot = replace(
            self.snapshot,
            kv=kv,
            canary={},
            stamped={},
            digests={},
            stamped_columns=(),
            metadata=self.metadata,
        )
        return Dataset(pools=[AuditedPool(snapshot=snapshot, sequences=(self.sequences,))])


Damage = Callable[[Layer0Copy, np.random.Generator], None]


def _stretch(copy: Layer0Copy, rng: np.random.Generator, length: int) -> tuple[int, np.ndarray]:
    """A sequence, and rows of it that it alone holds and that fill pages from their beginning."""
    size = copy.snapshot.page_size
    for number in rng.permutation(copy.live(length)).tolist():
        own = copy.own_rows(number)
        starts = [
            start
            for start in range(0, len(own) - length + 1, size)
            if own[start : start + length].all()
        ]
        if starts:
            start = int(rng.choice(starts))
            return number, copy.rows_of(number)[start : start + length]
    raise AssertionError("no sequence is long enough")


def overwritten_page(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """A page of a text that is in no sequence of the dump."""
    _, rows = _stretch(copy, rng, copy.snapshot.page_size)
    first = int(rng.integers(200))
    tokens = rng.integers(1000, copy.table.num_tokens, len(rows)).tolist()
    copy.write(rows, tokens, range(first, first + len(rows)))


def swapped_pages(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """Two pages of one request, or of two, change places."""
    _, one = _stretch(copy, rng, copy.snapshot.page_size)
    other = one
    while np.isin(other, one).any():
        _, other = _stretch(copy, rng, copy.snapshot.page_size)
    copy.copy(np.concatenate((one, other)), np.concatenate((other, one)))


def foreign_prefix(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """The beginning of a request is that of another one."""
    size = int(rng.integers(8, 20))
    one, other = rng.permutation(copy.live(size))[:2].tolist()
    copy.copy(copy.rows_of(other)[:size], copy.rows_of(one)[:size])


def one_late_token(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """One row of another request lands on a slot."""
    one, other = rng.permutation(copy.live(4))[:2].tolist()
    target, source = (rng.choice(copy.rows_of(number), 1) for number in (one, other))
    copy.copy(source, target)


def shifted_slots(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """The rows of a stretch stand one slot further than they should."""
    _, rows = _stretch(copy, rng, copy.snapshot.page_size)
    copy.copy(rows[:-1], rows[1:])


def rotated_for_another_position(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """Right tokens, with K rotated for positions that are off by a constant."""
    number, rows = _stretch(copy, rng, copy.snapshot.page_size)
    delta = int(rng.choice([1, 2, 7, 16, 100, 1000]))
    start = int(np.flatnonzero(copy.rows_of(number) == rows[0])[0])
    tokens = copy.sequences.tokens_of(number)[start : start + len(rows)].tolist()
    before = copy.v.copy()
    copy.write(rows, tokens, range(start + delta, start + delta + len(rows)))
    copy.v = before


def zero_rows(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """Some rows never arrived."""
    _, rows = _stretch(copy, rng, copy.snapshot.page_size)
    rows = rows[: int(rng.integers(1, len(rows) + 1))]
    copy.k[rows] = copy.v[rows] = 0


def ranks_mixed(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """A page that another rank should hold: the same tokens, other heads."""
    number, rows = _stretch(copy, rng, copy.snapshot.page_size)
    start = int(np.flatnonzero(copy.rows_of(number) == rows[0])[0])
    tokens = copy.sequences.tokens_of(number)[start : start + len(rows)].tolist()
    here = dict(copy.metadata)
    others = [n for n in range(copy.table.num_heads) if str(n) != here["tp_rank"]]
    copy.metadata = here | {"tp_rank": str(rng.choice(others))}
    copy.write(rows, tokens, range(start, start + len(rows)))
    copy.metadata = here


def stale_table(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """A request's block table names pages that are now of a request that has finished."""
    size = copy.snapshot.page_size
    states = list(copy.sequences.states)
    length = 2 * size
    one, other = rng.permutation(copy.live(length))[:2].tolist()
    states[other] = SequenceState.FINISHED
    slots = copy.sequences.slots.copy()
    first, its = (int(copy.sequences.slot_offsets[number]) for number in (one, other))
    slots[first + size : first + length] = slots[its + size : its + length]
    copy.sequences = replace(copy.sequences, states=states, slots=slots)


def wrong_element_type(copy: Layer0Copy, rng: np.random.Generator) -> None:
    """A page, or the whole column, was written as float16 where the pool is bfloat16."""
    rows = np.arange(len(copy.v))
    if rng.random() < 0.5:
        _, rows = _stretch(copy, rng, copy.snapshot.page_size)
    for data in (copy.k, copy.v):
        data[rows] = encoded(decoded(data[rows], copy.dtype), "float16")


DAMAGES: tuple[Damage, ...] = (
    overwritten_page,
    swapped_pages,
    foreign_prefix,
    one_late_token,
    shifted_slots,
    rotated_for_another_position,
    zero_rows,
    ranks_mixed,
    stale_table,
    wrong_element_type,
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one damage: rows that changed, those of them that a finding has, and other accused ones."""

    changed: int
    found: int
    accused: int


def expected_rows(copy: Layer0Copy) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    """By sequence and position, the bytes that its row holds."""
    held = {}
    for number in range(copy.sequences.num_sequences):
        for position, row in enumerate(copy.rows_of(number).tolist()):
            held[number, position] = (row, copy.k[row].tobytes() + copy.v[row].tobytes())
    return held


def outcome(
    copy: Layer0Copy,
    damage: Damage,
    rng: np.random.Generator,
    *,
    accused_slots: Callable[[Layer0Copy], set[int]],
) -> Outcome:
    """Damage a copy and compare what changed with what an audit accuses."""
    before = expected_rows(copy)
    damage(copy, rng)
    slots = copy.snapshot.slots
    changed = {
        int(slots[row])
        for place, (row, content) in expected_rows(copy).items()
        if place in before and before[place][1] != content
    }
    accused = accused_slots(copy)
    return Outcome(
        changed=len(changed),
        found=len(changed & accused),
        accused=len(accused - changed),
    )
