"""A recorded plan, held against the one that the plan launch gives on the replay's tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.torch_module import torch
from kvaudit.constants import NO_SEED, PADDING_REQUEST, PADDING_SLOT
from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.entries import to_engine_slots, to_kernel_slots
from kvaudit.core.recorded_step import RecordedBatch, RecordedStep
from kvaudit.runner.replay.replayed_pool import ReplayedPool
from kvaudit.runner.replay.step_plans import StepPlans

_VERIFY_LISTS = (
    "verify_slot_indices",
    "verify_expected_positions",
    "verify_prev_slot_indices",
)


def plan_divergences(
    recorded: RecordedStep, plans: StepPlans, *, pool: ReplayedPool
) -> list[Divergence]:
    """The first entry of each list that the tables give otherwise; empty where they agree.

    Nothing can be said of a row without a batch. A disabled plan has no entries.
    """
    if recorded.batch is None:
        return []
    return [
        *_write_divergences(recorded, recorded.batch, plans, pool=pool),
        *_verify_divergences(recorded, recorded.batch, plans, pool=pool),
    ]


def _write_divergences(
    recorded: RecordedStep, batch: RecordedBatch, plans: StepPlans, *, pool: ReplayedPool
) -> list[Divergence]:
    write = recorded.write
    if write is None or plans.write is None:
        return []
    num = min(len(batch.request_index), len(write.plan))
    is_real = (batch.request_index[:num] != PADDING_REQUEST) & (batch.extend_seq_lens[:num] > 0)
    lists = {
        "write_offsets": (
            np.diff(write.plan.write_offsets[: num + 1]),
            np.diff(_host(plans.write.write_offsets[: num + 1])),
        ),
        "write_seed_slot_indices": (
            _seeds(to_kernel_slots(write.plan.write_seed_slot_indices[:num], pool.canary.shift)),
            _seeds(_host(plans.write.write_seed_slot_indices[:num])),
        ),
    }
    found = []
    for name, (given, derived) in lists.items():
        differing = np.flatnonzero((given != derived) & is_real)
        if differing.size:
            at = int(differing[0])
            is_slot = name == "write_seed_slot_indices"
            pair = np.array([given[at], derived[at]], dtype=np.int64)
            if is_slot:
                pair = to_engine_slots(pair, pool.canary.shift)
            found.append(
                _divergence(
                    recorded,
                    name,
                    pair,
                    slot=int(pair[0]) if is_slot and pair[0] >= 0 else None,
                    position=int(batch.prefix_lens[at]),
                    row=int(batch.request_index[at]),
                    pool=pool,
                )
            )
    return found


def _verify_divergences(
    recorded: RecordedStep, batch: RecordedBatch, plans: StepPlans, *, pool: ReplayedPool
) -> list[Divergence]:
    verify, derived = recorded.verify, plans.derived
    if verify is None or derived is None or not verify.plan.enable:
        return []
    num = len(verify.plan)
    num_derived = int(derived.verify_num_valid)
    if num != num_derived:
        pair = np.array([num, num_derived], dtype=np.int64)
        return [_divergence(recorded, "verify_num_valid", pair, pool=pool)]
    rows = _rows_of_entries(batch, window=pool.canary.window)
    for name in _VERIFY_LISTS:
        given = getattr(verify.plan, name)[:num]
        is_slot = name != "verify_expected_positions"
        if is_slot:
            given = to_kernel_slots(given, pool.canary.shift)
        ours = _host(getattr(derived, name)[:num])
        differing = np.flatnonzero(given != ours)
        if differing.size:
            at = int(differing[0])
            pair = np.array([given[at], ours[at]], dtype=np.int64)
            if is_slot:
                pair = to_engine_slots(pair, pool.canary.shift)
            return [
                _divergence(
                    recorded,
                    name,
                    pair,
                    slot=int(verify.plan.verify_slot_indices[at]),
                    position=int(verify.plan.verify_expected_positions[at]),
                    row=int(rows[at]),
                    pool=pool,
                )
            ]
    return []


def _divergence(
    recorded: RecordedStep,
    column: str,
    pair: NDArray[np.int64],
    *,
    pool: ReplayedPool,
    slot: int | None = None,
    position: int | None = None,
    row: int = PADDING_REQUEST,
) -> Divergence:
    name = pool.tables.name_of(row)
    return Divergence(
        kind=DivergenceKind.PLAN,
        first_step=recorded.step,
        last_step=recorded.step,
        column=column,
        slot=slot,
        position=position,
        request_ids=(name,) if name else (),
        recorded=int(pair[0]),
        replayed=int(pair[1]),
    )


def _seeds(seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """A position without a slot is no seed, whatever stands in its place."""
    return np.where(seeds <= PADDING_SLOT, NO_SEED, seeds)


def _rows_of_entries(batch: RecordedBatch, *, window: int) -> NDArray[np.int64]:
    """The table row of each derived entry, shape [n], int64."""
    is_real = batch.request_index != PADDING_REQUEST
    lens = batch.prefix_lens[is_real]
    return np.repeat(batch.request_index[is_real], np.minimum(lens, window) if window else lens)


def _host(values: torch.Tensor) -> NDArray[np.int64]:
    array: NDArray[np.int64] = values.cpu().numpy()
    return array
