"""An engine's page tables, tokens and lengths as sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import Indexed, indexed, text, texts
from kvaudit.constants import UNKNOWN_LENGTH, UNKNOWN_TOKEN
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    import torch

Integers: TypeAlias = "torch.Tensor | NDArray[np.integer[Any]] | Sequence[int]"
IntegerLists: TypeAlias = "torch.Tensor | NDArray[np.integer[Any]] | Sequence[Integers]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRow:
    """One sequence before it is laid flat.

    Fields:
        request_id: its name.
        tokens: token ids from position 0, shape [n], int64; -1 = unknown.
        slots: slot of each position from start_position on, shape [m], int64.
        kv_len: positions whose KV is written.
        start_position: position of the first slot.
        prompt_len: prompt tokens; -1 = unknown.
        state: what the sequence is to its engine; None = not given.
        extra_key: LoRA, cache salt or media key; None = not given.
    """

    request_id: str
    tokens: NDArray[np.int64]
    slots: NDArray[np.int64]
    kv_len: int
    start_position: int = 0
    prompt_len: int = UNKNOWN_LENGTH
    state: SequenceState | None = None
    extra_key: str | None = None

    @property
    def live_slots(self) -> NDArray[np.int64]:
        """Slots of the positions below kv_len, shape [n], int64."""
        return self.slots[: max(0, self.kv_len - self.start_position)]


def flat_sequences(rows: Sequence[SequenceRow], key: PoolKey) -> Sequences:
    """The rows as one Sequences."""
    return Sequences(
        key=key,
        request_ids=[row.request_id for row in rows],
        token_offsets=_offsets(row.tokens for row in rows),
        tokens=_joined(row.tokens for row in rows),
        slot_offsets=_offsets(row.slots for row in rows),
        slots=_joined(row.slots for row in rows),
        kv_lens=np.array([row.kv_len for row in rows], dtype=np.int64),
        start_positions=np.array([row.start_position for row in rows], dtype=np.int64),
        prompt_lens=np.array([row.prompt_len for row in rows], dtype=np.int64),
        states=[row.state for row in rows],
        extra_keys=[row.extra_key for row in rows],
    )


def live_slots(rows: Sequence[SequenceRow]) -> NDArray[np.int64]:
    """The different slots of all positions below kv_len, ascending, shape [n], int64."""
    return np.unique(_joined(row.live_slots for row in rows))


def sequence_rows(
    *,
    num_slots: int,
    page_size: int,
    page_tables: IntegerLists | None,
    slots: IntegerLists | None,
    tokens: IntegerLists | None,
    kv_lens: Integers | None,
    request_ids: Sequence[str] | None,
    extra_keys: Sequence[str | None] | None,
) -> list[SequenceRow]:
    """One row a request, from the arguments of `dump`.

    Raises:
        ConfigError: naming the argument that does not fit the others.
    """
    if page_tables is not None and slots is None:
        tables, table_name, slots_per_entry = page_tables, "page_tables", page_size
    elif slots is not None and page_tables is None:
        tables, table_name, slots_per_entry = slots, "slots", 1
    else:
        raise ConfigError(
            "page_tables, slots: give exactly one of them",
            hint="page_tables for a paged engine, slots for a table of slots a token",
        )
    if page_tables is not None and kv_lens is None:
        raise ConfigError(
            "kv_lens: missing, and page_tables do not say how much of the last page is written",
            hint="give the number of tokens whose KV is written, one a request",
        )
    num_requests = len(indexed(tables, table_name))
    written = None if kv_lens is None else integers(kv_lens, "kv_lens")
    ids = range(num_requests) if request_ids is None else indexed(request_ids, "request_ids")
    _check_length("tokens", tokens, num_requests)
    _check_length("kv_lens", written, num_requests)
    _check_length("request_ids", request_ids, num_requests)
    _check_length("extra_keys", extra_keys, num_requests)
    names = texts(ids, "request_ids")
    rows = []
    for request_idx in range(num_requests):
        place = f"{table_name}[{request_idx}]"
        known = None if tokens is None else token_ids(tokens[request_idx], f"tokens[{request_idx}]")
        table = integers(tables[request_idx], place)
        kv_len = _kv_len(written, request_idx, tokens=known, table=table)
        request_slots = _slots_of(table, kv_len, slots_per_entry, num_slots=num_slots, place=place)
        extra_key = None if extra_keys is None else extra_keys[request_idx]
        rows.append(
            SequenceRow(
                request_id=names[request_idx],
                tokens=_unknown(kv_len) if known is None else known,
                slots=request_slots,
                kv_len=kv_len,
                extra_key=None if extra_key is None else text(extra_key, "extra_keys"),
            )
        )
    return rows


def _kv_len(
    kv_lens: NDArray[np.int64] | None,
    request_idx: int,
    *,
    tokens: NDArray[np.int64] | None,
    table: NDArray[np.int64],
) -> int:
    if kv_lens is None:
        return len(table) if tokens is None else min(len(tokens), len(table))
    kv_len = int(kv_lens[request_idx])
    if kv_len < 0:
        raise ConfigError(
            f"kv_lens[{request_idx}]: {kv_len}", hint="give the tokens whose KV is written"
        )
    return kv_len


def _slots_of(
    table: NDArray[np.int64], kv_len: int, slots_per_entry: int, *, num_slots: int, place: str
) -> NDArray[np.int64]:
    """Token i's slot is table[i // n] * n + i % n for n slots an entry."""
    entries = -(-kv_len // slots_per_entry)
    if len(table) < entries:
        raise ConfigError(
            f"{place}: {len(table)} entries, but kv_len {kv_len} needs {entries}",
            hint="check kv_lens and page_size, or pass the whole table",
        )
    positions = np.arange(kv_len, dtype=np.int64)
    offsets = positions % slots_per_entry
    pages = table[positions // slots_per_entry]
    # Compared before they are multiplied: a wild page could wrap around into the pool.
    outside = np.flatnonzero((pages < 0) | (pages > (num_slots - 1 - offsets) // slots_per_entry))
    if outside.size:
        position = int(outside[0])
        slot_idx = int(pages[position]) * slots_per_entry + int(offsets[position])
        raise ConfigError(
            f"{place}: position {position} is in slot {slot_idx}, but the pool has "
            f"{num_slots} slots",
            hint="check page_size, the layout and kv_lens, or whether the table is of another pool",
        )
    # A table of slots may go on past kv_len: blocks allocated ahead are evidence.
    return table if slots_per_entry == 1 else pages * slots_per_entry + offsets


def _check_length(name: str, values: Indexed[Any] | None, num_requests: int) -> None:
    if values is not None and len(indexed(values, name)) != num_requests:
        raise ConfigError(
            f"{name}: {len(values)} entries for {num_requests} requests",
            hint="give one entry a request, in the same order",
        )


def integers(values: Integers, place: str) -> NDArray[np.int64]:
    """A list, an array or a tensor on any device as shape [n], int64."""
    host = values.detach().cpu().numpy() if hasattr(values, "detach") else _array(values)
    if host.size == 0:
        return np.empty(0, dtype=np.int64)
    is_flat = host.ndim == 1 and np.issubdtype(host.dtype, np.integer)
    if not is_flat or int(host.max()) > np.iinfo(np.int64).max:
        raise ConfigError(
            f"{place}: not a flat list of 64-bit integers", hint="give one list a request"
        )
    return host.astype(np.int64)


def token_ids(values: Integers, place: str) -> NDArray[np.int64]:
    """Token ids, shape [n], int64; -1 where one is unknown."""
    tokens = integers(values, place)
    if tokens.size and int(tokens.min()) < UNKNOWN_TOKEN:
        raise ConfigError(
            f"{place}: token {tokens.min()}", hint=f"give {UNKNOWN_TOKEN} for an unknown token"
        )
    return tokens


def _array(values: object) -> NDArray[Any]:
    """What numpy makes of the values; None where it makes nothing."""
    try:
        return np.asarray(values)
    except ValueError:  # lists of different lengths
        return np.array(None)


def _unknown(length: int) -> NDArray[np.int64]:
    return np.full(length, UNKNOWN_TOKEN, dtype=np.int64)


def _offsets(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)


def _joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
