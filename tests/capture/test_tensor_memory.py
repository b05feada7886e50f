"""Tensors whose bytes cannot be read are refused before anything reads them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from kvaudit.capture import ForwardRow, RecordedPool, Recorder
from kvaudit.capture.digests import column_digests
from kvaudit.capture.layouts import slot_views
from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.capture.tensor_memory import check_readable
from kvaudit.errors import ConfigError

LAYOUT = "kv page slot head dim"


def pool() -> torch.Tensor:
    """One layer, shape [kv, page, slot, head, dim]."""
    return torch.arange(2 * 3 * 4 * 2 * 8, dtype=torch.float32).view(2, 3, 4, 2, 8)


def without_memory(tensor: torch.Tensor, *, num_bytes: int = 0) -> torch.Tensor:
    """The tensor as a sleeping engine leaves it."""
    tensor.untyped_storage().resize_(num_bytes)
    return tensor


UNREADABLE: dict[str, Callable[[], torch.Tensor]] = {
    "quantized": lambda: torch.quantize_per_tensor(pool(), 0.1, 0, torch.quint8),
    "negatives": lambda: torch._neg_view(pool()),
    "sparse": lambda: pool().to_sparse(),
    "meta": lambda: pool().to("meta"),
    "given back": lambda: without_memory(pool()),
    "bytes are left": lambda: without_memory(pool(), num_bytes=100),
}


@pytest.mark.filterwarnings("ignore:.*quantiz.*")
@pytest.mark.parametrize("word", UNREADABLE)
def test_a_pool_whose_bytes_cannot_be_read_is_refused_by_name(word: str) -> None:
    with pytest.raises(ConfigError, match=word) as caught:
        slot_views([pool(), UNREADABLE[word]()], layout=LAYOUT, page_size=4)
    assert "layer 1" in caught.value.message
    assert caught.value.hint


def test_a_pool_that_has_its_bytes_is_none_of_these() -> None:
    check_readable(pool()[1], "kv.v.0")
    check_readable(pool()[:, :0], "kv.k.0")


def test_a_pool_whose_memory_was_given_back_since_is_refused_by_name() -> None:
    kv = pool()
    view, _ = slot_views([kv], layout=LAYOUT, page_size=4)
    column = GatheredColumn(view=view, slots=np.array([1, 2]))
    without_memory(kv)
    with pytest.raises(ConfigError, match=r"^kv\.k\.0: its memory was given back"):
        column.read_rows(0, 2)
    with pytest.raises(ConfigError, match=r"^kv\.k\.0: its memory was given back"):
        column_digests({"kv.k.0": column})


def test_a_recorder_stamps_no_memory_that_was_given_back() -> None:
    kv = pool()
    recorder = Recorder()
    recorder.attach([RecordedPool(kv=[kv], layout=LAYOUT, page_size=4)])
    recorder.before_forward([ForwardRow(request_id="a", positions=range(1), tokens=[7], slots=[4])])
    without_memory(kv)
    with pytest.raises(ConfigError, match="given back"):
        recorder.after_forward()
