"""One pool of a recorder: whose slots are whose, and what a dump of them holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.arguments import integer
from kvaudit.capture.content import Content
from kvaudit.capture.layouts import slot_views
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.slot_memory import memory_of, overlaps
from kvaudit.capture.slot_view import GatheredColumn
from kvaudit.capture.stamps import PoolStamps
from kvaudit.capture.tables import flat_sequences, live_slots
from kvaudit.capture.tracked_sequence import TrackedSequence
from kvaudit.constants import NO_STEP, RealKvHashMode
from kvaudit.core.given_away import given_away_key
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.errors import ConfigError

NOWHERE = np.empty((0, 2), dtype=np.int64)
_NO_SLOTS = np.empty(0, dtype=np.int64)


class PoolRecorder:
    """Follows one pool. Finished sequences stay until their slots are given away."""

    def __init__(self, pool: RecordedPool, *, content: Content) -> None:
        self._pool = pool
        self._content = content
        self._reserved = SlotRanges.parse(pool.reserved_slots)
        self._views = slot_views(pool.kv, layout=pool.layout, page_size=pool.page_size)
        self._stamps = PoolStamps(self._views, pool.pool_kind)
        self._live: dict[str, TrackedSequence] = {}
        self._finished: list[TrackedSequence] = []
        self._pending: list[PoolRow] = []
        self._given_away: deque[PoolDump] = deque()
        self._num_saved = 0

    @property
    def live_requests(self) -> Collection[str]:
        """Requests that have slots and were not forgotten."""
        return self._live.keys()

    @property
    def num_stamped(self) -> int:
        """Different slots stamped so far."""
        return int(np.count_nonzero(self._stamps.stamped_step >= 0))

    def memory_of(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Spans of addresses that writing these slots overwrites, shape [n, 2], int64."""
        return memory_of(self._views, slots).reshape(-1, 2)

    def before_forward(
        self,
        rows: Sequence[PoolRow],
        key: PoolKey,
        *,
        elsewhere: NDArray[np.int64] = NOWHERE,
    ) -> None:
        """Note what the forward will write, and save what it overwrites.

        Args:
            rows: the requests' parts of the forward.
            key: of the last step.
            elsewhere: memory that the forward writes through other pools, shape [n, 2], int64.
        """
        for row in rows:
            self._check_table(row.slots, row.positions.stop, row.request_id)
        self._pending = [row for row in rows if len(row.slots)]
        written = [row.chain().slots for row in self._pending]
        self._save_given_away(written, elsewhere=elsewhere, key=key)

    def after_forward(self, step: int) -> None:
        """Stamp what the forward wrote."""
        if not self._pending:
            return
        self._stamps.stamp([row.chain() for row in self._pending], step)
        for row in self._pending:
            new = TrackedSequence(request_id=row.request_id)
            self._live.setdefault(row.request_id, new).run(row)
        self._pending = []

    def update(
        self,
        request_id: str,
        *,
        known_tokens: NDArray[np.int64] | None,
        slots: NDArray[np.int64] | None,
        kv_len: int | None,
    ) -> None:
        """The request's tokens, table or length as the engine has them now; None leaves them."""
        tracked = self._live.get(request_id)
        if tracked is None:
            return
        if known_tokens is not None:
            tracked.tokens = known_tokens
        end = tracked.kv_len if kv_len is None else integer(kv_len, "kv_len", at_least=0)
        if slots is not None:
            self._check_table(slots, end, request_id)
            tracked.first_position = end - len(slots)
            tracked.slots = slots
        tracked.slots = tracked.slots[: max(0, end - tracked.first_position)]

    def copy_slots(
        self,
        src: NDArray[np.int64],
        dst: NDArray[np.int64],
        *,
        step: int,
        key: PoolKey,
        elsewhere: NDArray[np.int64] = NOWHERE,
    ) -> None:
        """Slots src are about to be copied to dst; elsewhere: as in `before_forward`."""
        self._check_slots(src, "src")
        self._check_slots(dst, "dst")
        self._save_given_away([dst], elsewhere=elsewhere, key=key)
        self._stamps.copy(src, dst, step)

    def forget(self, request_id: str) -> None:
        """The engine is done with the request; its slots keep their content until given away."""
        tracked = self._live.pop(request_id, None)
        if tracked is not None:
            tracked.state = SequenceState.FINISHED
            self._finished.append(tracked)

    def dump(
        self, key: PoolKey, *, request_ids: Collection[str] | None, content: Content
    ) -> PoolDump:
        """The pool as it is now; its KV columns gather when they are read."""
        wanted = [
            tracked
            for tracked in (*self._live.values(), *self._finished)
            if request_ids is None or tracked.request_id in request_ids
        ]
        at = DumpMoment.MID_STEP if self._pending else DumpMoment.STEP_END
        return self._dump_of(wanted, key=key, content=content, at=at)

    def dump_stamped(self, key: PoolKey, *, content: Content) -> PoolDump:
        """The pool as it is now, with every slot that was ever stamped.

        A slot may have been copied to for a request that no forward has named yet.
        """
        stamped = np.flatnonzero(self._stamps.stamped_step != NO_STEP)
        wanted = (*self._live.values(), *self._finished)
        at = DumpMoment.MID_STEP if self._pending else DumpMoment.STEP_END
        return self._dump_of(wanted, key=key, content=content, at=at, further_slots=stamped)

    def take_given_away(self) -> Iterator[PoolDump]:
        """Hand over what was saved, oldest first; each is kept until the next one is asked for."""
        while self._given_away:
            yield self._given_away[0]
            self._given_away.popleft()

    def _dump_of(
        self,
        wanted: Sequence[TrackedSequence],
        *,
        key: PoolKey,
        content: Content,
        at: DumpMoment,
        further_slots: NDArray[np.int64] = _NO_SLOTS,
    ) -> PoolDump:
        rows = [tracked.row() for tracked in wanted]
        slots = live_slots(rows, self._views[0].num_slots, further=further_slots)
        columns = {view.name: GatheredColumn(view=view, slots=slots) for view in self._views}
        dumped = PoolDump(
            snapshot=Snapshot(
                slots=slots,
                num_slots=self._views[0].num_slots,
                page_size=self._pool.page_size,
                reserved_slots=self._reserved,
                key=key,
                at=at,
                real_kv_hash_mode=RealKvHashMode.ALL,
                stamped_columns=tuple(view.name for view in self._views),
                window=self._pool.window,
                canary=dict(self._stamps.canary_columns(slots)),
                kv=columns,
                stamped=dict(self._stamps.stamped_columns(slots)),
                evidence=dict(self._stamps.evidence_columns(slots)),
            ),
            sequences=flat_sequences(rows, key),
        )
        return dumped.as_content(content)

    def _save_given_away(
        self,
        written: Sequence[NDArray[np.int64]],
        *,
        elsewhere: NDArray[np.int64],
        key: PoolKey,
    ) -> None:
        """Dump finished sequences into memory before any of their slots, or its bytes, are written."""
        given_away = np.concatenate([np.empty(0, dtype=np.int64), *written])
        losses = []
        for tracked in self._finished:
            lost = np.isin(tracked.slots, given_away)
            if len(elsewhere):
                lost |= overlaps(memory_of(self._views, tracked.slots), elsewhere)
            losses.append((tracked, lost))
        touched = [(tracked, lost) for tracked, lost in losses if lost.any()]
        whole = [tracked for tracked, _ in touched if tracked.state is SequenceState.FINISHED]
        if whole:
            self._num_saved += 1
            own_key = given_away_key(key, self._num_saved)
            saved = self._dump_of(whole, key=own_key, content=self._content, at=DumpMoment.STEP_END)
            self._given_away.append(saved.in_memory())
        for tracked, lost in touched:
            tracked.keep_before(lost)
        self._finished = [tracked for tracked in self._finished if len(tracked.slots)]

    def _check_table(self, slots: NDArray[np.int64], end: int, request_id: str) -> None:
        """A table ends with the position before `end`: what was allocated ahead is not its part."""
        self._check_slots(slots, request_id)
        if len(slots) > end:
            raise ConfigError(
                f"{request_id}: {len(slots)} slots for {end} positions",
                hint="leave out the slots that were allocated ahead",
            )

    def _check_slots(self, slots: NDArray[np.int64], place: str) -> None:
        num_slots = self._views[0].num_slots
        outside = slots[(slots < 0) | (slots >= num_slots)]
        if outside.size:
            raise ConfigError(
                f"{place}: slot {outside[0]} of pool {self._pool.name}, which has {num_slots}",
                hint="check page_size, the layout, and which pool the slots are of",
            )
