"""The tables that a canary's plan reads, kept on its device, and the batches that name their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.request_rows import RequestRows
from kvaudit.capture.stamps import Chain
from kvaudit.constants import NO_EXPECTED_TOKEN, NO_SEED, PADDING_SLOT

if TYPE_CHECKING:
    import torch

    from kvaudit.runner.live import CanaryBatch

_FIRST_ROWS: Final = 8
_FIRST_POSITIONS: Final = 512

_Edit = tuple[int, int, NDArray[np.int64]]


class RequestTable:
    """Slot, and on request token, of each position of each request that an engine serves.

    A position that has no slot, such as one that left a window, is padding: no launch verifies it,
    and as a predecessor it is not reachable.

    Args:
        device: where the canary is.
        with_tokens: whether stored tokens are judged.
        with_expected_inputs: whether written tokens are.
    """

    def __init__(
        self, device: torch.device, *, with_tokens: bool, with_expected_inputs: bool
    ) -> None:
        self._device = device
        self._rows = RequestRows()
        self._slots = _DeviceTable(device, fill=PADDING_SLOT)
        self._tokens = _DeviceTable(device, fill=NO_EXPECTED_TOKEN) if with_tokens else None
        self._with_expected_inputs = with_expected_inputs

    def forget(self, request_id: str) -> None:
        """Give the request's row to others."""
        self._rows.free(request_id)

    def batch_of(self, rows: Sequence[PoolRow], chains: Sequence[Chain]) -> CanaryBatch:
        """Bring the tables up to date, and name what a forward runs.

        Args:
            rows: the requests' parts of the forward, with the tables that they leave.
            chains: what each of them writes.
        """
        from kvaudit.runner.live import CanaryBatch

        if self._tokens is not None:
            self._tokens.set([self._token_edit(row) for row in rows])
        for row in rows:
            self._rows.set_table(row.request_id, row.slots, kv_len=row.positions.stop)
        slot_edits, _ = self._rows.take_changes()
        self._slots.set(slot_edits)
        entries = [
            entry
            for row, chain in zip(rows, chains, strict=True)
            for entry in self._entries(row, chain)
        ]
        columns: dict[str, Sequence[int] | NDArray[np.int64]] = {
            "req_pool_indices": [entry.request_index for entry in entries],
            "prefix_lens": [entry.prefix_len for entry in entries],
            "extend_seq_lens": [len(entry.chain.slots) for entry in entries],
            "input_ids": np.concatenate([entry.chain.tokens for entry in entries]),
            "positions": np.concatenate([entry.chain.positions for entry in entries]),
            "out_cache_loc": np.concatenate([entry.chain.slots for entry in entries]),
        }
        tables = {"req_to_token": self._slots.tensor}
        if self._tokens is not None:
            tables["req_to_verify_expected_tokens"] = self._tokens.tensor
            columns["req_to_verify_expected_tokens_valid_lens"] = columns["prefix_lens"]
        if self._with_expected_inputs:
            columns["expected_input_tokens"] = np.concatenate([entry.expected for entry in entries])
            columns["expected_input_positions"] = columns["positions"]
        return CanaryBatch(**tables, **_on_device(columns, self._device))

    def _entries(self, row: PoolRow, chain: Chain) -> Iterator[_Entry]:
        """One, or two where the chain starts anew behind positions that are not stored."""
        index, prefix_len = self._rows.index_of(row.request_id), row.positions.start
        expected = chain.tokens
        if self._with_expected_inputs:
            expected = tokens_so_far(row)[chain.positions]
        if prefix_len and chain.seed_slot_idx == NO_SEED:
            yield _Entry(index, prefix_len, _NO_CHAIN, expected[:0])
            prefix_len = 0
        yield _Entry(index, prefix_len, chain, expected)

    def _token_edit(self, row: PoolRow) -> _Edit:
        """The tokens of a request that is new, or those that a forward adds."""
        first = row.positions.start if self._rows.has(row.request_id) else 0
        return self._rows.index_of(row.request_id), first, tokens_so_far(row)[first:]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One request of a batch: what is verified of it, and what is written.

    Fields:
        request_index: its row.
        prefix_len: positions to verify.
        chain: what is written.
        expected: the tokens that should be written, shape [len(chain.slots)], int64; those that
            are where nobody compares them.
    """

    request_index: int
    prefix_len: int
    chain: Chain
    expected: NDArray[np.int64]


class _DeviceTable:
    """A table [rows, positions], int32, that grows by doubling.

    Args:
        device: where it is.
        fill: what stands where nothing was set.
    """

    def __init__(self, device: torch.device, *, fill: int) -> None:
        self._device = device
        self._fill = fill
        self.tensor = self._made(_FIRST_ROWS, _FIRST_POSITIONS)

    def set(self, edits: Iterable[_Edit]) -> None:
        """Set parts of rows: row, first position, and values, shape [n], int64."""
        listed = [edit for edit in edits if len(edit[2])]
        if not listed:
            return
        num_rows, num_positions = self.tensor.shape
        while num_rows <= max(row for row, _, _ in listed):
            num_rows *= 2
        while num_positions < max(first + len(values) for _, first, values in listed):
            num_positions *= 2
        if (num_rows, num_positions) != self.tensor.shape:
            grown = self._made(num_rows, num_positions)
            grown[: self.tensor.shape[0], : self.tensor.shape[1]] = self.tensor
            self.tensor = grown
        places = [
            row * num_positions + first + np.arange(len(values)) for row, first, values in listed
        ]
        given = _on_device(
            {
                "places": np.concatenate(places),
                # A position without a slot, or a token that nobody knows.
                "values": np.maximum(np.concatenate([edit[2] for edit in listed]), self._fill),
            },
            self._device,
        )
        self.tensor.view(-1)[given["places"]] = given["values"].int()

    def _made(self, num_rows: int, num_positions: int) -> torch.Tensor:
        import torch

        # An engine may ask in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            return torch.full(
                (num_rows, num_positions), self._fill, dtype=torch.int32, device=self._device
            )


_NO_CHAIN: Final = Chain(
    seed_slot_idx=NO_SEED,
    positions=np.empty(0, dtype=np.int64),
    tokens=np.empty(0, dtype=np.int64),
    slots=np.empty(0, dtype=np.int64),
)


def tokens_so_far(row: PoolRow) -> NDArray[np.int64]:
    """The token of each position below positions.stop, shape [positions.stop], int64; -1 = unknown."""
    known = row.known_tokens
    if known is not None and len(known) >= row.positions.stop:
        return known[: row.positions.stop]
    before = np.full(row.positions.start, NO_EXPECTED_TOKEN, dtype=np.int64)
    return np.concatenate([before, row.tokens])


def _on_device(
    columns: Mapping[str, Sequence[int] | NDArray[np.int64]], device: torch.device
) -> dict[str, torch.Tensor]:
    """Columns of int64 as tensors of a device, in one copy."""
    import torch

    parts = [np.asarray(values, dtype=np.int64) for values in columns.values()]
    packed = torch.from_numpy(np.concatenate(parts)).to(device, non_blocking=True)
    return dict(zip(columns, packed.split([len(part) for part in parts]), strict=True))
