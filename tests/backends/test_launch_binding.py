"""A bound fold, the launches' own and the twins': enqueued again and again, one result."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.backends import launch_fold, launch_fold_reference
from kvaudit.backends.launch_binding import BindFold, FoldedEntries
from kvaudit.backends.launch_kernels import device_kernels
from kvaudit.backends.launch_types import RealKvSource
from kvaudit.constants import RealKvHashMode
from kvaudit.kernels.fold import reference
from tests.helpers.torch_launches import make_context, make_source

SLOTS = torch.tensor([3, 1, 6, 3])
FOLDS = [
    pytest.param(launch_fold.bind_fold, id="cpu"),
    pytest.param(launch_fold_reference.bind_fold, id="reference"),
]


def bound(
    bind_fold: Any, *, leaves_last: bool = False, read_bytes: int = 48, **changes: Any
) -> tuple[Any, FoldedEntries, Any]:
    """A context of two sources, the last of which reads so much, and the fold of SLOTS."""
    chosen = device_kernels(torch.device("cpu"))
    wide = torch.arange(8 * 64, dtype=torch.int64).remainder(241).to(torch.uint8).view(8, 64)
    last = RealKvSource(tensor=wide, page_size=1, num_bytes_per_token=64, read_bytes=read_bytes)
    context = make_context(**{"real_kv_sources": [make_source(), last], **changes})
    entries = FoldedEntries(
        slot_indices=SLOTS.clone(),
        num_valid=np.array([len(SLOTS)], dtype=np.int32),
        enable=np.ones(1, dtype=np.int32),
    )
    fold = bind_fold(
        chosen.kernels, chosen.arrays, context=context, entries=entries, leaves_last=leaves_last
    )
    return context, entries, fold


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_has_the_signature_of_the_protocol(bind_fold: Any) -> None:
    wanted = list(inspect.signature(BindFold.__call__).parameters.values())[1:]
    found = list(inspect.signature(bind_fold).parameters.values())
    assert [each.name.strip("_") for each in found] == [each.name for each in wanted]
    assert [each.name for each in found if each.kind is inspect.Parameter.KEYWORD_ONLY] == [
        "context",
        "entries",
        "leaves_last",
    ]


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_starts_anew_each_time_and_leaves_what_is_not_in_use(bind_fold: Any) -> None:
    _, entries, fold = bound(bind_fold)
    fold.enqueue()
    wanted = fold.real_kv_hashes.tolist()
    first, second, third, fourth = wanted
    assert first == fourth
    assert len({first, second, third, 0}) == 4
    for num_valid, enable in ((4, 1), (2, 1), (0, 1), (-3, 1), (3, 0), (9, 1), (3, -1)):
        entries.slot_indices.fill_(5)
        entries.num_valid[0], entries.enable[0] = num_valid, enable
        fold.enqueue()
        num_folded = min(max(num_valid, 0), 4) if enable else 0
        changed = [old != new for old, new in zip(wanted, fold.real_kv_hashes, strict=True)]
        assert changed == [entry < num_folded for entry in range(4)]
        entries.slot_indices.copy_(SLOTS)
        entries.num_valid[0], entries.enable[0] = 4, 1
        fold.enqueue()
        assert fold.real_kv_hashes.tolist() == wanted


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_sees_what_the_sources_hold_when_it_is_enqueued(bind_fold: Any) -> None:
    context, _, fold = bound(bind_fold)
    fold.enqueue()
    before = fold.real_kv_hashes.tolist()
    context.real_kv_sources[1].tensor[6, 5] ^= 1
    fold.enqueue()
    after = fold.real_kv_hashes.tolist()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, True]


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_without_bytes_to_fold_there_are_no_hashes(bind_fold: Any) -> None:
    for changes in ({"real_kv_hash_mode": RealKvHashMode.NONE}, {"real_kv_sources": []}):
        _, _, fold = bound(bind_fold, leaves_last=True, **changes)
        fold.enqueue()
        assert fold.real_kv_hashes.shape == (0,)
        assert fold.last_source is None


@pytest.mark.parametrize(
    ("mode", "read_bytes", "left"),
    [
        (RealKvHashMode.PARTIAL, 64, 16),
        (RealKvHashMode.ALL, 32, 32),
        (RealKvHashMode.ALL, 48, None),
    ],
)
def test_a_short_last_source_is_left_to_a_launch_that_folds_it(
    mode: RealKvHashMode, read_bytes: int, left: int | None
) -> None:
    context, _, fold = bound(
        launch_fold.bind_fold, leaves_last=True, read_bytes=read_bytes, real_kv_hash_mode=mode
    )
    fold.enqueue()
    _, _, whole = bound(launch_fold.bind_fold, read_bytes=read_bytes, real_kv_hash_mode=mode)
    whole.enqueue()
    hashes = fold.real_kv_hashes.copy()
    if left is None:
        assert fold.last_source is None
    else:
        assert fold.last_source.layout == (1, 64, left)
        source_hashes = np.zeros_like(hashes)
        reference.launch_fold(
            context.real_kv_sources[1].tensor.numpy(), SLOTS.numpy(), source_hashes, 1, 64, left
        )
        reference.launch_combine(source_hashes, hashes)
    assert hashes.tolist() == whole.real_kv_hashes.tolist()


def test_the_twins_fold_leaves_no_source() -> None:
    _, _, fold = bound(launch_fold_reference.bind_fold, leaves_last=True, read_bytes=16)
    assert fold.last_source is None
