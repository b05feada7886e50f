"""A table of layer-0 rows as named values."""

from __future__ import annotations

from typing import Any

from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.rope import Rope


def table_facts(table: Layer0Table) -> dict[str, Any]:
    """Model, tokens, shape of the rows and rotation; JSON values only."""
    facts: dict[str, Any] = {
        "file": table.path,
        "kind": "table",
        "key": table.key.given(),
        "model": table.model or None,
        "source": str(table.source),
        "tokens": _tokens_word(table),
        "rows": {
            name: f"{table.num_heads} heads of {dim} {table.dtype}, {rows.shape[1]} B a token"
            for name, rows, dim in (
                ("k0", table.k0, table.head_dim),
                ("v0", table.v0, table.v_head_dim),
            )
            if rows is not None
        },
        "rope": None if table.rope is None else rope_word(table.rope),
        "note": table.note or None,
    }
    if table.rows_seen is not None and table.rows_agreeing is not None:
        facts["learnt_from"] = {
            "rows": int(table.rows_seen.sum()),
            "agreeing": int(table.rows_agreeing.sum()),
            "tokens_seen_once": int((table.rows_seen == 1).sum()),
        }
    return facts


def _tokens_word(table: Layer0Table) -> str:
    if not table.num_tokens:
        return "none"
    return f"{table.num_tokens}, from {table.tokens[0]} to {table.tokens[-1]}"


def rope_word(rope: Rope) -> str:
    """A rotation in words: `64 of 64 elements, half layout, slowest 1.6e-05 rad a position`."""
    if not rope.inverse_frequencies.any():
        return "K is not rotated"
    words = [f"{rope.rotary_dim} of {rope.head_dim} elements", f"{rope.layout} layout"]
    if rope.first_dim:
        words.append(f"from element {rope.first_dim} on")
    if rope.factor != 1:
        words.append(f"times {rope.factor:g}")
    slowest = float(rope.inverse_frequencies.min())
    return ", ".join([*words, f"slowest {slowest:.3g} rad a position"])
