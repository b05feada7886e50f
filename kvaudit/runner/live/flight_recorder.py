"""Mode `dump`: what a violation concerns is written at the border of a step, and serving goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NUM_LAUNCH_TAGS, PADDING_REQUEST, LaunchTag
from kvaudit.core.launch_tag import PoolKind, pool_kind_of
from kvaudit.core.ring_row import RingRow
from kvaudit.errors import ConfigError
from kvaudit.runner.live.config import CanaryMode
from kvaudit.runner.live.pool import CanaryPool
from kvaudit.runner.live.step_inputs import CanaryBatch
from kvaudit.runner.live.violation_manager import (
    Teller,
    ViolationBatch,
    log_violations,
    raise_violations,
)

_LOGGER = logging.getLogger(__name__)

# Pages on each side of a row's that are dumped with it: what a write past a page's end hits.
NEIGHBOUR_PAGES: Final = 1


class DumpCause(StrEnum):
    """Why a dump was taken."""

    VIOLATION = "violation"
    TRIGGER = "trigger"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DumpRequest:
    """What the flight recorder asks its writer for.

    Fields:
        step: steps done: the dump shows the state at the end of the last of them.
        cause: why.
        rows: the violations; empty of a trigger that came without one.
        request_indices: rows of req_to_token of the requests concerned: those of the last batch that
            hold a slot of a violation, or all of the batch without one; ascending.
        slots: what to dump, by pool: the slots of the rows with their pages and the pages next to
            them, and all slots of the requests; shape [n] each, int64, ascending, in the pool's
            numbering.
    """

    step: int
    cause: DumpCause
    rows: Sequence[RingRow]
    request_indices: Sequence[int]
    slots: Mapping[PoolKind, NDArray[np.int64]]


class FlightRecorder:
    """Dumps at the first violation and whenever it is triggered, at most so many times.

    A dump waits for the device and reads the tables of the last batch. A writer that fails is
    logged, and so is a trigger, which is asked no more: the engine goes on serving.

    Args:
        write: writes a dump; called in the engine's thread, after the step's launches.
        triggered: asked once a step: whether to dump now, such as after a signal or when a file was
            touched.
        max_dumps: dumps in the process's life.
    """

    def __init__(
        self,
        *,
        write: Callable[[DumpRequest], None],
        triggered: Callable[[], bool],
        max_dumps: int,
    ) -> None:
        self._write = write
        self._triggered = triggered
        self._dumps_left = max_dumps
        self._rows: Sequence[RingRow] = ()
        self._has_seen_any = False

    @property
    def dumps_left(self) -> int:
        """Dumps that it may still take."""
        return self._dumps_left

    def tell(self, violations: ViolationBatch) -> None:
        """Log violations, and keep the first ones for the dump at the border of this step."""
        log_violations(violations)
        if not self._has_seen_any:
            self._has_seen_any = True
            self._rows = violations.rows

    def step(self, step: int, *, batch: CanaryBatch | None, pools: Sequence[CanaryPool]) -> None:
        """Dump if there is a reason to.

        Args:
            step: steps done, this one included.
            batch: the last batch; None where steps came planned, without tables.
            pools: the pools to dump.
        """
        rows, self._rows = self._rows, ()
        # A trigger is asked each step, so that one that resets itself is not lost to a violation.
        is_triggered = self._is_triggered(step)
        if self._dumps_left <= 0 or not (rows or is_triggered):
            return
        self._dumps_left -= 1
        cause = DumpCause.VIOLATION if rows else DumpCause.TRIGGER
        try:
            request = _dump_request(step, cause, rows=rows, batch=batch, pools=pools)
            self._write(request)
        except Exception:
            _LOGGER.exception("kv-canary: the dump of step %d failed, and serving goes on", step)
        else:
            _LOGGER.warning(
                "kv-canary: dumped step %d (%s): %d violations, %d requests; %d dumps left",
                step,
                cause,
                len(rows),
                len(request.request_indices),
                self._dumps_left,
            )

    def _is_triggered(self, step: int) -> bool:
        try:
            return self._triggered()
        except Exception:
            # Asked each step, it would fail and be logged each step.
            self._triggered = _never
            _LOGGER.exception(
                "kv-canary: the trigger failed at step %d and is asked no more: violations alone are "
                "dumped",
                step,
            )
            return False


def _never() -> bool:
    return False


def teller_of(mode: CanaryMode, *, recorder: FlightRecorder | None, tell: Teller | None) -> Teller:
    """Who is told of violations in a mode.

    Args:
        mode: the canary's.
        recorder: its flight recorder.
        tell: who is told instead; None = as the mode says.

    Raises:
        ConfigError: mode dump without a recorder, a recorder without it, or both told at once.
    """
    is_dump = mode is CanaryMode.DUMP
    if is_dump is (recorder is None) or (is_dump and tell is not None):
        raise ConfigError(
            f"mode is {mode}, with {'no' if recorder is None else 'a'} flight_recorder and "
            f"{'no' if tell is None else 'a'} tell",
            hint="mode dump, and it alone, takes a flight_recorder, and then no tell",
        )
    if recorder is not None:
        return recorder.tell
    return tell or (raise_violations if mode is CanaryMode.RAISE else log_violations)


def _dump_request(
    step: int,
    cause: DumpCause,
    *,
    rows: Sequence[RingRow],
    batch: CanaryBatch | None,
    pools: Sequence[CanaryPool],
) -> DumpRequest:
    bad = {pool.geometry.pool_kind: _row_slots(rows, pool) for pool in pools}
    held = {} if batch is None else _held_slots(batch, pools)
    concerned = sorted(
        index
        for index, slots in held.items()
        if not rows or any(np.isin(slots[kind], bad[kind]).any() for kind in bad)
    )
    dumped = {}
    for pool in pools:
        kind = pool.geometry.pool_kind
        parts = [_with_neighbours(bad[kind], pool), *(held[index][kind] for index in concerned)]
        dumped[kind] = np.unique(np.concatenate(parts))
    return DumpRequest(step=step, cause=cause, rows=rows, request_indices=concerned, slots=dumped)


def _row_slots(rows: Sequence[RingRow], pool: CanaryPool) -> NDArray[np.int64]:
    """The slots of the rows that are in a pool, shape [n], int64, ascending."""
    slots = [
        row.slot
        for row in rows
        if 0 <= row.tag < NUM_LAUNCH_TAGS
        and pool_kind_of(LaunchTag(row.tag)) is pool.geometry.pool_kind
    ]
    return np.unique(_inside(np.array(slots, dtype=np.int64), pool.geometry.num_slots))


def _with_neighbours(slots: NDArray[np.int64], pool: CanaryPool) -> NDArray[np.int64]:
    """The pages of slots and the pages next to them, shape [n], int64."""
    page_size = pool.geometry.page_size
    nearby = np.arange(-NEIGHBOUR_PAGES, NEIGHBOUR_PAGES + 1)
    pages = np.unique((slots // page_size)[:, None] + nearby)
    members = (pages[:, None] * page_size + np.arange(page_size)).ravel()
    return _inside(members, pool.geometry.num_slots)


def _held_slots(
    batch: CanaryBatch, pools: Sequence[CanaryPool]
) -> dict[int, dict[PoolKind, NDArray[np.int64]]]:
    """The slots of each request of a batch, by its table row and by pool; waits for the device.

    Slots outside a pool, which a damaged table may name, are left out.
    """
    mapping = batch.full_to_swa_index_mapping
    # On the host, since a device stops for good at an index outside the map.
    window_slots = np.empty(0, np.int64) if mapping is None else mapping.cpu().numpy()
    lengths = (batch.prefix_lens + batch.extend_seq_lens).tolist()
    held = {}
    for index, length in zip(batch.req_pool_indices.tolist(), lengths, strict=True):
        if index == PADDING_REQUEST:
            continue
        slots = batch.req_to_token[index, : max(length, 0)].cpu().numpy().astype(np.int64)
        by_kind = {
            PoolKind.FULL: slots,
            PoolKind.SWA: window_slots[_inside(slots, len(window_slots))],
        }
        held[index] = {
            pool.geometry.pool_kind: _inside(
                by_kind[pool.geometry.pool_kind], pool.geometry.num_slots
            )
            for pool in pools
        }
    return held


def _inside(slots: NDArray[np.int64], num_slots: int) -> NDArray[np.int64]:
    return slots[(slots >= 0) & (slots < num_slots)]
