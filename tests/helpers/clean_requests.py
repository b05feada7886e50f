"""An engine that serves random requests rightly, and leaves in its pool all that engines leave."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kvaudit.core.sequences import SequenceState
from tests.helpers.worlds import HEAD_HASH, MASK, Request, World, content, link


class Written(NamedTuple):
    """What a slot was written with; its context is a hash of the tokens before."""

    token: int
    position: int
    prev_hash: int
    context: int


# Without the bit that this lacks no element of a float type is a NaN or an infinity.
FINITE = 0xBF


@dataclass(kw_only=True)
class CleanEngine:
    """Fills a world with requests, and keeps what it wrote to each slot.

    Fields:
        rng: what chooses.
        world: the pool.
        traits: what of CASES.md 7 the pool has, by the names of `clean_worlds`.
        token_offset: position p is stamped with token p + this.
        position_offset: and as position p + this.
        num_words: tokens are below this; few make prompts begin alike.
        has_layer_0: whether layer 0 is what it is in a model: V of the token alone, K of its position
            too. Else all KV is of the context.
        pages: pages that are free, in random order.
        written: what stands in each slot.
        unstamped: slots that hold KV and were never stamped.
    """

    rng: random.Random
    world: World
    traits: set[str]
    token_offset: int = 0
    position_offset: int = 0
    num_words: int = 120_000
    has_layer_0: bool = False
    pages: list[int]
    written: dict[int, Written] = field(default_factory=dict)
    unstamped: set[int] = field(default_factory=set)

    def serve(self, name: str) -> None:
        """One more request of a random kind, if its pages are there."""
        kinds = [
            self._decoding, self._half_prefilled, self._allocated_ahead, self._with_rejected_drafts,
            self._sharing, self._repeated, self._in_flight, self._cut_off, self._loaded,
            self._finished,
        ]  # fmt: skip
        kind = self.rng.choice(kinds)
        length = self.rng.randint(1, min(3 * self.world.page_size, 24) + 4)
        if len(self.pages) > -(-(length + self.world.page_size) // self.world.page_size):
            kind(name, length)

    def leave_old_content(self) -> None:
        """Some pages were let go of, with their records, stamps and bytes."""
        for page in self.pages[: self.rng.randint(0, 2)]:
            prev_hash = self.rng.getrandbits(64)
            slots = range(page * self.world.page_size, (page + 1) * self.world.page_size)
            for position, slot in enumerate(slots[: self.rng.randint(1, len(slots))]):
                token = self._token()
                self.write(slot, Written(token, position, prev_hash, prev_hash))
                prev_hash = link(prev_hash, token, position)
            self.traits.add("old canaries on freed slots")

    def rewrite(self, salt: str) -> None:
        """The same records over other bytes: those of another rank, or computed once more."""
        for slot, written in self.written.items():
            self.write(slot, written, salt=salt)

    def write(self, slot: int, written: Written, *, salt: str = "") -> None:
        """KV of a token in its context, with record and stamps."""
        token, position, prev_hash, context = written
        world = self.world
        for name, data in world.kv.items():
            is_first = self.has_layer_0 and name.endswith(".0")
            place = 0 if is_first and name == "kv.v.0" else position
            seed = token if is_first else token ^ context
            data[slot] = content(name + salt, seed, place, data.shape[1]) & np.uint8(FINITE)
        self.written[slot] = written
        if slot not in self.unstamped:
            world.stamp_record(slot, token=token, position=position, prev_hash=prev_hash)
            world.stamp_digests(slot)

    def stamp(self, request: Request, *, first: int = 0, stop: int | None = None) -> None:
        """Write the entries [first, stop) of a request, each chained to what stands before it."""
        running, context, start = HEAD_HASH, HEAD_HASH, request.start_position
        for idx, slot in enumerate(request.slots[:stop]):
            place = start + idx
            token = self._token_at(request, place + self.token_offset)
            position = (place + self.position_offset) & MASK
            if idx >= first and slot not in self.world.reserved:
                self.write(slot, Written(token, position, running, context))
            running, context = link(running, token, position), link(context, token, position)
            if slot in self.unstamped:
                # The next launch goes on from a record that is zero.
                running = 0

    def _token_at(self, request: Request, place: int) -> int:
        if place >= len(request.tokens):
            return 7_000 + place
        token = request.tokens[place]
        return token if token >= 0 else 9_000 + place

    def _token(self) -> int:
        return self.rng.randint(1, self.num_words)

    def tokens(self, length: int) -> list[int]:
        """Random tokens."""
        return [self._token() for _ in range(length)]

    def take(self, length: int) -> list[int]:
        """The first slots of free pages."""
        size = self.world.page_size
        pages = [self.pages.pop() for _ in range(-(-length // size))]
        return [page * size + offset for page in pages for offset in range(size)][:length]

    def add(
        self,
        name: str,
        *,
        tokens: list[int],
        slots: list[int],
        kv_len: int,
        shared: int = 0,
        **fields: object,
    ) -> Request:
        """A request that was computed up to kv_len."""
        states = [None, SequenceState.RUNNING, SequenceState.CACHED, SequenceState.WAITING]
        fields.setdefault("state", self.rng.choice(states))
        request = Request(request_id=name, tokens=tokens, slots=slots, kv_len=kv_len, **fields)
        self.world.requests.append(request)
        self.stamp(request, first=shared, stop=kv_len - request.start_position)
        if self.rng.random() < 0.1:
            # Not those of a shared prefix alone: who shares it knows it by its slots too.
            request.tokens[:] = [-1] * len(tokens)
        return request

    def _decoding(self, name: str, length: int) -> None:
        self.add(name, tokens=self.tokens(length + 1), slots=self.take(length), kv_len=length)
        self.traits.add("last sampled token without KV")

    def _half_prefilled(self, name: str, length: int) -> None:
        prompt = self.tokens(length + self.rng.randint(2, 20))
        self.add(name, tokens=prompt, slots=self.take(length), kv_len=length)
        self.traits.add("prompt half prefilled")

    def _allocated_ahead(self, name: str, length: int) -> None:
        slots = self.take(length + self.rng.randint(1, self.world.page_size))
        self.add(name, tokens=self.tokens(length + 1), slots=slots, kv_len=length)
        self.traits.add("blocks allocated ahead")

    def _with_rejected_drafts(self, name: str, length: int) -> None:
        num_drafts = self.rng.randint(1, self.world.page_size)
        slots = self.take(length + num_drafts)
        tokens = self.tokens(length + num_drafts)
        request = self.add(name, tokens=tokens, slots=slots, kv_len=length)
        self.stamp(request, first=length)
        # A draft pool holds the tokens further on too.
        known = length + self.token_offset
        if known <= len(tokens):
            request.tokens[known:] = self.tokens(self.rng.randint(0, 1))
        self.traits.add("rejected drafts past kv_len")

    def _sharing(self, name: str, length: int) -> None:
        others = [
            request
            for request in self.world.requests
            if request.state not in (SequenceState.FINISHED, SequenceState.IN_FLIGHT)
            and request.start_position == 0
            and min(request.kv_len, len(request.tokens) - self.token_offset) > 1
            and -1 not in request.tokens
        ]
        if not others:
            return self._decoding(name, length)
        other = self.rng.choice(others)
        known = len(other.tokens) - self.token_offset
        shared = self.rng.randint(1, min(other.kv_len, known))
        tokens = other.tokens[: shared + self.token_offset] + self.tokens(length + 1)
        slots = other.slots[:shared] + self.take(length)
        kv_len, extra_key = len(slots), other.extra_key
        request = self.add(
            name, tokens=tokens, slots=slots, kv_len=kv_len, shared=shared, extra_key=extra_key
        )
        if self.rng.random() < 0.2:
            # Its first positions are out of its reach, and still in that of the other one.
            request.start_position = self.rng.randint(0, shared)
            del request.slots[: request.start_position]
        self.traits.add("shared prefix")
        return None

    def _repeated(self, name: str, length: int) -> None:
        """Another's prompt, computed once more on slots of its own."""
        tokens = self.tokens(length + 1)
        if self.world.requests:
            other = self.rng.choice(self.world.requests)
            same = self.rng.randint(0, min(len(other.tokens), length))
            tokens[:same] = other.tokens[:same]
        extra_key = self.rng.choice([None, "adapter-7"])
        self.add(name, tokens=tokens, slots=self.take(length), kv_len=length, extra_key=extra_key)

    def _in_flight(self, name: str, length: int) -> None:
        slots, state = self.take(length), SequenceState.IN_FLIGHT
        arrived = self.rng.randint(0, length)
        request = self.add(
            name, tokens=self.tokens(length + 1), slots=slots, kv_len=arrived, state=state
        )
        request.kv_len = length
        self.traits.add("copy in flight")

    def _cut_off(self, name: str, length: int) -> None:
        """The first positions were let go of: they are not listed, or stand as table entries 0."""
        gone = self.rng.randint(1, 40)
        tokens, kv_len = self.tokens(gone + length + 1), gone + length
        slots = self.take(length)
        if self.rng.random() < 0.5 and 0 in self.world.reserved:
            self.add(name, tokens=tokens, slots=[0] * gone + slots, kv_len=kv_len)
            self.traits |= {"table entry 0", "predecessor not reachable"}
        else:
            self.add(name, tokens=tokens, slots=slots, kv_len=kv_len, start_position=gone)
            self.traits.add("predecessor not reachable")

    def _loaded(self, name: str, length: int) -> None:
        """A part came from a store that does not stamp: its first slots, or its last."""
        slots = self.take(length)
        cut = self.rng.randint(0, length)
        loaded = self.rng.choice([slots[:cut], slots[cut:]])
        self.unstamped.update(loaded)
        self.add(name, tokens=self.tokens(length + 1), slots=slots, kv_len=length)
        if loaded:
            self.traits.add("slots never stamped")

    def _finished(self, name: str, length: int) -> None:
        tokens, slots = self.tokens(length), self.take(length)
        self.add(name, tokens=tokens, slots=slots, kv_len=length, state=SequenceState.FINISHED)

    def used(self) -> np.ndarray:
        """Which slots any list names, shape [num_slots], bool."""
        found = np.zeros(self.world.num_slots, dtype=bool)
        found[[slot for request in self.world.requests for slot in request.slots]] = True
        return found
