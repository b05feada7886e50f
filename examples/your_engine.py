"""A toy paged engine that dumps itself: the ten lines to paste into yours.

pip install '.[torch]' && python examples/your_engine.py dumps && kvaudit verify dumps
"""

from __future__ import annotations

import sys

import torch

from kvaudit.capture import dump

PAGE_SIZE, NUM_PAGES, NUM_LAYERS, NUM_HEADS, HEAD_DIM = 4, 32, 2, 2, 8


class ToyEngine:
    """Pages of K and V for each layer; a request is its tokens and the pages they lie in."""

    def __init__(self) -> None:
        shape = (NUM_PAGES, PAGE_SIZE, NUM_HEADS, HEAD_DIM)
        self.kv = [
            (torch.zeros(shape, dtype=torch.bfloat16), torch.zeros(shape, dtype=torch.bfloat16))
            for _ in range(NUM_LAYERS)
        ]
        self.free_pages = list(range(NUM_PAGES - 1, 0, -1))  # page 0 is never given away
        self.tokens: dict[str, list[int]] = {}
        self.page_tables: dict[str, list[int]] = {}

    def prefill(self, request_id: str, prompt: list[int]) -> None:
        """Write the KV of a prompt, then sample a token, whose KV is not written yet."""
        num_pages = -(-len(prompt) // PAGE_SIZE)
        table = [self.free_pages.pop() for _ in range(num_pages)]
        for position, token in enumerate(prompt):
            for layer, (k, v) in enumerate(self.kv):
                page, offset = table[position // PAGE_SIZE], position % PAGE_SIZE
                k[page, offset] = token + layer
                v[page, offset] = token - layer
        self.tokens[request_id] = [*prompt, sum(prompt) % 100]
        self.page_tables[request_id] = table

    def dump(self, path: str) -> None:
        """What the pool holds, and what it should hold."""
        dump(
            path,
            kv=self.kv,
            layout="page slot head dim",
            page_size=PAGE_SIZE,
            page_tables=list(self.page_tables.values()),
            tokens=list(self.tokens.values()),
            kv_lens=[len(tokens) - 1 for tokens in self.tokens.values()],
            request_ids=list(self.tokens),
            reserved_slots=f"0-{PAGE_SIZE - 1}",
        )


def main(folder: str = "dumps") -> None:
    engine = ToyEngine()
    engine.prefill("first", [11, 12, 13, 14, 15, 16])
    engine.prefill("second", [21, 22, 23])
    engine.dump(f"{folder}/full")


if __name__ == "__main__":
    main(*sys.argv[1:])
