"""The canary's ring and counters, where its launches are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.backends.torch_module import torch
from kvaudit.constants import MASK64, NUM_LAUNCH_TAGS, VIOLATION_FIELDS, LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.launch_tag import LaunchPhase, PoolKind, phase_of

_SLOT_RUNS: Final = NUM_LAUNCH_TAGS
_ENABLED_PLANS: Final = _SLOT_RUNS + NUM_LAUNCH_TAGS
_WRITE_INDEX: Final = _ENABLED_PLANS + len(PoolKind)
_NUM_WORDS: Final = _WRITE_INDEX + 1
_MASK32: Final = MASK64 >> 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSample:
    """The counters of one moment, on the host.

    Fields:
        step: steps done when they were read.
        kernel_runs: launches by tag number.
        slot_runs: entries that they ran, by tag number.
        enabled_plans: plans that fitted their buffers, by pool kind.
        violations: violations so far, of all tags.
    """

    step: int
    kernel_runs: Sequence[int]
    slot_runs: Sequence[int]
    enabled_plans: Mapping[PoolKind, int]
    violations: int

    @classmethod
    def of(cls, words: torch.Tensor, *, step: int) -> CounterSample:
        """A sample from a host copy of `CanaryDeviceState.words`."""
        values: list[int] = words.tolist()
        return cls(
            step=step,
            kernel_runs=values[:_SLOT_RUNS],
            slot_runs=values[_SLOT_RUNS:_ENABLED_PLANS],
            enabled_plans=dict(zip(PoolKind, values[_ENABLED_PLANS:_WRITE_INDEX], strict=True)),
            # The index is the low half of its word.
            violations=values[_WRITE_INDEX] & _MASK32,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryDeviceState:
    """What launches count and report to, allocated once a run.

    All counters are views of `words`, so that one small copy brings them to the host.

    Fields:
        words: shape [27], int64: launches and entries by tag, enabled plans by pool kind, the
            write index.
        violation_ring: shape [ring_capacity, 8], int64; filled once, it never wraps.
        violation_write_index: shape [1], int32; counts on past the capacity.
        kernel_run_counters: launches by tag, shape [12], int64.
        slot_run_counters: entries by tag, shape [12], int64.
        enabled_plans: plans that fitted, by pool kind, shape [2], int64.
        enable_chain_position_assert: shape [1], int32; 1 = written positions must follow one
            another.
    """

    words: torch.Tensor
    violation_ring: torch.Tensor
    violation_write_index: torch.Tensor
    kernel_run_counters: torch.Tensor
    slot_run_counters: torch.Tensor
    enabled_plans: torch.Tensor
    enable_chain_position_assert: torch.Tensor

    @classmethod
    def allocate(cls, *, ring_capacity: int, device: torch.device | str) -> CanaryDeviceState:
        """Zeros, but for the chain assert, which is on.

        Args:
            ring_capacity: rows of the ring.
            device: where the launches run.
        """
        ring_shape = (ring_capacity, VIOLATION_FIELDS)
        # An engine may allocate in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            words = torch.zeros(_NUM_WORDS, dtype=torch.int64, device=device)
            index = words[_WRITE_INDEX:].view(torch.int32)
            violation_ring = torch.zeros(ring_shape, dtype=torch.int64, device=device)
            chain_assert = torch.ones(1, dtype=torch.int32, device=device)
        return cls(
            words=words,
            violation_ring=violation_ring,
            violation_write_index=index[:1],
            kernel_run_counters=words[:_SLOT_RUNS],
            slot_run_counters=words[_SLOT_RUNS:_ENABLED_PLANS],
            enabled_plans=words[_ENABLED_PLANS:_WRITE_INDEX],
            enable_chain_position_assert=chain_assert,
        )

    @property
    def device(self) -> torch.device:
        """Where it lives."""
        return self.words.device

    @property
    def ring_capacity(self) -> int:
        """Rows of the ring."""
        return int(self.violation_ring.shape[0])

    def read(self, *, tags: Sequence[LaunchTag], sweep_passes: int) -> CanaryState:
        """The ring and the counters of now, as a state file holds them; waits for the device.

        Args:
            tags: the launch tags that are attached, ascending.
            sweep_passes: whole sweeps so far.
        """
        sample = CounterSample.of(self.words.cpu(), step=0)
        num_stored = min(sample.violations, self.ring_capacity)
        return CanaryState(
            ring=self.violation_ring[:num_stored].cpu().numpy().copy(),
            violation_write_index=sample.violations,
            ring_capacity=self.ring_capacity,
            kernel_run_counters={tag: sample.kernel_runs[tag] for tag in tags},
            slot_run_counters={tag: sample.slot_runs[tag] for tag in tags},
            active_tags=tuple(tags),
            sweep_passes={tag: sweep_passes for tag in tags if phase_of(tag) is LaunchPhase.SWEEP},
        )

    def kernel_run_counter(self, tag: LaunchTag) -> torch.Tensor:
        """The launches of a tag, shape [1], int64."""
        return self.kernel_run_counters[tag : tag + 1]

    def slot_run_counter(self, tag: LaunchTag) -> torch.Tensor:
        """The entries of a tag, shape [1], int64."""
        return self.slot_run_counters[tag : tag + 1]

    def enabled_plan_counter(self, pool_kind: PoolKind) -> torch.Tensor:
        """The enabled plans of a pool, shape [1], int64."""
        number = list(PoolKind).index(pool_kind)
        return self.enabled_plans[number : number + 1]
