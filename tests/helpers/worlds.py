"""Small pools with their requests, stamped by a model of DESIGN.md 3 that shares no code with it.

`build()` is Fixture F of CASES.md 2 without its requests; `fixture_f()` has them. A world is mutable:
`corruptions` damages its arrays, then `snapshot`, `sequences`, `plan` and `dataset` freeze it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import PoolKey, Snapshot

MASK = (1 << 64) - 1
HEAD_HASH = 0xDE7FAE23A9A1B716


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def link(prev_hash: int, token: int, position: int) -> int:
    running = mix(prev_hash)
    for word in (token, position):
        running = mix(running ^ (word & MASK))
    return running


def fold(data: bytes) -> int:
    running = 0
    for first in range(0, len(data), 8):
        running = mix(running ^ int.from_bytes(data[first : first + 8].ljust(8, b"\0"), "little"))
    return running


@dataclass(kw_only=True)
class Request:
    request_id: str
    tokens: list[int]
    slots: list[int]
    kv_len: int
    start_position: int = 0
    state: SequenceState | None = None
    extra_key: str | None = None


@dataclass(kw_only=True)
class World:
    """A pool as arrays over all of its slots, and what it should hold.

    Fields:
        records: by canary column, shape [num_slots, 4], uint64.
        kv: by KV column, shape [num_slots, row_bytes], uint8.
        stamps: by KV column, shape [num_slots], uint64.
        evidence: by evidence column, shape [num_slots].
    """

    num_slots: int
    page_size: int
    reserved: SlotRanges
    mode: RealKvHashMode
    stamped_columns: tuple[str, ...]
    key: PoolKey
    records: dict[str, np.ndarray]
    kv: dict[str, np.ndarray]
    stamps: dict[str, np.ndarray] = field(default_factory=dict)
    evidence: dict[str, np.ndarray] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    read_bytes: int = 16

    def request_of(self, request_id: str) -> Request:
        return next(request for request in self.requests if request.request_id == request_id)

    def real_kv_hash(self, slot: int, half: str) -> int:
        """The combined hash of a slot's bytes as they are now."""
        names = [
            name for name in self.stamped_columns if (name.split(".")[1] == "v") == (half == "v")
        ]
        if self.mode is RealKvHashMode.NONE:
            return 0
        length = 16 if self.mode is RealKvHashMode.PARTIAL else self.read_bytes
        running = 0
        for name in names:
            running = mix(running ^ fold(self.kv[name][slot, :length].tobytes()))
        return running

    def stamp_record(self, slot: int, *, token: int, position: int, prev_hash: int) -> None:
        for column, records in self.records.items():
            half, buffer = column.split(".")
            real = 0 if buffer == "head" else self.real_kv_hash(slot, half)
            records[slot] = (token & MASK, position & MASK, prev_hash, real)

    def stamp_digests(self, slot: int) -> None:
        for name, stamps in self.stamps.items():
            stamps[slot] = fold(self.kv[name][slot, : self.read_bytes].tobytes())

    def stamp_request(self, request: Request, *, first: int = 0) -> None:
        """Write a request's bytes, records and stamps as an engine does, from an entry on."""
        running = HEAD_HASH
        for idx, slot in enumerate(request.slots[: request.kv_len - request.start_position]):
            position = request.start_position + idx
            token = request.tokens[position]
            if idx >= first and slot not in self.reserved:
                for name, data in self.kv.items():
                    data[slot] = content(name, token, position, data.shape[1])
                self.stamp_record(slot, token=token, position=position, prev_hash=running)
                self.stamp_digests(slot)
            running = link(running, token, position)

    def snapshot(
        self,
        *,
        slots: Sequence[int] | None = None,
        digests_only: bool = False,
        **changes: object,
    ) -> Snapshot:
        """The pool, dense or with some slots alone."""
        rows = (
            np.arange(self.num_slots) if slots is None else np.array(sorted(slots), dtype=np.int64)
        )
        digests = {
            name: np.array(
                [fold(row[: self.read_bytes].tobytes()) for row in data], dtype=np.uint64
            )
            for name, data in self.kv.items()
        }
        snapshot = Snapshot(
            slots=rows.astype(np.int64),
            num_slots=self.num_slots,
            page_size=self.page_size,
            reserved_slots=self.reserved,
            key=self.key,
            real_kv_hash_mode=self.mode,
            stamped_columns=self.stamped_columns,
            canary={
                name: ArrayColumn(name=f"canary.{name}", values=records[rows].view(np.int64))
                for name, records in self.records.items()
            },
            kv={}
            if digests_only
            else {
                name: ArrayKvColumn(name=name, data=data[rows], read_bytes=self.read_bytes)
                for name, data in self.kv.items()
            },
            stamped=_columns(self.stamps, rows, "stamped"),
            digests=_columns(digests, rows, "digest") if digests_only else {},
            evidence={
                name: ArrayColumn(name=name, values=values[rows])
                for name, values in self.evidence.items()
            },
        )
        return replace(snapshot, **changes) if changes else snapshot

    def sequences(self, *, tokens: bool = True) -> Sequences:
        """The requests; without tokens all of them are unknown."""
        return sequences_of(self.requests, key=self.key, tokens=tokens)

    def plan(
        self,
        *,
        check_tokens: bool = True,
        padding: int = 0,
        tags: tuple[LaunchTag, ...] | None = None,
        names: bool = True,
        step: int | None = None,
        enable: bool = True,
    ) -> PlanDump:
        """The requests as one launch, with unfilled rows at the end."""
        rows = [
            (slot, request.tokens[position], position, prev, request.request_id)
            for request in self.requests
            for position, slot, prev in _entries(request)
        ] + [(0, -1, 0, 0, "")] * padding
        columns = [np.array([row[idx] for row in rows], dtype=np.int64) for idx in range(4)]
        plan = VerifyPlan(
            verify_slot_indices=columns[0],
            verify_expected_tokens=columns[1],
            verify_expected_positions=columns[2],
            verify_prev_slot_indices=columns[3],
            num_valid=len(rows),
            enable=enable,
        )
        launch = PlannedLaunch(
            step=step,
            tags=tags,
            plan=plan,
            check_verify_expected_token=check_tokens,
            request_ids=[row[4] for row in rows] if names else None,
        )
        return PlanDump(key=self.key, launches=[launch])

    def dataset(self, *, tokens: bool = True, snapshot: Snapshot | None = None) -> Dataset:
        """The pool with its sequences."""
        pool = AuditedPool(
            snapshot=self.snapshot() if snapshot is None else snapshot,
            sequences=(self.sequences(tokens=tokens),),
        )
        return Dataset(pools=[pool])


@dataclass(kw_only=True)
class Builder:
    """Collects requests, then stamps them in order."""

    world: World

    def request(
        self,
        request_id: str,
        *,
        tokens: Sequence[int],
        slots: Sequence[int],
        kv_len: int | None = None,
        shared: int = 0,
        start_position: int = 0,
        state: SequenceState | None = None,
        extra_key: str | None = None,
    ) -> Builder:
        """Add a request; its first `shared` slots were written by another one."""
        default = min(len(tokens), start_position + len(slots))
        request = Request(
            request_id=request_id,
            tokens=list(tokens),
            slots=list(slots),
            kv_len=default if kv_len is None else kv_len,
            start_position=start_position,
            state=state,
            extra_key=extra_key,
        )
        self.world.requests.append(request)
        self.world.stamp_request(request, first=shared)
        return self

    def done(self) -> World:
        return self.world


def build(
    *,
    num_slots: int = 16,
    page_size: int = 2,
    num_layers: int = 2,
    row_bytes: int = 16,
    mode: RealKvHashMode = RealKvHashMode.NONE,
    stamped_columns: Sequence[str] = ("kv.k.0",),
    stamps: Iterable[str] = (),
    canary: Iterable[str] = ("k.tail",),
    reserved: str = "0",
    key: PoolKey | None = None,
) -> Builder:
    """An empty pool; the defaults are Fixture F's."""
    names = [f"kv.{half}.{layer}" for layer in range(num_layers) for half in "kv"]
    return Builder(
        world=World(
            num_slots=num_slots,
            page_size=page_size,
            reserved=SlotRanges.parse(reserved),
            mode=mode,
            stamped_columns=() if mode is RealKvHashMode.NONE else tuple(stamped_columns),
            key=PoolKey() if key is None else key,
            records={name: np.zeros((num_slots, 4), dtype=np.uint64) for name in canary},
            kv={name: np.zeros((num_slots, row_bytes), dtype=np.uint8) for name in names},
            stamps={name: np.zeros(num_slots, dtype=np.uint64) for name in stamps},
            read_bytes=row_bytes,
        )
    )


def fixture_f(**options: object) -> World:
    """Fixture F of CASES.md 2: requests A and B."""
    return (
        build(**options)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9])
        .done()
    )


def content(name: str, token: int, position: int, row_bytes: int) -> np.ndarray:
    """The bytes a forward would write: they depend on column, token and position."""
    seed = sum(ord(letter) << (8 * (idx % 6)) for idx, letter in enumerate(name))
    words = [
        mix(mix(mix(seed + word) ^ (token & MASK)) ^ (position + 1)) or 1
        for word in range(-(-row_bytes // 8))
    ]
    return np.array(words, dtype=np.uint64).view(np.uint8)[:row_bytes]


def sequences_of(
    requests: Sequence[Request], *, key: PoolKey | None = None, tokens: bool = True
) -> Sequences:
    """Requests as a Sequences object."""
    flat_tokens = [token if tokens else -1 for request in requests for token in request.tokens]
    return Sequences(
        key=PoolKey() if key is None else key,
        request_ids=[request.request_id for request in requests],
        token_offsets=_offsets(len(request.tokens) for request in requests),
        tokens=np.array(flat_tokens, dtype=np.int64),
        slot_offsets=_offsets(len(request.slots) for request in requests),
        slots=np.array([slot for request in requests for slot in request.slots], dtype=np.int64),
        kv_lens=np.array([request.kv_len for request in requests], dtype=np.int64),
        start_positions=np.array([request.start_position for request in requests], dtype=np.int64),
        prompt_lens=np.full(len(requests), -1, dtype=np.int64),
        states=[request.state for request in requests],
        extra_keys=[request.extra_key for request in requests],
    )


def _entries(request: Request) -> list[tuple[int, int, int]]:
    """(position, slot, prev slot) of a request's entries."""
    first_prev = -1 if request.start_position == 0 else 0
    prevs = [first_prev, *request.slots]
    return [
        (request.start_position + idx, slot, prevs[idx])
        for idx, slot in enumerate(request.slots[: request.kv_len - request.start_position])
    ]


def _offsets(lengths: Iterable[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(list(lengths)))).astype(np.int64)


def _columns(values: dict[str, np.ndarray], rows: np.ndarray, kind: str) -> dict[str, ArrayColumn]:
    return {
        name: ArrayColumn(
            name=f"{kind}.{name.removeprefix('kv.')}", values=column[rows].view(np.int64)
        )
        for name, column in values.items()
    }
