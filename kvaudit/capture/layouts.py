"""KV tensors of any layout as columns of one token's bytes.

A layout is the order of a tensor's dimensions in words: `page slot head dim`, `slot head dim`,
`kv page slot head dim` (vLLM), `page kv slot head dim` (flashinfer), `page head slot dim` (HND),
`layer slot head dim` (one tensor over all layers). Whatever the order, a column holds each token
as [heads, dim].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.kv_column import WINDOW_BYTES, KvWindow
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    import torch

LayerKv: TypeAlias = "torch.Tensor | Sequence[torch.Tensor]"
KvTensors: TypeAlias = "torch.Tensor | Sequence[LayerKv] | Mapping[int, LayerKv]"
Layers: TypeAlias = Sequence[int] | Literal["all"]

LAYOUT_WORDS: Final = ("layer", "kv", "page", "slot", "head", "dim")
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotView:
    """One layer and half of a pool, indexed by slot.

    Fields:
        name: the column's name, such as `kv.k.0`.
        tensor: shape [num_pages, page_size, heads, dims...] or [num_slots, heads, dims...], an
            integer type of the element's size; any strides, any device; shares the pool's memory.
        page_size: slots a page; 0 when the tensor has no page dimension.
        dtype: element type as torch names it, such as `bfloat16`.
    """

    name: str
    tensor: torch.Tensor
    page_size: int
    dtype: str

    @property
    def num_slots(self) -> int:
        """Slots the tensor holds."""
        return int(self.tensor.shape[0]) * (self.page_size or 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of one token."""
        content = self.tensor.shape[2:] if self.page_size else self.tensor.shape[1:]
        return int(content.numel()) * int(self.tensor.element_size())

    def gather(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of each slot, shape [n, row_bytes], uint8; slots are below num_slots.

        The selection runs on the tensor's device; only the selected rows come to the host.
        """
        import torch

        index = torch.tensor(slots, dtype=torch.int64, device=self.tensor.device)
        if self.page_size:
            rows = self.tensor[index // self.page_size, index % self.page_size]
        else:
            rows = self.tensor.index_select(0, index)
        flat = rows.reshape(len(slots), -1).contiguous().cpu().view(torch.uint8)
        gathered: NDArray[np.uint8] = flat.numpy()
        return gathered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatheredColumn:
    """A KvColumn that gathers its rows from a pool when they are asked for.

    Fields:
        view: the layer and half.
        slots: slot of each row, shape [num_rows], int64.
    """

    view: SlotView
    slots: NDArray[np.int64]

    @property
    def name(self) -> str:
        """The column's name, such as `kv.k.0`."""
        return self.view.name

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.slots.shape[0])

    @property
    def row_bytes(self) -> int:
        """Bytes a row holds."""
        return self.view.row_bytes

    @property
    def read_bytes(self) -> int:
        """A digest covers the whole row."""
        return self.view.row_bytes

    @property
    def dtype(self) -> str:
        """Element type as torch names it."""
        return self.view.dtype

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order, at most WINDOW_BYTES of them on the host at a time."""
        rows_per_window = max(1, WINDOW_BYTES // max(1, self.row_bytes))
        for first_row in range(0, self.num_rows, rows_per_window):
            yield KvWindow(
                first_row=first_row,
                data=self.read_rows(first_row, first_row + rows_per_window),
                check=_nothing_to_check,
            )

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8."""
        return self.view.gather(self.slots[first_row:last_row])


def _nothing_to_check() -> None:
    """A pool in memory carries no digests."""


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
    if page_size < 1:
        raise ConfigError(f"page_size: {page_size}", hint="give the slots of a page, at least 1")
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


def _wanted(by_layer: Mapping[int, LayerKv], layers: Layers) -> list[int]:
    if layers == "all":
        wanted = sorted(by_layer)
    else:
        wanted = sorted({int(layer) for layer in layers})
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
            _check_rank(kv, words, "kv")
            yield from enumerate(kv.unbind(axis))
        elif _is_pair(kv):
            for tensor in kv:
                _check_rank(tensor, words, "kv")
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
        yield from ((int(layer), entry) for layer, entry in kv.items())
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
        _check_rank(entry, words, place)
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
    _check_rank(tensor, words, name)
    paged = "page" in words
    if paged and tensor.shape[words.index("slot")] != page_size:
        raise ConfigError(
            f"page_size: {page_size}, but the 'slot' dimension of {name} is "
            f"{tensor.shape[words.index('slot')]} long",
            hint="correct page_size or the order of the words in the layout",
        )
    rank_of_word = {word: rank for rank, word in enumerate(LAYOUT_WORDS)}
    order = sorted(range(len(words)), key=lambda axis: rank_of_word[words[axis]])
    return SlotView(
        name=name,
        tensor=_as_integers(tensor.detach(), name).permute(order),
        page_size=page_size if paged else 0,
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


def _check_rank(tensor: torch.Tensor, words: tuple[str, ...], place: str) -> None:
    if tensor.dim() != len(words):
        raise ConfigError(
            f"layout: {' '.join(words)!r} has {len(words)} words, but {place} has "
            f"{tensor.dim()} dimensions",
            hint="write one word for each dimension, in order",
        )


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return hasattr(value, "element_size") and hasattr(value, "dim")


def _is_pair(value: object) -> TypeGuard[tuple[torch.Tensor, torch.Tensor]]:
    return (
        isinstance(value, Sequence)
        and len(value) == len(_HALVES)
        and all(_is_tensor(part) for part in value)
    )
