"""The twins' fold: against the hand oracle, and apart from the fold that they judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.backends import launch, launch_fold, launch_fold_reference
from kvaudit.backends.launch_binding import FoldedEntries
from kvaudit.constants import OUT_OF_TABLE_SLOT
from tests.helpers import hand_oracle
from tests.helpers.torch_launches import make_context, make_source, stamp_all


def folded(context: Any, slots: list[int], num_folded: int) -> list[int]:
    """Hashes of the leading slots; those past num_folded are 0."""
    entries = FoldedEntries(
        slot_indices=torch.tensor(slots),
        num_valid=np.array([num_folded], dtype=np.int32),
        enable=np.zeros(0, dtype=np.int32),
    )
    fold = launch_fold_reference.bind_fold(
        None, None, context=context, entries=entries, leaves_last=True
    )
    fold.enqueue()
    return fold.real_kv_hashes.tolist()


@pytest.mark.parametrize(
    ("mode", "lengths"),
    [(launch.RealKvHashMode.ALL, (32, 16)), (launch.RealKvHashMode.PARTIAL, (16, 16))],
)
def test_each_slot_s_bytes_are_folded_source_by_source(mode: Any, lengths: tuple[int, int]) -> None:
    wide = torch.arange(4 * 128).to(torch.uint8).view(4, 128)
    values = torch.arange(4 * 16).to(torch.float32).view(4, 2, 8)
    sources = [make_source(tensor=wide[:, 32:96]), make_source(tensor=values, read_bytes=16)]
    context = make_context(real_kv_sources=sources, real_kv_hash_mode=mode)
    rows = [
        [bytes(row.tolist()) for row in wide[:, 32:96]],
        [row.numpy().tobytes() for row in values],
    ]
    wanted = [
        hand_oracle.combined(
            [
                hand_oracle.fold(pages[slot // 2][32 * (slot % 2) :][:length])
                for pages, length in zip(rows, lengths, strict=True)
            ]
        )
        for slot in (7, 2, 0)
    ]
    assert folded(context, [7, 2, 0, 5], 3) == [*wanted, 0]


def test_a_slot_outside_the_pool_is_not_read() -> None:
    context = make_context(real_kv_sources=[make_source()])
    assert folded(context, [-1, 8, OUT_OF_TABLE_SLOT], 3) == [0, 0, 0]


def test_without_mode_or_sources_nothing_is_folded() -> None:
    none = make_context(
        real_kv_sources=[make_source()], real_kv_hash_mode=launch.RealKvHashMode.NONE
    )
    assert folded(none, [1, 2], 2) == folded(make_context(), [1, 2], 2) == []


def test_a_fault_of_the_launches_own_fold_is_none_of_the_twins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_arguments: object, **_named: object) -> None:
        raise AssertionError

    monkeypatch.setattr(launch_fold, "bind_fold", broken)
    context = make_context(real_kv_sources=[make_source()])
    plan = stamp_all(context, launch.launch_canary_write_kernel_torch_reference)
    launch.launch_canary_verify_kernel_torch_reference(
        context=context, plan=plan, check_verify_expected_token=True
    )
    assert context.violation_write_index.tolist() == [0]
    with pytest.raises(AssertionError):
        stamp_all(context, launch.launch_canary_write_kernel)
