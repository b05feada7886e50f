"""A paged engine that does at random all that engines do to a KV pool, and tells its recorder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

from kvaudit.capture import ForwardRow, RecordedPool, Recorder

MAX_REQUESTS, MAX_TOKENS, NUM_HEADS = 5, 30, 2


@dataclass(eq=False, kw_only=True)
class Request:
    """One request: position i is in page pages[i // page_size]."""

    request_id: str
    tokens: list[int]
    prompt_len: int
    pages: list[int] = field(default_factory=list)
    computed: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """What a forward runs of one request: its next tokens, and drafts past them."""

    request: Request
    stop: int
    drafts: list[int]


class RandomEngine:
    """Its KV is random bytes, so that no slot ever looks like another.

    Args:
        seed: of all that happens.
        recorder: who is told; None = a recorder.

    Fields:
        events: how often each thing happened.
    """

    def __init__(self, seed: int, recorder: Recorder | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.page_size = self.pick([1, 2, 4, 5])
        self.num_pages = self.pick([8, 16, 30])
        self.halves: dict[str, torch.Tensor] = {}
        kv, layout = self._pool()
        self.recorder = recorder or Recorder(content=self.pick(["bytes", "digests"]))
        reserved = f"0-{self.page_size - 1}"
        self.recorder.attach(
            [RecordedPool(kv=kv, layout=layout, page_size=self.page_size, reserved_slots=reserved)]
        )
        self.requests: dict[str, Request] = {}
        self.page_refs = Counter(dict.fromkeys(range(1, self.num_pages), 0))
        self.used_pages: set[int] = set()
        self.events: Counter[str] = Counter()

    def pick(self, choices):
        """One of the choices."""
        return choices[self.below(len(choices))]

    def below(self, stop: int) -> int:
        """A number from 0 to stop - 1."""
        return int(self.rng.integers(stop))

    def happens(self, event: str, probability: float) -> bool:
        """Whether an event of this probability is due."""
        return bool(self.rng.random() < probability) and bool(self.requests or event == "join")

    def step(self) -> None:
        """One step: requests come, fork or lose their pages; a forward; pages move; requests go."""
        if self.happens("join", 0.4) and len(self.requests) < MAX_REQUESTS:
            self._join()
        if self.happens("fork", 0.15):
            self._fork(self._any_request())
        if self.happens("preempt", 0.12):
            self._preempt(self._any_request())
        self._forward()
        if self.happens("replace", 0.2):
            self._replace_page(self._any_request())
        for request in list(self.requests.values()):
            if len(request.tokens) > MAX_TOKENS or self.happens("leave", 0.05):
                self._leave(request)

    def live_slots(self) -> list[int]:
        """The slots of every request that the recorder follows."""
        known = self.recorder.live_requests
        requests = (request for name, request in self.requests.items() if name in known)
        return sorted({slot for request in requests for slot in self._slots(request)})

    def flip_a_bit(self, slot: int) -> str:
        """Damage one bit of a slot; returns the column it is in."""
        column = self.pick(list(self.halves))
        page, offset = divmod(slot, self.page_size)
        row = self.halves[column][page, offset].view(torch.uint8)
        row[self.below(row.shape[0]), self.below(row.shape[1])] ^= 1 << self.below(8)
        return column

    def _pool(self) -> tuple[list, str]:
        """The tensors, and how they are laid out."""
        style, dim = self.pick(["pair", "fused", "both in one"]), self.pick([3, 4, 8])
        dtype, num_layers = (
            self.pick([torch.bfloat16, torch.float32, torch.int8]),
            self.pick([1, 2]),
        )
        shape = (self.num_pages, self.page_size, NUM_HEADS, dim)
        if style == "fused":
            kv = [torch.zeros(shape, dtype=dtype) for _ in range(num_layers)]
            self.halves = {f"kv.kv.{layer}": tensor for layer, tensor in enumerate(kv)}
            return kv, "page slot head dim"
        both = [torch.zeros((2, *shape), dtype=dtype) for _ in range(num_layers)]
        for layer, (k, v) in enumerate(both):
            self.halves |= {f"kv.k.{layer}": k, f"kv.v.{layer}": v}
        if style == "pair":
            return [(k, v) for k, v in both], "page slot head dim"
        return both, "kv page slot head dim"

    def _any_request(self) -> Request:
        return self.pick(list(self.requests.values()))

    def _new_tokens(self, least: int, stop: int) -> list[int]:
        return [self.below(1000) for _ in range(least + self.below(stop - least))]

    def _add(self, tokens: list[int], **fields: object) -> Request:
        name = f"request-{self.events['join'] + self.events['fork']}"
        self.requests[name] = Request(request_id=name, tokens=tokens, **fields)
        return self.requests[name]

    def _join(self) -> None:
        self.events["join"] += 1
        prompt = self._new_tokens(1, 12)
        self._add(prompt, prompt_len=len(prompt))

    def _fork(self, parent: Request) -> None:
        """A second request on the same prefix: whole pages are shared, a part of one is copied."""
        whole, part = divmod(parent.computed, self.page_size)
        copied = self._allocate(1 if part else 0)
        if not parent.computed or copied is None:
            return
        self.events["fork"] += 1
        shared = parent.pages[:whole]
        self.page_refs.update(shared)
        for page in copied:
            # Some engines copy what is written, others the page.
            self._copy(parent.pages[whole], page, self.pick([part, self.page_size]))
        self._add(
            parent.tokens[: parent.computed] + self._new_tokens(1, 4),
            prompt_len=parent.prompt_len,
            pages=shared + copied,
            computed=parent.computed,
        )

    def _preempt(self, request: Request) -> None:
        """Its pages are taken; it is run again from position 0, with what it had said so far."""
        self.events["preempt"] += request.computed > 0
        self.recorder.forget(request.request_id)
        self._free(request, 0)
        request.computed = 0

    def _leave(self, request: Request) -> None:
        self.events["leave"] += 1
        self.recorder.forget(request.request_id)
        self._free(request, 0)
        del self.requests[request.request_id]

    def _replace_page(self, request: Request) -> None:
        """A full page moves, as where equal pages become one."""
        num_full = request.computed // self.page_size
        target = self._allocate(1) if num_full else None
        if target is None:
            return
        self.events["replace"] += 1
        page_idx = self.below(num_full)
        source = request.pages[page_idx]
        self._copy(source, target[0], self.page_size)
        request.pages[page_idx] = target[0]
        self.page_refs[source] -= 1
        self.recorder.update(request.request_id, slots=self._slots(request))

    def _forward(self) -> None:
        planned = [self._work_on(request) for request in list(self.requests.values())]
        due = [work for work in planned if work is not None]
        self.recorder.before_forward([self._row(work) for work in due])
        for work in due:
            for slot in self._slots(work.request, _end(work))[work.request.computed :]:
                self._write(slot)
        self.recorder.after_forward()
        for work in due:
            self._settle(work)

    def _work_on(self, request: Request) -> Work | None:
        """The next chunk of its tokens, with drafts where it reaches the last; None if none is due."""
        left = len(request.tokens) - request.computed
        length = min(left, self.pick([1, 2, 4, MAX_TOKENS]))
        is_last = length == left
        drafts = self._new_tokens(1, 4) if is_last and self.happens("draft", 0.3) else []
        stop = request.computed + length
        num_pages = -(-(stop + len(drafts)) // self.page_size)
        pages = self._allocate(max(0, num_pages - len(request.pages)))
        if pages is None or self.happens("wait", 0.2):
            self._release(pages or [])
            return None
        request.pages += pages
        self.events["chunk"] += not is_last
        return Work(request=request, stop=stop, drafts=drafts)

    def _row(self, work: Work) -> ForwardRow:
        request, positions = work.request, range(work.request.computed, _end(work))
        tokens = request.tokens + work.drafts
        return ForwardRow(
            request_id=request.request_id,
            positions=positions,
            tokens=tokens[positions.start : positions.stop],
            slots=self._slots(request, positions.stop),
            known_tokens=self.pick([None, tokens]),
            prompt_len=request.prompt_len,
        )

    def _settle(self, work: Work) -> None:
        """Accept some of the drafts, and sample a token where all are run."""
        request, num_accepted = work.request, self.below(len(work.drafts) + 1)
        self.events["reject"] += num_accepted < len(work.drafts)
        request.computed = work.stop + num_accepted
        request.tokens += work.drafts[:num_accepted]
        if request.computed == len(request.tokens):
            request.tokens.append(self.below(1000))
        self.recorder.update(
            request.request_id,
            known_tokens=request.tokens,
            kv_len=request.computed if work.drafts else None,
        )
        if self.happens("give back", 0.5):
            self._free(request, -(-request.computed // self.page_size))

    def _slots(self, request: Request, stop: int | None = None) -> list[int]:
        """Slot of each position below stop, or of each that is computed."""
        positions = range(request.computed if stop is None else stop)
        size = self.page_size
        return [request.pages[position // size] * size + position % size for position in positions]

    def _write(self, slot: int) -> None:
        page, offset = divmod(slot, self.page_size)
        for tensor in self.halves.values():
            row = tensor[page, offset].view(torch.uint8)
            row.copy_(torch.from_numpy(self.rng.integers(0, 256, row.shape, dtype=np.uint8)))
            if tensor.is_floating_point():
                # Without the highest bit of their exponents they are finite, as an engine's KV is.
                row[..., tensor.itemsize - 1 :: tensor.itemsize] &= 0xBF

    def _copy(self, source: int, target: int, num_slots: int) -> None:
        offsets = np.arange(num_slots)
        size = self.page_size
        self.recorder.copy_slots(source * size + offsets, target * size + offsets)
        for tensor in self.halves.values():
            tensor[target, :num_slots] = tensor[source, :num_slots]

    def _allocate(self, num_pages: int) -> list[int] | None:
        """Free pages in random order, what they held still in them; None if there are too few."""
        free = [page for page, num_refs in self.page_refs.items() if num_refs == 0]
        if len(free) < num_pages:
            return None
        pages = [int(page) for page in self.rng.permutation(free)[:num_pages]]
        self.page_refs.update(pages)
        self.events["reuse"] += len(self.used_pages.intersection(pages))
        self.used_pages.update(pages)
        return pages

    def _release(self, pages: list[int]) -> None:
        self.page_refs.subtract(pages)

    def _free(self, request: Request, num_kept: int) -> None:
        self._release(request.pages[num_kept:])
        del request.pages[num_kept:]


def _end(work: Work) -> int:
    return work.stop + len(work.drafts)
