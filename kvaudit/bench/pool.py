"""The pool that the workloads of one size share: pages in random order, requests one after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.kernels.host_memory import mix_words
from kvaudit.bench.options import BenchOptions
from kvaudit.constants import WORD_BYTES

VOCABULARY = 150_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BenchPool:
    """Entries in chain order and the bytes of their slots. Page 0 belongs to no request.

    Fields:
        page_size: slots a page.
        bytes_per_token: bytes a slot and layer.
        layers: layers, side by side in each slot.
        slots: slot of each entry, shape [n], int64.
        tokens: token of each entry, shape [n], uint64.
        positions: position of each entry in its request, shape [n], uint64.
        offsets: first entry of each request, and n, shape [num_requests + 1], int64.
        kv: shape [num_pages, page_size * slot_bytes], uint8; shape [0, 0] when nothing of a run
            reads bytes.
        seed: of what else is drawn.
    """

    page_size: int
    bytes_per_token: int
    layers: int
    slots: NDArray[np.int64]
    tokens: NDArray[np.uint64]
    positions: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    kv: NDArray[np.uint8]
    seed: int

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot in all layers."""
        return self.layers * self.bytes_per_token

    def layer_rows(self, layer: int) -> NDArray[np.uint8]:
        """The bytes of every slot in one layer, shape [num_slots, bytes_per_token], uint8."""
        first = layer * self.bytes_per_token
        slot_rows = self.kv.reshape(self.num_slots, self.slot_bytes)
        return slot_rows[:, first : first + self.bytes_per_token]

    @property
    def num_entries(self) -> int:
        """Entries of all requests."""
        return int(self.slots.shape[0])

    @property
    def num_requests(self) -> int:
        """Requests."""
        return int(self.offsets.shape[0]) - 1

    @property
    def num_slots(self) -> int:
        """Slots of the pool, page 0 included."""
        return num_pages(self.num_entries, self.page_size) * self.page_size


def num_pages(num_entries: int, page_size: int) -> int:
    """Pages of a pool of so many entries, page 0 included."""
    return 1 + -(-num_entries // page_size)


def kv_bytes(options: BenchOptions, num_entries: int) -> int:
    """Bytes of a pool of so many entries."""
    return num_pages(num_entries, options.page_size) * options.page_size * options.slot_bytes


def build_pool(options: BenchOptions, num_entries: int) -> BenchPool:
    """The pool of one size."""
    generator = np.random.default_rng(options.seed)
    page_size, request_tokens = options.page_size, options.request_tokens
    pages = 1 + generator.permutation(num_pages(num_entries, page_size) - 1)
    slots = (pages[:, None] * page_size + np.arange(page_size)).ravel()[:num_entries]
    return BenchPool(
        page_size=page_size,
        bytes_per_token=options.bytes_per_token,
        layers=options.layers,
        slots=slots,
        tokens=generator.integers(0, VOCABULARY, num_entries).astype(np.uint64),
        positions=(np.arange(num_entries) % request_tokens).astype(np.uint64),
        offsets=np.append(np.arange(0, num_entries, request_tokens), num_entries),
        kv=_kv(options, num_entries) if options.reads_bytes() else np.zeros((0, 0), np.uint8),
        seed=options.seed,
    )


def _kv(options: BenchOptions, num_entries: int) -> NDArray[np.uint8]:
    words = np.empty(kv_bytes(options, num_entries) // WORD_BYTES, dtype=np.uint64)
    mix_words(words, options.seed)
    return words.view(np.uint8).reshape(-1, options.page_size * options.slot_bytes)
