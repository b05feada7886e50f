"""The canary of a replay: records, counters and a manager, on the device that was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.launch import VerifyPlan
from kvaudit.backends.torch_module import torch
from kvaudit.constants import RECORD_REAL_KV_HASH, LaunchTag, RealKvHashMode
from kvaudit.core.canary_health import Stall
from kvaudit.core.column_names import column_half
from kvaudit.core.launch_tag import (
    KvHalf,
    LaunchPhase,
    PoolKind,
    half_of,
    launch_tag,
    phase_of,
    pool_kind_of,
)
from kvaudit.core.recorded_run import RecordedRun
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import CanaryStalledError, LimitExceeded
from kvaudit.runner.canary_columns import tags_of_columns
from kvaudit.runner.live import (
    CachedPrefix,
    CanaryConfig,
    CanaryDeviceState,
    CanaryManager,
    CanaryMode,
    CanaryPool,
    PlannedStep,
    PoolGeometry,
    ViolationBatch,
)
from kvaudit.runner.replay.finished import FinishedSequences
from kvaudit.runner.replay.place import ReplayPlace

# 32 bytes a buffer each.
MAX_SLOTS: Final = 1 << 29
# 32 bytes each.
MAX_VERIFY_ENTRIES: Final = 1 << 27


def replay_config(config: CanaryConfig) -> CanaryConfig:
    """What a replay takes of a canary's configuration.

    A trace has no KV, so nothing of it is hashed; tokens are judged where a recorded plan has them.
    """
    return replace(
        config,
        mode=CanaryMode.LOG,
        real_kv_hash_mode=RealKvHashMode.NONE,
        enable_verify_token_assert=True,
        enable_write_input_assert=False,
    )


class ReplayCanary:
    """One pool's records, and the manager that steps over them.

    Args:
        run: the run; its state or its first snapshot say which launches are due.
        config: as `replay_config` gives it.
        place: where it runs.
        finished: what sweeps read.
        shift: what is added to every slot of the run.

    Raises:
        LimitExceeded: the pool or its plans do not fit.
    """

    def __init__(
        self,
        run: RecordedRun,
        *,
        config: CanaryConfig,
        place: ReplayPlace,
        finished: FinishedSequences,
        shift: int,
    ) -> None:
        snapshot = run.start.snapshot
        self.config = config
        self.shift = shift
        self.finished = finished
        self.num_slots = snapshot.num_slots + shift
        self.window = _window_of(snapshot)
        self.tags = _tags_of(run)
        self.state = CanaryDeviceState.allocate(
            ring_capacity=config.ring_capacity, device=place.device
        )
        self.pool = self._allocate(run, place)
        # A window's slots are numbered by their own pool already.
        is_window = snapshot.key.pool_kind is PoolKind.SWA
        self.identity_map = (
            torch.arange(self.num_slots + 1, device=place.device) if is_window else None
        )
        self.manager = CanaryManager(
            config,
            state=self.state,
            pools=[self.pool],
            cached_prefixes=self._cached_prefixes,
            tell=_tell_nobody,
        )
        self.stalls: list[Stall] = []
        self._step_of: dict[int, int] = {}

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.state.device

    @property
    def forward_tags(self) -> list[LaunchTag]:
        """The head and tail launches, ascending."""
        return [tag for tag in self.tags if phase_of(tag) is not LaunchPhase.SWEEP]

    def load(self, snapshot: Snapshot) -> Mapping[str, NDArray[np.bool_]]:
        """Take the records of a snapshot.

        Returns:
            by buffer, the slots whose record is known now, shape [num_slots], bool.
        """
        slots = snapshot.slots + self.shift
        known = {}
        for name, buffer in self.pool.buffers.items():
            known[name] = np.zeros(self.num_slots, dtype=np.bool_)
            if name not in snapshot.canary:
                continue
            records = snapshot.canary[name].read().copy()
            records[:, RECORD_REAL_KV_HASH] = 0
            where = torch.from_numpy(slots).to(self.device)
            buffer.view(torch.int64)[where] = torch.from_numpy(records).to(self.device)
            known[name][slots] = True
        return known

    def records(self, name: str, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records of slots, shape [n], int64, in a buffer; shape [n, 4], int64."""
        where = torch.from_numpy(slots).to(self.device)
        records: NDArray[np.int64] = self.pool.buffers[name].view(torch.int64)[where].cpu().numpy()
        return records

    def copy_records(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> None:
        """Records replace others, all read before one is written; slots shape [n], int64."""
        pairs = torch.from_numpy(np.stack([src, dst])).to(self.device)
        for buffer in self.pool.buffers.values():
            buffer[pairs[1]] = buffer[pairs[0]]

    def launch(self, planned: PlannedStep, *, step: int) -> None:
        """Run one row's launches as a step of the manager.

        Args:
            planned: the launches.
            step: the engine's step.
        """
        self.manager.begin_planned_step([planned])
        turn = self.manager.step + 1
        if turn % max(1, self.config.health_check_every_n_steps) == 0:
            self._step_of[turn] = step
        try:
            self.manager.end_step()
        except CanaryStalledError as error:
            self._note(error)

    def sweep(self, plan: VerifyPlan, tags: Collection[LaunchTag]) -> None:
        """Run a sweep that was recorded."""
        for endpoint in self.pool.endpoints_of(LaunchPhase.SWEEP):
            if endpoint.tag in tags:
                endpoint.verify(plan)

    def finish(self, *, step: int) -> None:
        """Check the counters a last time.

        Args:
            step: the engine's last step.
        """
        self._step_of.setdefault(self.manager.step, step)
        try:
            self.manager.finish()
        except CanaryStalledError as error:
            self._note(error)

    def _note(self, error: CanaryStalledError) -> None:
        tags = [LaunchTag[name] for name in error.tags]
        self.stalls.append(Stall(tags=tags, step=self._step_of[error.step]))

    def _allocate(self, run: RecordedRun, place: ReplayPlace) -> CanaryPool:
        snapshot, extent = run.start.snapshot, run.trace.extent
        if self.num_slots > MAX_SLOTS or extent.max_verify_entries > MAX_VERIFY_ENTRIES:
            raise LimitExceeded(
                f"a pool of {self.num_slots:,} slots and plans of {extent.max_verify_entries:,} "
                "entries do not fit",
                path=run.trace.path,
                hint="check kvaudit.num_slots of the snapshot, and prefix_lens",
            )
        pool = CanaryPool.allocate(
            PoolGeometry(
                pool_kind=snapshot.key.pool_kind,
                num_slots=self.num_slots,
                page_size=snapshot.page_size,
                verify_capacity=max(1, extent.max_verify_entries),
                write_req_capacity=max(1, extent.max_requests),
                swa_window_size=self.window,
            ),
            sources=dict.fromkeys(sorted({half_of(tag) for tag in self.tags}), ()),
            state=self.state,
            config=self.config,
            launches=place.launches,
        )
        attached = [endpoint for endpoint in pool.endpoints if endpoint.tag in self.tags]
        return replace(pool, endpoints=attached)

    def _cached_prefixes(self, _kind: PoolKind) -> dict[str, CachedPrefix]:
        return {
            name: CachedPrefix(slots=torch.from_numpy(slots).to(self.device), start_position=start)
            for name, start, slots in self.finished
        }


def _tell_nobody(_batch: ViolationBatch) -> None:
    """The ring is read step by step, for the report."""


def _window_of(snapshot: Snapshot) -> int:
    is_window = snapshot.key.pool_kind is PoolKind.SWA
    return snapshot.window or 0 if is_window else 0


def _tags_of(run: RecordedRun) -> Sequence[LaunchTag]:
    """The launches of the engine's canary, ascending, each half with its sweep."""
    snapshot, state = run.start.snapshot, run.state
    kind = snapshot.key.pool_kind
    tags = set(tags_of_columns(snapshot))
    if state is not None and state.active_tags:
        tags = {
            tag
            for tag in state.active_tags
            if phase_of(tag) is not LaunchPhase.SWEEP and pool_kind_of(tag) is kind
        }
    if not tags:
        halves = {column_half(name) for name in snapshot.stamped_columns} or {KvHalf.K}
        tags = {launch_tag(LaunchPhase.TAIL, half, kind) for half in halves}
    sweeps = {launch_tag(LaunchPhase.SWEEP, half_of(tag), kind) for tag in tags}
    return sorted(tags | sweeps)
