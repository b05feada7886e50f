"""The sweep: cached prefixes that no request runs on are verified a part at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.backends.launch import VerifyPlan
from kvaudit.backends.launch_tensor_checks import check_is_tensor
from kvaudit.backends.torch_module import torch
from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    NO_PREDECESSOR,
    PREDECESSOR_UNREACHABLE,
    LaunchTag,
)
from kvaudit.core.launch_tag import LaunchPhase, PoolKind
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.endpoint import CanaryEndpoint
from kvaudit.runner.live.pool import CanaryPool

# Prefixes that one step takes: each costs the host a few calls.
MAX_PIECES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedPrefix:
    """A prefix that an engine keeps for later requests.

    Fields:
        slots: slot of each position in the pool's numbering, shape [n], int64, on the canary's
            device.
        start_position: of the first slot; above 0 its predecessor is not reachable.
        tokens: token of each position, shape [n], int64, on the canary's device; None = unchecked.
            They are judged with enable_verify_token_assert.
    """

    slots: torch.Tensor
    start_position: int = 0
    tokens: torch.Tensor | None = None


# The prefixes that a pool holds now, by a name that stays the same while a prefix lives.
CachedPrefixes = Callable[[PoolKind], Mapping[str, CachedPrefix]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Piece:
    """Positions [first, last) of a prefix, counted from its first slot."""

    prefix: CachedPrefix
    first: int
    last: int


class SweepOrchestrator:
    """Verifies all cached prefixes every so many steps, some of them each step.

    A pass begins when its turn comes and takes the prefixes that are cached then. A step takes as
    many entries as the byte budget allows, and the next goes on where it stopped. Before each part
    the engine is asked again: a prefix that was given up meanwhile is left out. A turn that comes
    while a pass runs is skipped.

    Args:
        pools: the pools to sweep.
        cached_prefixes: what the engine caches; called in steps in which a pass runs.
        config: interval, byte budget, and whether tokens are judged.
    """

    def __init__(
        self,
        pools: Sequence[CanaryPool],
        *,
        cached_prefixes: CachedPrefixes,
        config: CanaryConfig,
    ) -> None:
        self._cached_prefixes = cached_prefixes
        self._interval = config.sweep_interval
        self._swept = {pool.geometry.pool_kind: _SweptPool(pool, config=config) for pool in pools}
        self._waiting: deque[tuple[PoolKind, str, int]] = deque()
        self._passes = 0

    @property
    def passes(self) -> int:
        """Passes that are complete; one that found nothing cached is none."""
        return self._passes

    def step(self, step: int) -> Sequence[LaunchTag]:
        """Begin a pass in its turn, and launch a part of the one that runs.

        Args:
            step: number of the step, from 1.

        Returns:
            the launches that were due.

        Raises:
            ValueError: a prefix cannot be used; the message names it.
        """
        if not self._interval:
            return ()
        if not self._waiting and step % self._interval == 0:
            self._waiting.extend(
                (kind, name, 0) for kind in self._swept for name in self._cached_prefixes(kind)
            )
        if not self._waiting:
            return ()
        swept = self._swept[self._waiting[0][0]]
        pieces = self._next_pieces(swept.pool.geometry.pool_kind, room=swept.capacity)
        if not self._waiting:
            self._passes += 1
        if not pieces:
            return ()
        swept.launch(pieces)
        return [endpoint.tag for endpoint in swept.endpoints]

    def _next_pieces(self, kind: PoolKind, *, room: int) -> list[_Piece]:
        """What the budget allows of what waits in a pool."""
        cached = self._cached_prefixes(kind)
        pieces: list[_Piece] = []
        while self._waiting and self._waiting[0][0] is kind and room and len(pieces) < MAX_PIECES:
            _, name, first = self._waiting.popleft()
            prefix = cached.get(name)
            length = 0 if prefix is None else len(prefix.slots)
            last = min(length, first + room)
            if prefix is not None and first < last:
                pieces.append(_Piece(prefix=prefix, first=first, last=last))
                room -= last - first
            if last < length:
                self._waiting.appendleft((kind, name, last))
        return pieces


class _SweptPool:
    """A pool's sweep launches and the plan that they read.

    Args:
        pool: the pool.
        config: byte budget, and whether tokens are judged.
    """

    def __init__(self, pool: CanaryPool, *, config: CanaryConfig) -> None:
        self.pool = pool
        self.endpoints: Sequence[CanaryEndpoint] = pool.endpoints_of(LaunchPhase.SWEEP)
        bytes_per_entry = sum(endpoint.bytes_per_entry for endpoint in self.endpoints)
        affordable = config.sweep_bytes_per_step // bytes_per_entry
        self.capacity = min(max(affordable, 1), pool.geometry.num_slots)
        device = self.endpoints[0].context.canary_buf.device
        self._checks_tokens = config.enable_verify_token_assert
        # An engine may make it in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            self._plan = VerifyPlan.allocate(verify_capacity=self.capacity, device=device)
        self._offsets = torch.arange(self.capacity, device=device)
        self._unchecked = torch.full_like(self._offsets, NO_EXPECTED_TOKEN)
        self._head = torch.full((1,), NO_PREDECESSOR, device=device)
        self._unreachable = torch.full((1,), PREDECESSOR_UNREACHABLE, device=device)

    def launch(self, pieces: Sequence[_Piece]) -> None:
        """Verify the pieces.

        Raises:
            ValueError: a prefix cannot be used; the message names it.
        """
        for piece in pieces:
            self._check(piece.prefix)
        self._fill(pieces)
        for endpoint in self.endpoints:
            endpoint.verify(self._plan)

    def _check(self, prefix: CachedPrefix) -> None:
        """Refuse what the plan's buffers do not take: copying it would wait, or convert it."""
        tensors = {"slots": prefix.slots}
        if prefix.tokens is not None:
            tensors["tokens"] = prefix.tokens
        for name, tensor in tensors.items():
            check_is_tensor(tensor, f"cached prefix: {name}")
            if (
                tensor.dtype != torch.int64
                or tensor.device != self._offsets.device
                or tensor.shape != (len(prefix.slots),)
            ):
                raise ValueError(
                    f"cached prefix: {name}: is {tensor.dtype} {list(tensor.shape)} on "
                    f"{tensor.device}, not torch.int64 [{len(prefix.slots)}] on "
                    f"{self._offsets.device}"
                )

    def _fill(self, pieces: Sequence[_Piece]) -> None:
        num_entries = sum(piece.last - piece.first for piece in pieces)
        plan = self._plan
        slots = [piece.prefix.slots[piece.first : piece.last] for piece in pieces]
        torch.cat(slots, out=plan.verify_slot_indices[:num_entries])
        prevs = [part for piece in pieces for part in self._prevs(piece)]
        torch.cat(prevs, out=plan.verify_prev_slot_indices[:num_entries])
        positions = [
            self._offsets[: piece.last - piece.first] + (piece.prefix.start_position + piece.first)
            for piece in pieces
        ]
        torch.cat(positions, out=plan.verify_expected_positions[:num_entries])
        if self._checks_tokens:
            tokens = [self._tokens(piece) for piece in pieces]
            torch.cat(tokens, out=plan.verify_expected_tokens[:num_entries])
        plan.verify_num_valid.fill_(num_entries)

    def _prevs(self, piece: _Piece) -> list[torch.Tensor]:
        if piece.first:
            return [piece.prefix.slots[piece.first - 1 : piece.last - 1]]
        first = self._unreachable if piece.prefix.start_position else self._head
        return [first, piece.prefix.slots[: piece.last - 1]]

    def _tokens(self, piece: _Piece) -> torch.Tensor:
        if piece.prefix.tokens is None:
            return self._unchecked[: piece.last - piece.first]
        return piece.prefix.tokens[piece.first : piece.last]
