"""Cached prefixes, verified a part at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvaudit.constants import FailReason, LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.core.ring_row import RingRow
from kvaudit.runner.live.config import CanaryConfig, CanaryMode
from kvaudit.runner.live.sweep_orchestrator import MAX_PIECES, CachedPrefix, SweepOrchestrator
from tests.helpers.live_engine import LiveEngine

# What a K entry reads without bytes: its record and its predecessor's.
ENTRY_BYTES = 64
SWEEP_K = [LaunchTag.SWEEP_K_FULL]


class Sweep:
    """A stamped engine whose prefixes are swept every ten steps; `cached` may be changed."""

    def __init__(self, *, engine: dict[str, Any] | None = None, **config: Any) -> None:
        swept = CanaryConfig(mode=CanaryMode.LOG, **{"sweep_interval": 10, **config})
        self.engine = LiveEngine(replace(swept, sweep_interval=0), **(engine or {}))
        self.engine.run(6)
        self.cached = {kind: self.engine.cached_prefixes(kind) for kind in self.engine.pools}
        self.orchestrator = SweepOrchestrator(
            list(self.engine.pools.values()), cached_prefixes=self.cached.get, config=swept
        )
        self.num_steps = 0

    @property
    def full(self) -> dict[str, CachedPrefix]:
        return self.cached[PoolKind.FULL]

    def steps(self, count: int) -> list[tuple[int, int]]:
        """(step, entries) of each step in which a sweep was due; what is due is what ran."""
        launched = []
        for _ in range(count):
            self.num_steps += 1
            runs = self.engine.state.kernel_run_counters.clone()
            entries = self.engine.state.slot_run_counters.clone()
            due = self.orchestrator.step(self.num_steps)
            ran = self.engine.state.kernel_run_counters - runs
            assert [LaunchTag(tag) for tag in ran.nonzero().flatten().tolist()] == list(due)
            assert all(ran[tag] == 1 for tag in due)
            if due:
                swept = self.engine.state.slot_run_counters - entries
                launched.append((self.num_steps, int(swept[due[0]])))
        return launched

    def rows(self) -> list[RingRow]:
        count = int(self.engine.state.violation_write_index)
        return [RingRow.of(row) for row in self.engine.state.violation_ring[:count].tolist()]


def test_a_sweep_comes_every_so_many_steps_and_finds_a_stamped_pool_clean() -> None:
    sweep = Sweep()
    assert sweep.steps(35) == [(10, 16), (20, 16), (30, 16)]
    assert sweep.orchestrator.passes == 3
    assert not sweep.rows()


@pytest.mark.parametrize("per_step", [1, 3, 5, 15, 16, 100])
def test_a_pass_takes_what_the_budget_allows_and_goes_on_where_it_stopped(per_step: int) -> None:
    sweep = Sweep(sweep_bytes_per_step=per_step * ENTRY_BYTES, sweep_interval=20)
    slot = sweep.engine.overwrite(2, 6)
    launched = sweep.steps(39)
    assert sum(entries for _, entries in launched) == 16
    assert all(entries <= per_step for _, entries in launched)
    assert [step for step, _ in launched] == list(range(20, 20 + -(-16 // per_step)))
    assert sweep.orchestrator.passes == 1
    assert [row.slot for row in sweep.rows()] == [slot, slot + 1]


def test_a_budget_below_an_entry_still_takes_one_and_turns_within_a_pass_are_skipped() -> None:
    sweep = Sweep(sweep_bytes_per_step=1, sweep_interval=3)
    assert len(sweep.steps(18)) == 16
    assert sweep.orchestrator.passes == 1


def test_bytes_count_against_the_budget_and_are_verified() -> None:
    sweep = Sweep(real_kv_hash_mode=RealKvHashMode.ALL, sweep_bytes_per_step=4 * (ENTRY_BYTES + 32))
    slot = sweep.engine.slot(1, 5)
    sweep.engine.kv.view(-1, 32)[slot, 9] ^= 1
    assert [entries for _, entries in sweep.steps(19)] == [4] * 4
    (row,) = sweep.rows()
    assert (row.slot, row.reasons) == (slot, FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
    assert row.tag == LaunchTag.SWEEP_K_FULL


def test_a_prefix_that_was_given_up_meanwhile_is_left_out() -> None:
    sweep = Sweep(sweep_bytes_per_step=5 * ENTRY_BYTES)
    assert sweep.steps(10) == [(10, 5)]
    sweep.engine.overwrite(1, 6)
    sweep.engine.overwrite(2, 6)
    del sweep.full["prefix-1"]
    del sweep.full["prefix-2"]
    assert not sweep.steps(9)
    assert sweep.orchestrator.passes == 1
    assert not sweep.rows()


def test_a_prefix_that_lost_its_end_is_swept_as_far_as_it_goes() -> None:
    sweep = Sweep(sweep_bytes_per_step=5 * ENTRY_BYTES)
    sweep.steps(10)
    sweep.full["prefix-1"] = CachedPrefix(slots=sweep.full["prefix-1"].slots[:6])
    assert [entries for _, entries in sweep.steps(9)] == [5, 4]
    assert not sweep.rows()


def test_the_predecessor_of_a_part_is_checked_and_one_before_the_prefix_is_not() -> None:
    sweep = Sweep(sweep_bytes_per_step=4 * ENTRY_BYTES)
    whole = sweep.full["prefix-1"].slots
    sweep.cached[PoolKind.FULL] = {"tail": CachedPrefix(slots=whole[2:], start_position=2)}
    sweep.engine.overwrite(1, 1)
    sweep.steps(19)
    assert not sweep.rows()
    sweep.engine.overwrite(1, 5)  # the last entry of the first part
    sweep.steps(10)
    assert [row.slot for row in sweep.rows()] == [int(whole[5]), int(whole[6])]


def test_a_head_that_is_not_one_is_found() -> None:
    sweep = Sweep()
    whole = sweep.full["prefix-1"].slots
    sweep.cached[PoolKind.FULL] = {"wrong": CachedPrefix(slots=whole[1:])}
    sweep.steps(10)
    reasons = [row.reasons for row in sweep.rows()]
    position, chain = (
        FailReason.VERIFY_POSITION_MISMATCH,
        FailReason.VERIFY_CHAIN_HASH_MISMATCH,
    )
    assert reasons == [position | chain, *[position] * 6]


def test_tokens_are_judged_where_the_prefix_has_them() -> None:
    sweep = Sweep()
    judging = CanaryConfig(
        sweep_interval=10, enable_verify_token_assert=True, sweep_bytes_per_step=5 * ENTRY_BYTES
    )
    pool = sweep.engine.pool
    judged = replace(
        pool, endpoints=[replace(endpoint, checks_tokens=True) for endpoint in pool.endpoints]
    )
    known = sweep.engine.tokens[1, :8].long()
    known[6] += 1
    cached = dict(sweep.full)
    cached["prefix-1"] = replace(cached["prefix-1"], tokens=known)
    sweep.orchestrator = SweepOrchestrator(
        [judged], cached_prefixes=lambda _: cached, config=judging
    )
    sweep.steps(19)
    (row,) = sweep.rows()
    assert row.reasons == FailReason.VERIFY_TOKEN_MISMATCH
    assert row.slot == sweep.engine.slot(1, 6)


def test_all_halves_and_pools_are_swept_in_one_pass() -> None:
    sweep = Sweep(engine={"halves": (KvHalf.K, KvHalf.V), "window": 4})
    launched = sweep.steps(12)
    assert launched == [(10, 16), (11, 16)]
    assert sweep.orchestrator.passes == 1
    runs = sweep.engine.state.kernel_run_counters.tolist()
    assert [runs[tag] for tag in LaunchTag if "SWEEP" in tag.name] == [1] * 4
    assert not sweep.rows()


def test_a_step_takes_a_bounded_number_of_prefixes() -> None:
    sweep = Sweep(engine={"max_len": 64})
    slots = sweep.full["prefix-1"].slots
    sweep.cached[PoolKind.FULL] = {
        str(number): CachedPrefix(slots=slots[:1]) for number in range(MAX_PIECES + 3)
    }
    assert [entries for _, entries in sweep.steps(15)] == [MAX_PIECES, 3]


def test_nothing_cached_is_no_pass_and_nothing_is_due() -> None:
    sweep = Sweep()
    sweep.full.clear()
    assert not sweep.steps(40)
    assert sweep.orchestrator.passes == 0


def test_an_interval_of_0_never_asks_the_engine() -> None:
    sweep = Sweep(sweep_interval=0)
    sweep.cached.clear()
    assert not sweep.steps(50)


@pytest.mark.parametrize(
    "prefix",
    [
        CachedPrefix(slots=torch.tensor([2, 3], dtype=torch.int32)),
        CachedPrefix(slots=torch.tensor([[2, 3]])),
        CachedPrefix(slots=[2, 3]),
        CachedPrefix(slots=torch.tensor([2, 3]), tokens=torch.tensor([5])),
    ],
)
def test_a_prefix_that_would_have_to_be_converted_is_refused(prefix: CachedPrefix) -> None:
    sweep = Sweep()
    sweep.cached[PoolKind.FULL] = {"odd": prefix}
    with pytest.raises(ValueError, match=r"^cached prefix: "):
        sweep.steps(10)
