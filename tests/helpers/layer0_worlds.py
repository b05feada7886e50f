"""Pools whose layer-0 K and V are functions of token and position, as a decoder's are; no stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.element_types import decoded, encoded
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.rope import Rope, RopeLayout, plain_frequencies
from kvaudit.core.snapshot import PoolKey, Snapshot
from tests.helpers.worlds import Request, sequences_of

K, V = "kv.k.0", "kv.v.0"


@dataclass(frozen=True, kw_only=True)
class TokenModel:
    """A layer 0 of random weights."""

    vocab: int = 400
    num_heads: int = 2
    head_dim: int = 16
    dtype: str = "bfloat16"
    seed: int = 0

    @cached_property
    def rope(self) -> Rope:
        frequencies = plain_frequencies(theta=10_000.0, rotary_dim=self.head_dim)
        return Rope(inverse_frequencies=frequencies, head_dim=self.head_dim, layout=RopeLayout.HALF)

    @cached_property
    def k0(self) -> np.ndarray:
        return self._rows(1)

    @cached_property
    def v0(self) -> np.ndarray:
        return self._rows(2)

    def _rows(self, salt: int) -> np.ndarray:
        rng = np.random.default_rng((self.seed, salt))
        shape = (self.vocab, self.num_heads, self.head_dim)
        return rng.standard_normal(shape).astype(np.float32)

    def k(self, tokens: Sequence[int], positions: Sequence[int]) -> np.ndarray:
        """K rows as stored, shape [n, row_bytes], uint8."""
        rows = self.rope.rotated(self.k0[list(tokens)], np.array(positions, dtype=np.int64))
        return self.stored(rows)

    def v(self, tokens: Sequence[int]) -> np.ndarray:
        """V rows as stored, shape [n, row_bytes], uint8."""
        return self.stored(self.v0[list(tokens)])

    def stored(self, rows: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(rows.reshape(len(rows), -1), dtype=np.float32)
        if self.dtype.startswith("float8"):
            return nearest_codes(flat, self.dtype)
        return encoded(flat, self.dtype)

    def table(self, source: TableSource = TableSource.MODEL, **changes: object) -> Layer0Table:
        """What the model says of every token."""
        fields: dict[str, object] = {
            "tokens": np.arange(self.vocab, dtype=np.int64),
            "k0": encoded(self.k0.reshape(self.vocab, -1), "float32"),
            "v0": encoded(self.v0.reshape(self.vocab, -1), "float32"),
            "dtype": "float32",
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "rope": self.rope,
            "model": "random",
            "source": source,
        }
        return Layer0Table(**(fields | changes))


def nearest_codes(rows: np.ndarray, dtype: str) -> np.ndarray:
    """Rows as one-byte floats, each rounded to the nearest."""
    codes = np.arange(256, dtype=np.uint8)
    values = decoded(codes[:, None], dtype)[:, 0]
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.argsort(values[finite], kind="stable")]
    ascending = values[order]
    above = np.clip(np.searchsorted(ascending, rows), 1, len(order) - 1)
    below = above - 1
    nearer = np.where(
        np.abs(rows - ascending[below]) <= np.abs(ascending[above] - rows), below, above
    )
    return codes[order[nearer]]


@dataclass(kw_only=True)
class Layer0World:
    """A pool as arrays over all slots, and what it should hold; mutable."""

    model: TokenModel
    num_slots: int
    page_size: int = 4
    requests: list[Request] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    key: PoolKey = field(default_factory=PoolKey)
    k: np.ndarray = field(init=False)
    v: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.v = np.zeros((self.num_slots, self.model.v([0]).shape[1]), dtype=np.uint8)
        self.k = np.zeros_like(self.v)

    def request(
        self, name: str, tokens: Sequence[int], slots: Sequence[int], **fields: object
    ) -> Layer0World:
        """Add a request and write its rows."""
        length = min(len(tokens), len(slots))
        request = Request(
            request_id=name, tokens=list(tokens), slots=list(slots), kv_len=length, **fields
        )
        self.requests.append(request)
        self.write(request.slots[:length], request.tokens[:length], range(length))
        return self

    def write(self, slots: Sequence[int], tokens: Sequence[int], positions: Sequence[int]) -> None:
        """What a forward leaves in slots."""
        self.k[list(slots)] = self.model.k(list(tokens), list(positions))
        self.v[list(slots)] = self.model.v(list(tokens))

    def copy(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Rows of slots into others, all at once."""
        for data in (self.k, self.v):
            data[list(targets)] = data[list(sources)].copy()

    def pool(self, **changes: object) -> AuditedPool:
        """The pool, dense, without canary and stamps."""
        fields: dict[str, object] = {
            "slots": np.arange(self.num_slots, dtype=np.int64),
            "num_slots": self.num_slots,
            "page_size": self.page_size,
            "metadata": self.metadata,
            "key": self.key,
            "kv": {name: self._column(name, data) for name, data in ((K, self.k), (V, self.v))},
        }
        return AuditedPool(
            snapshot=Snapshot(**(fields | changes)),
            sequences=(sequences_of(self.requests, key=self.key),),
        )

    def _column(self, name: str, data: np.ndarray) -> ArrayKvColumn:
        return ArrayKvColumn(name=name, data=data, read_bytes=data.shape[1], dtype=self.model.dtype)

    def dataset(self, **changes: object) -> Dataset:
        return Dataset(pools=[self.pool(**changes)])


def fixture_f(page_size: int = 2, **model: object) -> Layer0World:
    """Requests A and B of Fixture F (CASES.md 2)."""
    world = Layer0World(model=TokenModel(**model), num_slots=16, page_size=page_size)
    world.request("A", [11, 12, 13, 14], [2, 3, 4, 5])
    return world.request("B", [21, 22, 23, 24], [6, 7, 8, 9])


def chatty_world(
    *, seed: int = 0, num_requests: int = 12, length: int = 64, page_size: int = 16, **model: object
) -> Layer0World:
    """Requests of words that come again and again, on scattered pages; a prefix is shared by all.

    The first page holds a prompt that every request begins with.
    """
    rng = np.random.default_rng(seed)
    made = TokenModel(**model)
    pages_each = -(-length // page_size)
    num_pages = 2 + num_requests * pages_each
    world = Layer0World(model=made, num_slots=num_pages * page_size, page_size=page_size)
    pages = rng.permutation(np.arange(2, num_pages))
    ranks = np.arange(1, made.vocab + 1)
    odds = (1 / ranks) / (1 / ranks).sum()
    prefix = rng.choice(made.vocab, page_size, p=odds).tolist()
    for number in range(num_requests):
        own = pages[number * pages_each : (number + 1) * pages_each]
        slots = (own[:, None] * page_size + np.arange(page_size)).ravel()
        shared = list(range(page_size, 2 * page_size))
        tokens = prefix + rng.choice(made.vocab, length, p=odds).tolist()
        world.request(f"r{number}", tokens, [*shared, *slots.tolist()[:length]])
    return world
