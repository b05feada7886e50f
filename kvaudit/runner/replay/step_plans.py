"""One row of a trace as the launches of a step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.launch import VerifyPlan, WritePlan
from kvaudit.backends.torch_module import torch
from kvaudit.constants import NO_EXPECTED_TOKEN, PADDING_REQUEST, LaunchTag
from kvaudit.core.entries import to_kernel_slots
from kvaudit.core.launch_tag import LaunchPhase, phase_of
from kvaudit.core.plan import PlannedLaunch, PlannedWrite
from kvaudit.core.recorded_step import RecordedBatch, RecordedStep
from kvaudit.runner.live import CanaryBatch, PlannedStep, WrittenEntries
from kvaudit.runner.live.batch_buffers import BatchBuffers
from kvaudit.runner.replay.canary import ReplayCanary
from kvaudit.runner.replay.tables import ReplayTables

_NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPlans:
    """What a row launches.

    Fields:
        planned: the head and tail launches.
        verify_plan: what they verify: the recorded plan, else the derived one; None without any.
        num_entries: its active entries.
        derived: the entries that the tables give, where a batch was planned.
        write: the derived write plan, likewise.
        tags: all launches that the row says ran; None = all.
    """

    planned: PlannedStep
    verify_plan: VerifyPlan | None
    num_entries: int
    derived: VerifyPlan | None
    write: WritePlan | None
    tags: Collection[LaunchTag] | None

    @property
    def is_sweep(self) -> bool:
        """Whether the row is a recorded sweep alone."""
        return bool(self.tags) and all(
            phase_of(tag) is LaunchPhase.SWEEP for tag in self.tags or ()
        )


class StepPlanner:
    """Plans rows into tensors that stay, so that the launches of most steps are prepared once.

    Args:
        canary: whose launches they are.
        tables: what the plan launch reads.
        max_requests: requests of the largest batch.
    """

    def __init__(self, canary: ReplayCanary, tables: ReplayTables, *, max_requests: int) -> None:
        self._canary = canary
        self._tables = tables
        capacity = max(1, max_requests)
        self._buffers = BatchBuffers(
            max_requests=capacity,
            max_tokens=max(1, canary.config.max_prepared_tokens),
            device=canary.device,
        )
        self._write_plan = WritePlan.allocate(write_req_capacity=capacity, device=canary.device)
        self._plan_config = replace(canary.config, enable_verify_token_assert=False)

    def planned(self, recorded: RecordedStep) -> StepPlans | None:
        """The launches of a row, after its changes were applied; None where nothing runs."""
        batch, write, verify = recorded.batch, recorded.write, recorded.verify
        if batch is None and write is None and verify is None:
            return None
        inputs = self._buffers.loaded(self._inputs(batch, write))
        derived = None
        if batch is not None:
            derived = self._canary.pool.planned(inputs, config=self._plan_config)
        num_entries = self._num_derived(batch)
        plan = None if derived is None else derived.verify_plan
        if verify is not None:
            plan, num_entries = self._recorded_plan(verify), len(verify.plan)
        planned = PlannedStep(
            pool_kind=self._canary.pool.geometry.pool_kind,
            verify_plan=plan,
            write=None if write is None else self._entries(write, inputs),
            tags=recorded.tags,
        )
        return StepPlans(
            planned=planned,
            verify_plan=plan,
            num_entries=num_entries,
            derived=None if derived is None else derived.verify_plan,
            write=self._canary.pool.write_plan if derived is not None else None,
            tags=recorded.tags,
        )

    def _inputs(self, batch: RecordedBatch | None, write: PlannedWrite | None) -> CanaryBatch:
        """The batch as the launches take it; a part that is not there is empty."""
        slots = _NO_TOKENS if write is None else self._shifted(write.out_cache_loc)
        out_cache_loc = self._tensor(slots)
        expects = write is not None and write.enable_write_input_assert
        return CanaryBatch(
            req_pool_indices=self._tensor(_NO_TOKENS if batch is None else batch.request_index),
            prefix_lens=self._tensor(_NO_TOKENS if batch is None else batch.prefix_lens),
            extend_seq_lens=self._tensor(_NO_TOKENS if batch is None else batch.extend_seq_lens),
            req_to_token=self._tables.req_to_token,
            input_ids=self._tensor(_NO_TOKENS if write is None else write.input_ids),
            positions=self._tensor(_NO_TOKENS if write is None else write.positions),
            out_cache_loc=out_cache_loc,
            swa_out_cache_loc=None if self._canary.identity_map is None else out_cache_loc,
            full_to_swa_index_mapping=self._canary.identity_map,
            expected_input_tokens=(
                self._tensor(write.expected_input_tokens) if expects and write else None
            ),
            expected_input_positions=(
                self._tensor(write.expected_input_positions) if expects and write else None
            ),
        )

    def _entries(self, write: PlannedWrite, inputs: CanaryBatch) -> WrittenEntries:
        """What was written, with the plan that wrote it."""
        is_asserted = int(write.enable_chain_position_assert)
        self._canary.state.enable_chain_position_assert.fill_(is_asserted)
        return WrittenEntries(
            plan=self._loaded(write),
            input_ids=inputs.input_ids,
            positions=inputs.positions,
            out_cache_loc=inputs.out_cache_loc,
            expected_input_tokens=inputs.expected_input_tokens,
            expected_input_positions=inputs.expected_input_positions,
        )

    def _loaded(self, write: PlannedWrite) -> WritePlan:
        recorded, plan = write.plan, self._write_plan
        num = len(recorded)
        if num > len(plan.write_seed_slot_indices):
            plan = WritePlan.allocate(write_req_capacity=num, device=self._canary.device)
        seeds = self._shifted(recorded.write_seed_slot_indices[:num])
        # An offset past all tokens may be any number, but the launch's must lie in its buffers.
        offsets = np.clip(recorded.write_offsets[: num + 1], 0, len(write.input_ids))
        plan.write_offsets[: num + 1].copy_(self._tensor(offsets))
        plan.write_seed_slot_indices[:num].copy_(self._tensor(seeds))
        plan.write_num_valid_reqs.fill_(num)
        return plan

    def _recorded_plan(self, verify: PlannedLaunch) -> VerifyPlan:
        """A plan of the trace as it is, in tensors of its own."""
        recorded, num = verify.plan, len(verify.plan)
        plan = VerifyPlan.allocate(verify_capacity=max(1, num), device=self._canary.device)
        tokens = recorded.verify_expected_tokens[:num]
        if not verify.check_verify_expected_token:
            tokens = np.full(num, NO_EXPECTED_TOKEN, dtype=np.int64)
        columns = {
            "verify_slot_indices": self._shifted(recorded.verify_slot_indices[:num]),
            "verify_expected_tokens": tokens,
            "verify_expected_positions": recorded.verify_expected_positions[:num],
            "verify_prev_slot_indices": self._shifted(recorded.verify_prev_slot_indices[:num]),
        }
        for name, values in columns.items():
            getattr(plan, name)[:num].copy_(self._tensor(values))
        plan.verify_num_valid.fill_(num)
        plan.enable.fill_(int(recorded.enable))
        return plan

    def _num_derived(self, batch: RecordedBatch | None) -> int:
        """Entries that the plan launch gives, as its contract says."""
        if batch is None:
            return 0
        lens = batch.prefix_lens[batch.request_index != PADDING_REQUEST]
        window = self._canary.window
        return int((np.minimum(lens, window) if window else lens).sum())

    def _shifted(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return to_kernel_slots(slots, self._canary.shift)

    def _tensor(self, values: NDArray[np.int64] | None) -> torch.Tensor:
        # A copy: what is mapped cannot be written, and torch warns of such arrays.
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self._canary.device)
