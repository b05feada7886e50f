"""An engine's page tables, tokens and lengths as sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import Indexed, indexed, text, texts
from kvaudit.constants import OUT_OF_TABLE_SLOT, UNKNOWN_LENGTH, UNKNOWN_TOKEN
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.limits import MAX_POSITION

if TYPE_CHECKING:
    import torch

Integers: TypeAlias = "torch.Tensor | NDArray[np.integer[Any]] | Sequence[int]"
IntegerLists: TypeAlias = "torch.Tensor | NDArray[np.integer[Any]] | Sequence[Integers]"

# Where a negative page would be.
_BELOW_POOL: Final = -1
_INT64: Final = np.iinfo(np.int64)
_NO_SLOTS: Final = np.empty(0, dtype=np.int64)


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


def live_slots(
    rows: Sequence[SequenceRow], num_slots: int, *, further: NDArray[np.int64] = _NO_SLOTS
) -> NDArray[np.int64]:
    """The pool's slots among those of all positions below kv_len, ascending, shape [n], int64.

    Args:
        rows: the sequences.
        num_slots: slots of the pool.
        further: slots of the pool that count as well, shape [m], int64.
    """
    slots = _joined(row.live_slots for row in rows)
    # A mark a slot: to sort what requests name takes longer than a device needs to hash it.
    is_live = np.zeros(num_slots, dtype=np.bool_)
    is_live[slots[(slots >= 0) & (slots < num_slots)]] = True
    is_live[further] = True
    return np.flatnonzero(is_live)


def sequence_rows(
    *,
    page_size: int,
    page_tables: IntegerLists | None,
    slots: IntegerLists | None,
    tokens: IntegerLists | None,
    kv_lens: Integers | None,
    request_ids: Sequence[str] | None,
    extra_keys: Sequence[str | None] | None,
) -> list[SequenceRow]:
    """One row a request, from the arguments of `dump`.

    What an engine's fault may have put into a table is kept for the audit to judge: a slot outside
    the pool stands as it is, and a table that ends before kv_len gives the slots it has.

    Raises:
        ConfigError: naming the argument that does not fit the others.
    """
    if page_tables is not None and slots is None:
        tables, table_name = page_tables, "page_tables"
    elif slots is not None and page_tables is None:
        tables, table_name = slots, "slots"
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
    written = None if kv_lens is None else table_entries(kv_lens, "kv_lens")
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
        table = table_entries(tables[request_idx], place)
        kv_len = _kv_len(written, request_idx, tokens=known, table=table)
        # A table of slots may go on past kv_len: blocks allocated ahead are evidence.
        request_slots = table if slots is not None else _slots_of(table, kv_len, page_size)
        extra_key = None if extra_keys is None else extra_keys[request_idx]
        rows.append(
            SequenceRow(
                request_id=names[request_idx],
                tokens=_unknown(min(kv_len, len(request_slots))) if known is None else known,
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
    return min(kv_len, MAX_POSITION)


def _slots_of(table: NDArray[np.int64], kv_len: int, page_size: int) -> NDArray[np.int64]:
    """Token i's slot is table[i // page_size] * page_size + i % page_size, as far as the table goes.

    A negative page gives _BELOW_POOL, and a slot beyond int64 OUT_OF_TABLE_SLOT: a wild page must
    not wrap around into the pool.
    """
    positions = np.arange(min(kv_len, len(table) * page_size), dtype=np.int64)
    offsets = positions % page_size
    pages = table[positions // page_size]
    too_high = pages > (_INT64.max - offsets) // page_size
    slots = np.where(too_high, 0, pages) * page_size + offsets
    slots[too_high] = OUT_OF_TABLE_SLOT
    slots[pages < 0] = _BELOW_POOL
    return slots


def _check_length(name: str, values: Indexed[Any] | None, num_requests: int) -> None:
    if values is not None and len(indexed(values, name)) != num_requests:
        raise ConfigError(
            f"{name}: {len(values)} entries for {num_requests} requests",
            hint="give one entry a request, in the same order",
        )


def integers(values: Integers, place: str) -> NDArray[np.int64]:
    """A list, an array or a tensor on any device as shape [n], int64."""
    host = _on_host(values)
    if host.size == 0:
        return np.empty(0, dtype=np.int64)
    is_flat = host.ndim == 1 and np.issubdtype(host.dtype, np.integer)
    # Of the integer types uint64 alone has larger numbers; a recorder asks for each row of a step.
    if not is_flat or (host.dtype == np.uint64 and int(host.max()) > _INT64.max):
        raise ConfigError(
            f"{place}: not a flat list of 64-bit integers", hint="give one list a request"
        )
    return host.astype(np.int64)


def table_entries(values: Integers, place: str) -> NDArray[np.int64]:
    """As `integers`, but a number beyond int64 becomes int64's nearest: garbage is evidence too."""
    entries = _on_host(values)
    if entries.dtype == np.uint64:
        entries = np.minimum(entries, np.uint64(_INT64.max))
    is_list = not hasattr(values, "dtype") and entries.ndim == 1
    # Of a list that needs more than 64 bits numpy makes floats or objects.
    if is_list and entries.dtype.kind in "fO" and all(map(_is_whole, values)):
        nearest = [min(max(int(entry), _INT64.min), _INT64.max) for entry in values]
        return np.array(nearest, dtype=np.int64)
    return integers(entries, place)


def _is_whole(entry: object) -> bool:
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool)


def token_ids(values: Integers, place: str) -> NDArray[np.int64]:
    """Token ids, shape [n], int64; -1 where one is unknown."""
    tokens = integers(values, place)
    if tokens.size and int(tokens.min()) < UNKNOWN_TOKEN:
        raise ConfigError(
            f"{place}: token {tokens.min()}", hint=f"give {UNKNOWN_TOKEN} for an unknown token"
        )
    return tokens


def _on_host(values: object) -> NDArray[Any]:
    """What numpy makes of a list, an array or a tensor; None where it makes nothing."""
    detach = getattr(values, "detach", None)
    try:
        host: NDArray[Any] = np.asarray(values) if detach is None else detach().cpu().numpy()
    except (ValueError, TypeError, NotImplementedError):
        # Lists of different lengths; tensors without data, or of a type or layout numpy lacks.
        return np.array(None)
    return host


def _unknown(length: int) -> NDArray[np.int64]:
    return np.full(length, UNKNOWN_TOKEN, dtype=np.int64)


def _offsets(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)


def _joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])
