"""Faults of layer-0 content that no stamp tells: it was stamped as it is."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import decoded, element_type
from kvaudit.core.rope import Rope, relative_distances
from kvaudit.runner.identity.identity_pass import LAYER0_K, LAYER0_V
from kvaudit.runner.inject.chains import Chain, Damage, damage_of
from kvaudit.runner.inject.content import copy_content, stamp_content
from kvaudit.runner.inject.copy import PoolCopy

# So many rows on other pages must hold what the damaged one held, for its token to be known by them.
_MIN_ALIKE: Final = 4
_SAME: Final = 0.05
# Rows of two tokens that an audit surely tells apart: some of a vocabulary were never trained.
_APART: Final = 0.3
_NEEDS: Final = (
    "tokens, and layer-0 KV bytes of a float type that depend on the token alone, one of them in "
    "five places"
)
_NEEDS_POSITION: Final = f"{_NEEDS}, and kvaudit.rope"


def content_not_of_token(copy: PoolCopy) -> Damage:
    """Let a slot hold the KV of another token, stamped as it is."""
    chain, idx = _place(copy, needs=_NEEDS)
    is_other = (chain.tokens != chain.tokens[idx]) & (chain.tokens >= 0)
    others = np.flatnonzero(
        is_other & (_distances(copy, chain.rows, int(chain.rows[idx])) > _APART)
    )
    if not others.size:
        raise copy.refusal("a request of two tokens whose layer-0 V is far apart")
    source = int(copy.rng.choice(others))
    rows = chain.rows[idx : idx + 1]
    copy_content(copy, chain.rows[source : source + 1], rows)
    stamp_content(copy, rows)
    return damage_of(copy.snapshot, rows, chain)


def content_not_of_position(copy: PoolCopy) -> Damage:
    """Let a slot hold its own token with K rotated for another position, stamped as it is."""
    text = copy.snapshot.metadata.get("rope")
    if text is None or LAYER0_K not in copy.snapshot.kv:
        raise copy.refusal(_NEEDS_POSITION)
    rope = Rope.from_json(text)
    chain, idx = _place(copy, needs=_NEEDS_POSITION)
    everywhere = [
        (int(row), each.first_position + place)
        for each in copy.chains
        for place, (row, token) in enumerate(zip(each.rows, each.tokens, strict=True))
        if token == chain.tokens[idx]
    ]
    own = chain.first_position + idx
    far = [row for row, position in everywhere if abs(position - own) > rope.rotary_dim // 8]
    if not far:
        raise copy.refusal("a token at two positions")
    rows = chain.rows[idx : idx + 1]
    source = np.array([copy.rng.choice(far)], dtype=np.int64)
    copy_content(copy, source, rows, names=(LAYER0_K,))
    stamp_content(copy, rows)
    return damage_of(copy.snapshot, rows, chain)


def _place(copy: PoolCopy, *, needs: str) -> tuple[Chain, int]:
    """A chain, and an index into it whose row other rows of its token are like."""
    column = copy.snapshot.kv.get(LAYER0_V)
    if column is None or element_type(column.dtype) is None:
        raise copy.refusal(needs)
    tokens = np.concatenate([np.empty(0, np.int64), *(chain.tokens for chain in copy.chains)])
    rows = np.concatenate([np.empty(0, np.int64), *(chain.rows for chain in copy.chains)])
    for chain in copy.chains_with(1):
        fits = np.array(
            [
                token >= 0 and _is_known(copy, int(row), rows[tokens == token])
                for token, row in zip(chain.tokens.tolist(), chain.rows.tolist(), strict=True)
            ]
        )
        idx = copy.place_among(chain, fits)
        if idx is not None:
            return chain, idx
    raise copy.refusal(needs)


def _is_known(copy: PoolCopy, row: int, of_token: NDArray[np.int64]) -> bool:
    """Whether enough rows of the token, on other pages, hold the same V."""
    pages = copy.snapshot.slots[of_token] // copy.snapshot.page_size
    own_page = copy.snapshot.slots[row] // copy.snapshot.page_size
    _, firsts = np.unique(pages, return_index=True)
    others = of_token[firsts][pages[firsts] != own_page]
    if len(others) < _MIN_ALIKE:
        return False
    return bool((_distances(copy, others, row) < _SAME).all())


def _distances(copy: PoolCopy, rows: NDArray[np.int64], row: int) -> NDArray[np.float32]:
    """How far the V of some rows, shape [n], int64, is from that of one; shape [n], float32."""
    dtype = copy.snapshot.kv[LAYER0_V].dtype
    held = decoded(copy.bytes_of(LAYER0_V, rows), dtype)
    own = decoded(copy.bytes_of(LAYER0_V, np.array([row])), dtype)
    return relative_distances(held, np.repeat(own, len(rows), axis=0))
