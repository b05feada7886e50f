"""What an engine says of a forward, and its parts by pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import integer, text
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.tables import integers, token_ids
from kvaudit.constants import UNKNOWN_LENGTH
from kvaudit.errors import ConfigError
from kvaudit.formats.limits import MAX_REQUEST_LEN

SlotTable: TypeAlias = Sequence[int] | NDArray[np.int64]
PoolTables: TypeAlias = SlotTable | Mapping[str, SlotTable]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardRow:
    """One request's part of a forward.

    Fields:
        request_id: the request.
        positions: positions whose KV the forward writes.
        tokens: the tokens run at them, len(positions) of them.
        slots: the request's table as it is now: the slot of each position it can still read, up to
            the last one of this forward; by pool name where there are several pools.
        known_tokens: prompt and output from position 0 on; None = the tokens that were run.
        prompt_len: prompt tokens; -1 = unknown.
    """

    request_id: str
    positions: range
    tokens: Sequence[int]
    slots: PoolTables
    known_tokens: Sequence[int] | None = None
    prompt_len: int = UNKNOWN_LENGTH


def rows_by_pool(rows: Sequence[ForwardRow], pool_names: Iterable[str]) -> dict[str, list[PoolRow]]:
    """The parts of a forward, by pool name.

    Raises:
        ConfigError: a row contradicts itself, or does not say which pool its slots are of.
    """
    names = tuple(pool_names)
    tables = [tables_by_pool(row.slots, names) for row in rows]
    return {
        name: [_pool_row(row, its[name]) for row, its in zip(rows, tables, strict=True)]
        for name in names
    }


def tables_by_pool(slots: PoolTables, pool_names: Iterable[str]) -> dict[str, NDArray[np.int64]]:
    """A table of slots for each pool, shape [n], int64; one that is not given is empty.

    Raises:
        ConfigError: there is one table for several pools, or it holds no whole numbers.
    """
    names = tuple(pool_names)
    if isinstance(slots, Mapping):
        return {name: integers(slots.get(name, ()), f"slots[{name!r}]") for name in names}
    if len(names) > 1:
        raise ConfigError(
            "slots: one table, but there are several pools", hint="give slots by pool name"
        )
    return {name: integers(slots, "slots") for name in names}


def known_of(tokens: Sequence[int], request_id: str) -> NDArray[np.int64]:
    """Known tokens of a request, shape [n], int64.

    Raises:
        ConfigError: they are no token ids.
    """
    return token_ids(tokens, f"{request_id}: known_tokens")


def _pool_row(row: ForwardRow, slots: NDArray[np.int64]) -> PoolRow:
    if row.positions.step != 1 or len(row.positions) != len(row.tokens):
        raise ConfigError(
            f"{row.request_id}: {len(row.tokens)} tokens for {row.positions}",
            hint="give one token a position, and consecutive positions",
        )
    if row.positions.start < 0 or row.positions.stop > MAX_REQUEST_LEN:
        raise ConfigError(
            f"{row.request_id}: positions {row.positions.start} to {row.positions.stop - 1}",
            hint=f"give positions of the request, from 0 to {MAX_REQUEST_LEN - 1}",
        )
    if text(row.request_id, "request_id") != row.request_id:
        raise ConfigError(f"request_id: {row.request_id!r}", hint="name requests by strings")
    known = row.known_tokens
    return PoolRow(
        request_id=row.request_id,
        positions=row.positions,
        tokens=token_ids(row.tokens, f"{row.request_id}: tokens"),
        slots=slots,
        known_tokens=None if known is None else known_of(known, row.request_id),
        prompt_len=integer(row.prompt_len, "prompt_len", at_least=UNKNOWN_LENGTH),
    )
