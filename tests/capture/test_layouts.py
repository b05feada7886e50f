"""Every layout gathers what a naive loop over slots reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.capture.layouts import parse_layout, slot_views
from kvaudit.errors import ConfigError

LAYERS, PAGES, PAGE_SIZE, HEADS, DIM = 3, 5, 4, 2, 6
NUM_SLOTS = PAGES * PAGE_SIZE
SIZES = {"layer": LAYERS, "kv": 2, "page": PAGES, "slot": PAGE_SIZE, "head": HEADS, "dim": DIM}
WANTED = np.array([0, 3, 4, 11, 17, 19], dtype=np.int64)


def pool(dtype: torch.dtype = torch.int16) -> torch.Tensor:
    """Distinct values, shape [layer, kv, page, slot, head, dim]."""
    shape = tuple(SIZES.values())
    numbers = torch.arange(LAYERS * 2 * NUM_SLOTS * HEADS * DIM, dtype=torch.int32) % 30011
    return numbers.to(torch.int16).reshape(shape).contiguous().view(dtype)


def naive_rows(layer: int, half: int) -> np.ndarray:
    """One token's [heads, dim] for each wanted slot, read value by value."""
    values = pool()
    rows = [values[layer, half, slot // PAGE_SIZE, slot % PAGE_SIZE].numpy() for slot in WANTED]
    return np.stack(rows).reshape(len(WANTED), -1).view(np.uint8)


def arranged(words: list[str], tensor: torch.Tensor | None = None) -> torch.Tensor:
    """The pool (or a part of it) with its dimensions in this order, in memory of its own."""
    source = pool() if tensor is None else tensor
    names = list(SIZES)[-source.dim() :]
    return source.permute([names.index(word) for word in words]).contiguous()


ONE_TENSOR = [
    "layer kv page slot head dim",
    "kv layer page slot head dim",
    "page layer kv slot head dim",
    "layer page head slot dim kv",
    "dim head slot page kv layer",
]
WITH_KV = ["kv page slot head dim", "page kv slot head dim", "page kv head slot dim"]
IN_PAIRS = ["page slot head dim", "page head slot dim", "page head dim slot", "slot page dim head"]


def assert_gathers_every_half(views: list) -> None:
    names = [f"kv.{half}.{layer}" for layer in range(LAYERS) for half in "kv"]
    assert [view.name for view in views] == names
    for view in views:
        layer, half = int(view.name[-1]), "kv".index(view.name.split(".")[1])
        assert view.num_slots == NUM_SLOTS
        np.testing.assert_array_equal(view.gather(WANTED), naive_rows(layer, half))


@pytest.mark.parametrize("layout", ONE_TENSOR)
def test_one_tensor_over_all_layers_is_gathered(layout: str) -> None:
    tensor = arranged(layout.split())
    assert_gathers_every_half(slot_views(tensor, layout=layout, page_size=PAGE_SIZE))


@pytest.mark.parametrize("layout", WITH_KV)
def test_a_tensor_of_both_halves_a_layer_is_gathered(layout: str) -> None:
    tensors = [arranged(layout.split(), layer) for layer in pool()]
    assert_gathers_every_half(slot_views(tensors, layout=layout, page_size=PAGE_SIZE))


@pytest.mark.parametrize("layout", IN_PAIRS)
def test_a_pair_a_layer_is_gathered(layout: str) -> None:
    words = layout.split()
    pairs = [(arranged(words, layer[0]), arranged(words, layer[1])) for layer in pool()]
    assert_gathers_every_half(slot_views(pairs, layout=layout, page_size=PAGE_SIZE))


def test_a_pair_over_all_layers_is_gathered() -> None:
    k, v = pool().unbind(1)
    layout = "layer page slot head dim"
    assert_gathers_every_half(slot_views((k, v), layout=layout, page_size=PAGE_SIZE))


def test_slots_without_pages_are_gathered() -> None:
    pairs = [tuple(half.reshape(NUM_SLOTS, HEADS, DIM) for half in layer) for layer in pool()]
    assert_gathers_every_half(slot_views(pairs, layout="slot head dim", page_size=PAGE_SIZE))


def test_a_split_dim_is_joined_outermost_part_first() -> None:
    split = pool().reshape(LAYERS, 2, PAGES, PAGE_SIZE, HEADS, 2, 3)
    pairs = [tuple(half.permute(0, 2, 3, 1, 4) for half in layer) for layer in split]
    views = slot_views(pairs, layout="page head dim slot dim", page_size=PAGE_SIZE)
    assert_gathers_every_half(views)


def test_views_into_a_wider_buffer_are_gathered_without_copying_the_pool() -> None:
    wider = torch.zeros(PAGES, LAYERS, 2, PAGE_SIZE, HEADS, DIM + 2, dtype=torch.int16)
    strided = wider[..., 1 : DIM + 1]
    strided.copy_(pool().permute(2, 0, 1, 3, 4, 5))
    views = slot_views(strided, layout="page layer kv slot head dim", page_size=PAGE_SIZE)
    assert_gathers_every_half(views)
    assert {view.rows.untyped_storage().data_ptr() for view in views} == {
        wider.untyped_storage().data_ptr()
    }


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int8,
        torch.uint8,
    ],
    ids=str,
)
def test_bytes_do_not_depend_on_the_dtype(dtype: torch.dtype) -> None:
    tensor = pool(dtype)
    views = slot_views(tensor, layout="layer kv page slot head dim", page_size=PAGE_SIZE)
    assert views[0].dtype == str(dtype).removeprefix("torch.")
    for view, (layer, half) in zip(views, np.ndindex(LAYERS, 2), strict=True):
        np.testing.assert_array_equal(view.gather(WANTED), naive_rows(layer, half))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_wide_elements_keep_their_bytes(dtype: torch.dtype) -> None:
    tensor = torch.randn(7, 2, 3, dtype=dtype)
    (view,) = slot_views([tensor], layout="slot head dim", page_size=1)
    expected = tensor.numpy().reshape(7, -1).view(np.uint8)
    np.testing.assert_array_equal(view.gather(np.arange(7)), expected)


def test_a_tensor_that_needs_a_gradient_is_gathered() -> None:
    tensor = torch.ones(4, 2, requires_grad=True)
    (view,) = slot_views([tensor], layout="slot dim", page_size=1)
    assert view.gather(np.array([1])).tobytes() == np.ones(2, np.float32).tobytes()


def test_a_fused_tensor_is_one_column_a_layer() -> None:
    latent = {4: torch.zeros(PAGES, PAGE_SIZE, DIM), 9: torch.ones(PAGES, PAGE_SIZE, DIM)}
    views = slot_views(latent, layout="page slot dim", page_size=PAGE_SIZE)
    assert [view.name for view in views] == ["kv.kv.4", "kv.kv.9"]


def test_halves_may_differ_in_width() -> None:
    pairs = [(torch.zeros(8, 2, 4), torch.zeros(8, 2, 6))]
    views = slot_views(pairs, layout="slot head dim", page_size=4)
    assert [view.row_bytes for view in views] == [32, 48]


def test_only_the_layers_asked_for_are_viewed() -> None:
    layout = "layer kv page slot head dim"
    views = slot_views(pool(), layout=layout, page_size=PAGE_SIZE, layers=[2, 0])
    assert [view.name for view in views] == ["kv.k.0", "kv.v.0", "kv.k.2", "kv.v.2"]


@pytest.mark.parametrize(
    ("layout", "named"),
    [
        ("page slot heads dim", "heads"),
        ("page page slot dim", "page"),
        ("page head dim", "slot"),
        ("", "slot"),
    ],
)
def test_a_layout_that_is_none_is_refused(layout: str, named: str) -> None:
    with pytest.raises(ConfigError, match=f"layout: .*{named}") as refused:
        parse_layout(layout)
    assert refused.value.hint


PAGED = (PAGES, PAGE_SIZE, HEADS, DIM)


@pytest.mark.parametrize(
    ("kv", "layout", "page_size", "named"),
    [
        ([torch.zeros(PAGED)], "page slot dim", PAGE_SIZE, "layout"),
        ([(torch.zeros(PAGED), torch.zeros(3))], "page slot head dim", PAGE_SIZE, "layout"),
        ([torch.zeros(PAGED)], "page slot head dim", PAGE_SIZE * 2, "page_size"),
        ([torch.zeros(PAGED)], "page head slot dim", PAGE_SIZE, "page_size"),
        ([torch.zeros(PAGED)], "page slot head dim", 0, "page_size"),
        ([torch.zeros(3, *PAGED)], "kv page slot head dim", PAGE_SIZE, "kv, layer 0"),
        ([], "page slot head dim", PAGE_SIZE, "kv"),
        ([None], "page slot head dim", PAGE_SIZE, "kv, layer 0"),
        (torch.zeros(PAGED), "page slot head dim", PAGE_SIZE, "kv"),
        ([torch.zeros(PAGED)], "layer page slot head dim", PAGE_SIZE, "kv"),
        ((torch.zeros(PAGED), torch.zeros(PAGED)), "page slot head dim", PAGE_SIZE, "kv"),
        (
            [torch.zeros(PAGED), torch.zeros(PAGES + 1, *PAGED[1:])],
            "page slot head dim",
            PAGE_SIZE,
            "kv",
        ),
        ([torch.zeros(PAGED)], "page slot head dim", 4.0, "page_size"),
        ([torch.zeros(PAGED)], None, PAGE_SIZE, "layout"),
        ([torch.zeros(PAGED)], ["page", "slot", "head", "dim"], PAGE_SIZE, "layout"),
        ({"layer0": torch.zeros(PAGED)}, "page slot head dim", PAGE_SIZE, "kv"),
        ({-1: torch.zeros(PAGED)}, "page slot head dim", PAGE_SIZE, "kv"),
        ([torch.zeros(*PAGED[:3], 0)], "page slot head dim", PAGE_SIZE, "kv.kv.0"),
        ([torch.zeros(PAGED, device="meta")], "page slot head dim", PAGE_SIZE, "kv.kv.0"),
        ([torch.zeros(PAGED).to_sparse()], "page slot head dim", PAGE_SIZE, "kv.kv.0"),
        ([torch.zeros(PAGED, dtype=torch.complex128)], "page slot head dim", PAGE_SIZE, "kv.kv.0"),
    ],
)
def test_tensors_that_do_not_fit_the_layout_are_refused_by_name(
    kv: object, layout: str, page_size: int, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: ") as refused:
        slot_views(kv, layout=layout, page_size=page_size)
    assert refused.value.hint


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^layers: kv has no layer 7"):
        slot_views([torch.zeros(4, 2)], layout="slot dim", page_size=1, layers=[0, 7])


@pytest.mark.parametrize("layers", [None, 0, "none", ["first"], [0.5], [-1]])
def test_layers_are_whole_numbers(layers: object) -> None:
    with pytest.raises(ConfigError, match=r"^layers: ") as refused:
        slot_views([torch.zeros(4, 2)], layout="slot dim", page_size=1, layers=layers)
    assert refused.value.hint
