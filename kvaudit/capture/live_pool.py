"""One pool of an engine with a canary beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.launch_sources import launch_source
from kvaudit.capture.layouts import slot_views
from kvaudit.capture.live_dump import FinishedRow, LiveDump, concerned_rows
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.request_table import RequestTable
from kvaudit.constants import NO_STEP, PADDING_SLOT, RealKvHashMode
from kvaudit.core.column_names import column_half
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from kvaudit.backends.launch import RealKvSource
    from kvaudit.core.canary_state import CanaryState
    from kvaudit.core.launch_tag import KvHalf
    from kvaudit.runner.live import (
        CachedPrefix,
        CanaryConfig,
        CanaryDeviceState,
        CanaryPool,
        DumpRequest,
    )

# Requests that are done, kept for a violation that is told of after their end.
_NUM_FINISHED: Final = 256

Prefixes = Callable[[], Mapping[str, "CachedPrefix"]]


class LivePool:
    """Stamps what a pool's forwards write and verifies what they read, behind the engine.

    Args:
        pool: the engine's pool.
        config: the canary's; its mode is not `none`.
        max_requests: requests of the largest forward.
        prefixes: what the engine caches, for the sweeps.
        write_dump: writes a dump of the flight recorder.
        triggered: asked once a step in mode `dump`: whether to dump now.

    Raises:
        ConfigError: the pool uses slot 0, which launches skip, or its layout cannot be hashed.
    """

    def __init__(
        self,
        pool: RecordedPool,
        *,
        config: CanaryConfig,
        max_requests: int,
        prefixes: Prefixes,
        write_dump: Callable[[LiveDump], None],
        triggered: Callable[[], bool],
    ) -> None:
        from kvaudit.runner.live import CanaryDeviceState, CanaryManager, CanaryMode, FlightRecorder

        self._pool = pool
        self._config = config
        self._prefixes = prefixes
        self._write_dump = write_dump
        _check_reserved(pool)
        self._views = slot_views(pool.kv, layout=pool.layout, page_size=pool.page_size)
        device = self._views[0].rows.device
        state = CanaryDeviceState.allocate(ring_capacity=config.ring_capacity, device=device)
        self._canary = self._allocated(state, max_requests=max_requests)
        self._table = RequestTable(
            device,
            with_tokens=config.enable_verify_token_assert,
            with_expected_inputs=config.enable_write_input_assert,
        )
        self._slot_map = self._identity_map(device)
        self._written_step = np.full(self._views[0].num_slots, NO_STEP, dtype=np.int64)
        self._rows: Sequence[PoolRow] = ()
        self._live: dict[str, PoolRow] = {}
        self._finished: deque[FinishedRow] = deque(maxlen=_NUM_FINISHED)
        recorder = FlightRecorder(write=self._dump, triggered=triggered, max_dumps=config.max_dumps)
        self.manager = CanaryManager(
            config,
            state=state,
            pools=[self._canary],
            cached_prefixes=lambda _: prefixes(),
            flight_recorder=recorder if config.mode is CanaryMode.DUMP else None,
        )

    @property
    def records(self) -> Mapping[str, torch.Tensor]:
        """The canary's records by column name, such as `k.tail`; shape [num_slots, 32], uint8."""
        return self._canary.buffers

    @property
    def live_requests(self) -> frozenset[str]:
        """Requests that were served and are not done."""
        return frozenset(self._live)

    def read_state(self) -> CanaryState:
        """The ring and the counters of now; waits for the device."""
        return self.manager.read_state()

    def before_forward(self, rows: Sequence[PoolRow]) -> None:
        """Launch what comes before a forward."""
        from dataclasses import replace

        self._rows = rows
        chains = [row.chain() for row in rows]
        batch = self._table.batch_of(rows, chains)
        if self._slot_map is not None:
            batch = replace(
                batch,
                swa_out_cache_loc=batch.out_cache_loc,
                full_to_swa_index_mapping=self._slot_map,
            )
        for row, chain in zip(rows, chains, strict=True):
            self._live[row.request_id] = row
            self._written_step[chain.slots] = self.manager.step + 1
        self.manager.begin_step(batch)

    def after_forward(self) -> None:
        """Launch what comes after it, sweep, and tell what has arrived.

        Raises:
            CanaryViolationError: mode raise: violations of an earlier step.
            CanaryStalledError: a launch that was due did not run.
            DeviceFailed: the device reported an error.
        """
        self.manager.end_step()

    def copy_slots(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> None:
        """Slots are about to be copied, pair by pair: their records go with them."""
        import torch

        self._written_step[dst] = self.manager.step
        for records in self._canary.buffers.values():
            places = torch.from_numpy(np.stack([src, dst])).to(records.device)
            records[places[1]] = records[places[0]]

    def forget(self, request_id: str) -> None:
        """The engine is done with a request."""
        self._table.forget(request_id)
        row = self._live.pop(request_id, None)
        if row is not None:
            self._finished.append(FinishedRow(row=row, step=self.manager.step))

    def _allocated(self, state: CanaryDeviceState, *, max_requests: int) -> CanaryPool:
        from kvaudit.runner.live import CanaryPool, PoolGeometry

        num_slots = self._views[0].num_slots
        is_window = self._pool.pool_kind is PoolKind.SWA
        geometry = PoolGeometry(
            pool_kind=self._pool.pool_kind,
            num_slots=num_slots,
            page_size=self._pool.page_size,
            # Requests that share a prefix verify it each, up to what engines read in a forward.
            verify_capacity=num_slots,
            # Where positions of a window are not stored, a request takes two.
            write_req_capacity=max_requests * (2 if is_window else 1),
            swa_window_size=self._pool.window or 0,
        )
        return CanaryPool.allocate(
            geometry, sources=self._sources(), state=state, config=self._config
        )

    def _sources(self) -> dict[KvHalf, list[RealKvSource]]:
        """Every column of each half, in fold order; none where no byte is hashed."""
        hashes_bytes = self._config.real_kv_hash_mode is not RealKvHashMode.NONE
        sources: dict[KvHalf, list[RealKvSource]] = {}
        for view in self._views:
            half = sources.setdefault(column_half(view.name), [])
            if hashes_bytes:
                half.append(launch_source(view))
        return sources

    def _identity_map(self, device: torch.device) -> torch.Tensor | None:
        """A window pool's table has its own slots."""
        import torch

        if self._pool.pool_kind is not PoolKind.SWA:
            return None
        with torch.inference_mode(mode=False):
            return torch.arange(self._views[0].num_slots, device=device)

    def _dump(self, request: DumpRequest) -> None:
        self._write_dump(
            LiveDump(
                request=request,
                pool=self._pool,
                views=self._views,
                real_kv_hash_mode=self._config.real_kv_hash_mode,
                records=self._canary.buffers,
                written_step=self._written_step,
                sequences=concerned_rows(
                    request,
                    pool_kind=self._pool.pool_kind,
                    running=self._rows,
                    finished=self._finished,
                    cached=self._prefixes(),
                    written_step=self._written_step,
                ),
                state=self.read_state(),
            )
        )


def _check_reserved(pool: RecordedPool) -> None:
    if PADDING_SLOT not in SlotRanges.parse(pool.reserved_slots):
        raise ConfigError(
            f"reserved_slots of pool {pool.name}: {pool.reserved_slots}, but launches skip slot 0",
            hint="leave slot 0 to padding, or record the pool instead",
        )
