"""One pool under a canary: its records, its plans and its launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.backends.launch import RealKvSource, VerifyPlan, WritePlan
from kvaudit.backends.torch_module import torch
from kvaudit.constants import RECORD_BYTES, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, PoolKind, launch_tag, phase_of
from kvaudit.errors import ConfigError
from kvaudit.runner.canary_columns import column_of
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.endpoint import CanaryEndpoint
from kvaudit.runner.live.launches import CanaryLaunches, device_launches
from kvaudit.runner.live.step_inputs import CanaryBatch, PlannedStep, WrittenEntries

# A pool without slots is one of which nothing was dumped.
_LEAST: Final = {"num_slots": 0, "page_size": 1, "verify_capacity": 1, "write_req_capacity": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGeometry:
    """How a pool is laid out, and how large a step's plans may be.

    Fields:
        pool_kind: FULL or SWA.
        num_slots: slots, the reserved slot 0 included.
        page_size: slots a page.
        verify_capacity: entries of a verify plan: a step with more is not verified.
        write_req_capacity: requests of a write plan: a batch with more is refused.
        swa_window_size: window in tokens; 0 of a full pool.
        kv_token_id_vs_position_offset: position p holds token p + offset.

    Raises:
        ConfigError: a number cannot be a pool's; the message names the field.
    """

    pool_kind: PoolKind = PoolKind.FULL
    num_slots: int
    page_size: int
    verify_capacity: int
    write_req_capacity: int
    swa_window_size: int = 0
    kv_token_id_vs_position_offset: int = 0

    def __post_init__(self) -> None:
        for name, at_least in _LEAST.items():
            if getattr(self, name) < at_least:
                raise ConfigError(
                    f"{name}: is {getattr(self, name)}", hint=f"give {at_least} or more"
                )
        if self.swa_window_size < 0 or (self.swa_window_size and self.pool_kind is PoolKind.FULL):
            raise ConfigError(
                f"swa_window_size: is {self.swa_window_size} of a pool of kind {self.pool_kind}",
                hint="give a window pool the kind SWA and its window, a full pool 0",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryPool:
    """A pool's record buffers and the endpoints over them.

    Slot 0 is padding, which no launch verifies: an engine that uses it shifts its slots by a page.

    Fields:
        geometry: how it is laid out.
        buffers: records by column name, such as `k.tail`; shape [num_slots, 32], uint8.
        endpoints: every launch of the pool, by tag number.
        launches: the launchers.
        verify_plan: what the verify launches of a step read.
        write_plan: what its write launches read.
    """

    geometry: PoolGeometry
    buffers: Mapping[str, torch.Tensor]
    endpoints: Sequence[CanaryEndpoint]
    launches: CanaryLaunches
    verify_plan: VerifyPlan
    write_plan: WritePlan

    @classmethod
    def allocate(
        cls,
        geometry: PoolGeometry,
        *,
        sources: Mapping[KvHalf, Sequence[RealKvSource]],
        state: CanaryDeviceState,
        config: CanaryConfig,
        launches: CanaryLaunches | None = None,
    ) -> CanaryPool:
        """Zeroed buffers and endpoints of the given halves.

        Args:
            geometry: how the pool is laid out.
            sources: the halves to stamp, each with the KV that its real_kv_hash covers, in fold
                order; a half without bytes has none.
            state: the ring and the counters; its device is the pool's.
            config: the canary's.
            launches: the launchers; None = those of the device.

        Raises:
            ConfigError: a hash of bytes is asked for, and there are none; or no half is given.
        """
        _check_sources(sources, config)
        launches = launches or device_launches()
        tags = {
            launch_tag(phase, half, geometry.pool_kind): half
            for half in sources
            for phase in LaunchPhase
        }
        # An engine may allocate in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            buffers = {
                name: torch.zeros(
                    (geometry.num_slots, RECORD_BYTES), dtype=torch.uint8, device=state.device
                )
                for name in sorted({column_of(tag) for tag in tags})
            }
            verify_plan = VerifyPlan.allocate(
                verify_capacity=geometry.verify_capacity, device=state.device
            )
            write_plan = WritePlan.allocate(
                write_req_capacity=geometry.write_req_capacity, device=state.device
            )
        endpoints = [
            CanaryEndpoint.of(
                tag,
                canary_buf=buffers[column_of(tag)],
                sources=() if phase_of(tag) is LaunchPhase.HEAD else tuple(sources[half]),
                state=state,
                config=config,
                launches=launches,
            )
            for tag, half in sorted(tags.items())
        ]
        return cls(
            geometry=geometry,
            buffers=buffers,
            endpoints=endpoints,
            launches=launches,
            verify_plan=verify_plan,
            write_plan=write_plan,
        )

    def endpoints_of(self, phase: LaunchPhase) -> list[CanaryEndpoint]:
        """The endpoints of a phase, by tag number."""
        return [endpoint for endpoint in self.endpoints if phase_of(endpoint.tag) is phase]

    def planned(self, batch: CanaryBatch, *, config: CanaryConfig) -> PlannedStep:
        """Plan a batch into the pool's buffers.

        Raises:
            ValueError: an argument cannot be used; the message names it.
        """
        geometry = self.geometry
        is_window = geometry.pool_kind is PoolKind.SWA
        needed = _needed(batch, config=config, is_window=is_window)
        self.launches.plan(
            verify_plan_out=self.verify_plan,
            write_plan_out=self.write_plan,
            req_pool_indices=batch.req_pool_indices,
            prefix_lens=batch.prefix_lens,
            extend_seq_lens=batch.extend_seq_lens,
            req_to_token=batch.req_to_token,
            swa_window_size=geometry.swa_window_size,
            full_to_swa_index_mapping=needed.get("full_to_swa_index_mapping"),
            verify_capacity=geometry.verify_capacity,
            req_to_verify_expected_tokens=needed.get("req_to_verify_expected_tokens"),
            req_to_verify_expected_tokens_valid_lens=needed.get(
                "req_to_verify_expected_tokens_valid_lens"
            ),
            kv_token_id_vs_position_offset=geometry.kv_token_id_vs_position_offset,
        )
        return PlannedStep(
            pool_kind=geometry.pool_kind,
            verify_plan=self.verify_plan,
            write=WrittenEntries(
                plan=self.write_plan,
                input_ids=batch.input_ids,
                positions=batch.positions,
                out_cache_loc=needed["swa_out_cache_loc"] if is_window else batch.out_cache_loc,
                expected_input_tokens=needed.get("expected_input_tokens"),
                expected_input_positions=needed.get("expected_input_positions"),
            ),
        )


def _needed(
    batch: CanaryBatch, *, config: CanaryConfig, is_window: bool
) -> dict[str, torch.Tensor]:
    """The optional tensors of a batch that this pool and this configuration cannot do without.

    Raises:
        ValueError: one is None: what it is for would go unchecked.
    """
    names = []
    if is_window:
        names += ["swa_out_cache_loc", "full_to_swa_index_mapping"]
    if config.enable_verify_token_assert:
        names += ["req_to_verify_expected_tokens", "req_to_verify_expected_tokens_valid_lens"]
    if config.enable_write_input_assert:
        names += ["expected_input_tokens", "expected_input_positions"]
    for name in names:
        if getattr(batch, name) is None:
            raise ValueError(f"{name}: is None, but the canary's pools and asserts need it")
    return {name: getattr(batch, name) for name in names}


def _check_sources(sources: Mapping[KvHalf, Sequence[RealKvSource]], config: CanaryConfig) -> None:
    if not sources:
        raise ConfigError("a pool without a half", hint="give sources for K, for V, or for both")
    hashes_bytes = config.real_kv_hash_mode is not RealKvHashMode.NONE
    if hashes_bytes and not any(sources.values()):
        raise ConfigError(
            f"real_kv_hash_mode is {config.real_kv_hash_mode.name.lower()}, but there are no sources",
            hint="give the KV tensors to hash, or set real_kv_hash_mode to none",
        )
