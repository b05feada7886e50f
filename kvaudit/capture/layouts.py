"""KV tensors of any layout as columns of one token's bytes.

A layout is the order of a tensor's dimensions in words: `page slot head dim`, `slot head dim`,
`kv page slot head dim` (vLLM), `page kv slot head dim` (flashinfer), `page head slot dim` (HND),
`layer slot head dim` (one tensor over all layers). Whatever the order, a column holds each token
as [heads, dim].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard

from kvaudit.capture.arguments import integer, layer_number
from kvaudit.capture.slot_view import SlotView
from kvaudit.capture.tensor_memory import check_readable
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    import torch

LayerKv: TypeAlias = "torch.Tensor | Sequence[torch.Tensor]"
KvTensors: TypeAlias = "torch.Tensor | Sequence[LayerKv] | Mapping[int, LayerKv]"
Layers: TypeAlias = Sequence[int] | Literal["all"]

LAYOUT_WORDS: Final = ("layer", "kv", "page", "slot", "head", "dim")
_PLACES: Final = ("page", "slot")
_ONLY_DIM_MAY_REPEAT: Final = "dim"
_HALVES: Final = ("k", "v")
_FUSED: Final = "kv"
_EXAMPLES: Final = "write the tensor's dimensions in order, such as 'page slot head dim'"


def parse_layout(layout: str) -> tuple[str, ...]:
    """The words of a layout.

    `dim` may stand several times where an engine splits it, outermost part first.

    Raises:
        ConfigError: an unknown word, a repeated one, or no `slot`.
    """
    if not isinstance(layout, str):
        raise ConfigError(f"layout: {layout!r}", hint=_EXAMPLES)
    words = tuple(layout.split())
    for word, times in Counter(words).items():
        if word not in LAYOUT_WORDS:
            raise ConfigError(
                f"layout: unknown word {word!r}", hint=f"use {', '.join(LAYOUT_WORDS)}"
            )
        if times > 1 and word != _ONLY_DIM_MAY_REPEAT:
            raise ConfigError(f"layout: {word!r} stands {times} times", hint=_EXAMPLES)
    if "slot" not in words:
        raise ConfigError(f"layout: {layout!r} has no 'slot'", hint=_EXAMPLES)
    return words


def slot_views(
    kv: KvTensors, *, layout: str, page_size: int, layers: Layers = "all"
) -> list[SlotView]:
    """The columns of a pool in layer order, K before V.

    Args:
        kv: a list with an entry a layer, a dict by layer, or, where the layout has `layer`, one
            tensor or a (k, v) pair over all layers. An entry is a (k, v) pair, a tensor with a
            `kv` dimension, or a tensor that holds both halves of a token fused (such as MLA's).
        layout: the order of the tensors' dimensions, in words.
        page_size: slots a page.
        layers: the layers wanted.

    Raises:
        ConfigError: naming the argument that does not fit the others.
    """
    words = parse_layout(layout)
    page_size = integer(page_size, "page_size", at_least=1)
    by_layer = dict(_layer_entries(kv, words))
    entry_words = tuple(word for word in words if word != "layer")
    views = [
        _slot_view(tensor, half_words, name=f"kv.{half}.{layer}", page_size=page_size)
        for layer in _wanted(by_layer, layers)
        for half, tensor, half_words in _halves(by_layer[layer], entry_words, layer)
    ]
    sizes = {view.num_slots for view in views}
    if len(sizes) > 1:
        raise ConfigError(
            f"kv: the tensors hold different numbers of slots: {sorted(sizes)}",
            hint="dump pools of different sizes apart, each with its own group",
        )
    return views


def _wanted(by_layer: Mapping[int, LayerKv], layers: object) -> list[int]:
    if isinstance(layers, str) and layers == "all":
        wanted = sorted(by_layer)
    elif isinstance(layers, str) or not isinstance(layers, Iterable):
        raise ConfigError(f"layers: {layers!r}", hint="use 'all', or a list of layers")
    else:
        wanted = sorted({layer_number(layer, "layers") for layer in layers})
        absent = [layer for layer in wanted if layer not in by_layer]
        if absent:
            raise ConfigError(f"layers: kv has no layer {absent[0]}", hint="name layers of kv")
    if not wanted:
        raise ConfigError("kv: there is no layer", hint="give at least one tensor")
    return wanted


def _layer_entries(kv: KvTensors, words: tuple[str, ...]) -> Iterator[tuple[int, LayerKv]]:
    if "layer" in words:
        axis = words.index("layer")
        if _is_tensor(kv):
            _check_tensor(kv, words, "kv")
            yield from enumerate(kv.unbind(axis))
        elif _is_pair(kv):
            for tensor in kv:
                _check_tensor(tensor, words, "kv")
            yield from enumerate(zip(kv[0].unbind(axis), kv[1].unbind(axis), strict=True))
        else:
            raise ConfigError(
                "kv: with 'layer' in the layout it is one tensor or a (k, v) pair",
                hint="leave 'layer' out of the layout of a list of layers",
            )
    elif isinstance(kv, tuple) and _is_pair(kv) and "kv" not in words:
        raise ConfigError(
            "kv: a bare pair of tensors could be the halves of one layer or two layers",
            hint="write [(k, v)] for one layer, [first, second] for two fused ones",
        )
    elif isinstance(kv, Mapping):
        yield from ((layer_number(layer, "kv"), entry) for layer, entry in kv.items())
    elif isinstance(kv, Sequence):
        yield from enumerate(kv)
    else:
        raise ConfigError(
            "kv: one tensor, and the layout has no 'layer'",
            hint="put 'layer' into the layout, or give a list with one entry a layer",
        )


def _halves(
    entry: LayerKv, words: tuple[str, ...], layer: int
) -> Iterator[tuple[str, torch.Tensor, tuple[str, ...]]]:
    place = f"kv, layer {layer}"
    if _is_tensor(entry) and "kv" in words:
        _check_tensor(entry, words, place)
        axis = words.index("kv")
        if entry.shape[axis] != len(_HALVES):
            raise ConfigError(
                f"{place}: its 'kv' dimension is {entry.shape[axis]} long",
                hint="check the layout: 'kv' is the dimension of length 2",
            )
        rest = tuple(word for word in words if word != "kv")
        yield from ((half, entry.select(axis, i), rest) for i, half in enumerate(_HALVES))
    elif _is_tensor(entry):
        yield _FUSED, entry, words
    elif _is_pair(entry) and "kv" not in words:
        yield from ((half, tensor, words) for half, tensor in zip(_HALVES, entry, strict=True))
    else:
        raise ConfigError(
            f"{place}: neither a tensor nor a (k, v) pair that fits the layout",
            hint="give (k, v) pairs without 'kv' in the layout, or tensors with it",
        )


def _slot_view(
    tensor: torch.Tensor, words: tuple[str, ...], *, name: str, page_size: int
) -> SlotView:
    _check_tensor(tensor, words, name)
    paged = "page" in words
    if paged and tensor.shape[words.index("slot")] != page_size:
        raise ConfigError(
            f"page_size: {page_size}, but the 'slot' dimension of {name} is "
            f"{tensor.shape[words.index('slot')]} long",
            hint="correct page_size or the order of the words in the layout",
        )
    rank_of_word = {word: rank for rank, word in enumerate(LAYOUT_WORDS)}
    if 0 in (size for word, size in zip(words, tensor.shape, strict=True) if word not in _PLACES):
        raise ConfigError(
            f"{name}: shape {list(tensor.shape)} holds no byte of a token",
            hint="leave out layers that keep no KV",
        )
    order = sorted(range(len(words)), key=lambda axis: rank_of_word[words[axis]])
    ordered = _as_integers(tensor.detach(), name).permute(order)
    return SlotView.of(
        ordered if paged else ordered.unsqueeze(1),
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
    )


def _as_integers(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The same memory as integers: not every device can index every narrow float type."""
    import torch

    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = tensor.element_size()
    if size not in integers:
        raise ConfigError(
            f"{name}: elements of {size} bytes", hint="view the tensor as a narrower type"
        )
    return tensor.view(integers[size])


def _check_tensor(tensor: torch.Tensor, words: tuple[str, ...], place: str) -> None:
    if tensor.dim() != len(words):
        raise ConfigError(
            f"layout: {' '.join(words)!r} has {len(words)} words, but {place} has "
            f"{tensor.dim()} dimensions",
            hint="write one word for each dimension, in order",
        )
    check_readable(tensor, place)


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return hasattr(value, "element_size") and hasattr(value, "dim")


def _is_pair(value: object) -> TypeGuard[tuple[torch.Tensor, torch.Tensor]]:
    return (
        isinstance(value, Sequence)
        and len(value) == len(_HALVES)
        and all(_is_tensor(part) for part in value)
    )
