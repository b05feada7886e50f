"""A paged engine small enough to follow by hand: pages, tables, joins, leaves, copies."""

from __future__ import annotations

import numpy as np
import torch

from kvaudit.capture import ForwardRow, RecordedPool, Recorder

PAGE_SIZE, NUM_PAGES, HEADS, DIM = 4, 24, 2, 5


class ToyEngine:
    """Its KV depends on layer, half, token and position alone; a freed page is the next given."""

    def __init__(
        self, recorder: Recorder, *, num_layers: int = 2, device: str = "cpu", dim: int = DIM
    ) -> None:
        self.recorder = recorder
        shape = (NUM_PAGES, PAGE_SIZE, HEADS, dim)
        self.kv = [
            tuple(torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in "kv")
            for _ in range(num_layers)
        ]
        self.free_pages = list(range(NUM_PAGES - 1, 0, -1))
        self.tokens: dict[str, list[int]] = {}
        self.computed: dict[str, int] = {}
        self.tables: dict[str, list[int]] = {}
        recorder.attach([self.pool()])

    def pool(self) -> RecordedPool:
        return RecordedPool(
            kv=self.kv,
            layout="page slot head dim",
            page_size=PAGE_SIZE,
            reserved_slots=f"0-{PAGE_SIZE - 1}",
        )

    def join(self, request_id: str, prompt: list[int], *, shared_pages: list[int] = ()) -> None:
        """Queue a request; shared pages hold the KV of its first tokens already."""
        self.tokens[request_id] = list(prompt)
        self.tables[request_id] = list(shared_pages)
        self.computed[request_id] = len(shared_pages) * PAGE_SIZE

    def step(self, *, chunk: int = 100) -> None:
        """Run up to `chunk` tokens of every request, and sample one where all are run."""
        rows = [self._row(request_id, chunk) for request_id in self.tokens]
        self.recorder.before_forward(rows)
        for row in rows:
            for position, token in zip(row.positions, row.tokens, strict=True):
                self.write(row.slots[position], token, position)
            self.computed[row.request_id] = row.positions.stop
        self.recorder.after_forward()
        for request_id, tokens in self.tokens.items():
            if self.computed[request_id] == len(tokens):
                tokens.append(sum(tokens) % 97)
                self.recorder.update(request_id, known_tokens=tokens)

    def leave(self, request_id: str, *, kept_pages: int = 0) -> list[int]:
        """Finish a request; its first pages may stay cached, the others are free at once."""
        self.recorder.forget(request_id)
        table = self.tables.pop(request_id)
        del self.tokens[request_id], self.computed[request_id]
        self.free_pages.extend(reversed(table[kept_pages:]))
        return table[:kept_pages]

    def copy_page(self, request_id: str, page_idx: int) -> None:
        """Give a request its own copy of a page."""
        source, target = self.tables[request_id][page_idx], self.free_pages.pop()
        self.recorder.copy_slots(page_slots(source), page_slots(target))
        for halves in self.kv:
            for tensor in halves:
                tensor[target] = tensor[source]
        self.tables[request_id][page_idx] = target
        self.recorder.update(request_id, slots=self.slots(request_id, self.computed[request_id]))

    def write(self, slot: int, token: int, position: int) -> None:
        """The KV of one token, in all layers."""
        page, offset = divmod(slot, PAGE_SIZE)
        for layer, halves in enumerate(self.kv):
            for half, tensor in enumerate(halves):
                tensor[page, offset] = token + 0.5 * position + 100 * layer + 1000 * half + 1

    def slots(self, request_id: str, kv_len: int) -> list[int]:
        """Slot of each position below kv_len."""
        table = self.tables[request_id]
        return [
            table[position // PAGE_SIZE] * PAGE_SIZE + position % PAGE_SIZE
            for position in range(kv_len)
        ]

    def _row(self, request_id: str, chunk: int) -> ForwardRow:
        tokens, first = self.tokens[request_id], self.computed[request_id]
        positions = range(first, min(first + chunk, len(tokens)))
        while len(self.tables[request_id]) * PAGE_SIZE < positions.stop:
            self.tables[request_id].append(self.free_pages.pop())
        return ForwardRow(
            request_id=request_id,
            positions=positions,
            tokens=tokens[positions.start : positions.stop],
            slots=self.slots(request_id, positions.stop),
            known_tokens=tokens,
        )


def page_slots(page: int) -> np.ndarray:
    """The slots of a page, int64."""
    return np.arange(page * PAGE_SIZE, (page + 1) * PAGE_SIZE, dtype=np.int64)
