"""One launch tag of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.backends.launch import RealKvSource, VerifyOrWriteContext, VerifyPlan
from kvaudit.backends.torch_module import torch
from kvaudit.constants import PARTIAL_READ_BYTES, RECORD_BYTES, LaunchTag, RealKvHashMode
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.launches import CanaryLaunches
from kvaudit.runner.live.step_inputs import PlannedStep, WrittenEntries


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryEndpoint:
    """The buffer, sources and counters of one launch tag, and its launches.

    Fields:
        context: what the launches read and change.
        launches: the launchers.
        checks_tokens: whether stored tokens are judged.
    """

    context: VerifyOrWriteContext
    launches: CanaryLaunches
    checks_tokens: bool

    @classmethod
    def of(
        cls,
        tag: LaunchTag,
        *,
        canary_buf: torch.Tensor,
        sources: Sequence[RealKvSource],
        state: CanaryDeviceState,
        config: CanaryConfig,
        launches: CanaryLaunches,
    ) -> CanaryEndpoint:
        """The endpoint of a tag.

        Args:
            tag: the launch tag.
            canary_buf: its records, shape [num_slots, stride], uint8.
            sources: the KV that its real_kv_hash covers, in fold order; a head has none.
            state: the ring and the counters.
            config: the mode of the hash, and whether tokens are judged.
            launches: the launchers.
        """
        context = VerifyOrWriteContext(
            canary_buf=canary_buf,
            kernel_kind=tag,
            violation_ring=state.violation_ring,
            violation_write_index=state.violation_write_index,
            slot_run_counter=state.slot_run_counter(tag),
            kernel_run_counter=state.kernel_run_counter(tag),
            real_kv_sources=sources,
            real_kv_hash_mode=config.real_kv_hash_mode,
            enable_chain_position_assert=state.enable_chain_position_assert,
        )
        return cls(
            context=context, launches=launches, checks_tokens=config.enable_verify_token_assert
        )

    @property
    def tag(self) -> LaunchTag:
        """The launch tag."""
        return self.context.kernel_kind

    @property
    def bytes_per_entry(self) -> int:
        """What a verify launch reads of a slot: its record, its predecessor's, and its sources."""
        mode = self.context.real_kv_hash_mode
        hashed = [
            PARTIAL_READ_BYTES if mode is RealKvHashMode.PARTIAL else source.read_bytes
            for source in self.context.real_kv_sources
            if mode is not RealKvHashMode.NONE
        ]
        return 2 * RECORD_BYTES + sum(hashed)

    def launch(self, step: PlannedStep) -> None:
        """Verify what a step finds, then stamp what it writes."""
        if step.verify_plan is not None:
            self.verify(step.verify_plan)
        if step.write is not None:
            self.write(step.write)

    def verify(self, plan: VerifyPlan) -> None:
        """Check the planned slots."""
        self.launches.verify(
            context=self.context, plan=plan, check_verify_expected_token=self.checks_tokens
        )

    def write(self, entries: WrittenEntries) -> None:
        """Stamp the entries."""
        self.launches.write(
            context=self.context,
            plan=entries.plan,
            input_ids=entries.input_ids,
            positions=entries.positions,
            out_cache_loc=entries.out_cache_loc,
            enable_write_input_assert=entries.expected_input_tokens is not None,
            expected_input_tokens=entries.expected_input_tokens,
            expected_input_positions=entries.expected_input_positions,
        )
