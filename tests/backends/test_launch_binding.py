"""A bound fold, the launches' own and the twins': enqueued again and again, one result."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from kvaudit.backends import launch_fold, launch_fold_reference
from kvaudit.backends.launch_binding import BindFold
from kvaudit.backends.launch_kernels import device_kernels
from kvaudit.constants import RealKvHashMode
from tests.helpers.torch_launches import make_context, make_source

SLOTS = torch.tensor([3, 1, 6, 3])
FOLDS = [
    pytest.param(launch_fold.bind_fold, id="cpu"),
    pytest.param(launch_fold_reference.bind_fold, id="reference"),
]


def bound(bind_fold: Any, **changes: Any) -> Any:
    chosen = device_kernels(torch.device("cpu"))
    sources = [make_source(), make_source(read_bytes=16)]
    context = make_context(**{"real_kv_sources": sources, **changes})
    return context, bind_fold(chosen.kernels, chosen.arrays, context=context, slot_indices=SLOTS)


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_has_the_signature_of_the_protocol(bind_fold: Any) -> None:
    wanted = list(inspect.signature(BindFold.__call__).parameters.values())[1:]
    found = list(inspect.signature(bind_fold).parameters.values())
    assert [each.name.strip("_") for each in found] == [each.name for each in wanted]
    assert [each.name for each in found if each.kind is inspect.Parameter.KEYWORD_ONLY] == [
        "context",
        "slot_indices",
    ]


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_starts_anew_each_time_and_leaves_0_where_it_does_not_reach(bind_fold: Any) -> None:
    _, fold = bound(bind_fold)
    fold.enqueue(4)
    first, second, third, fourth = fold.real_kv_hashes.tolist()
    assert first == fourth
    assert len({first, second, third, 0}) == 4
    for num_folded in (4, 2, 0, 3):
        fold.enqueue(num_folded)
        wanted = [first, second, third, fourth][:num_folded] + [0] * (4 - num_folded)
        assert fold.real_kv_hashes.tolist() == wanted


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_a_fold_sees_what_the_sources_hold_when_it_is_enqueued(bind_fold: Any) -> None:
    context, fold = bound(bind_fold)
    fold.enqueue(4)
    before = fold.real_kv_hashes.tolist()
    context.real_kv_sources[1].tensor[3, 5] ^= 1  # slot 6: page 3, its first slot
    fold.enqueue(4)
    after = fold.real_kv_hashes.tolist()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, True]


@pytest.mark.parametrize("bind_fold", FOLDS)
def test_without_bytes_to_fold_there_are_no_hashes(bind_fold: Any) -> None:
    for changes in ({"real_kv_hash_mode": RealKvHashMode.NONE}, {"real_kv_sources": []}):
        _, fold = bound(bind_fold, **changes)
        fold.enqueue(4)
        assert fold.real_kv_hashes.shape == (0,)
