"""KV305 wrong-layout: the bytes are right, and were sliced with the wrong geometry."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_layer, tail_of
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import homes_in
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.layouts import Layout, candidate_layouts
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, hashes_counted

RULE = Rule(id="KV305", name="wrong-layout", severity=Severity.ERROR)

# Slots that must fit one formula, how many of them for each that does not, and how many are looked
# up to find the formula.
_MIN_FITTING: Final = 4
_FITTING_PER_MISFIT: Final = 9
_MAX_LOOKED_UP: Final = 4096


def explain(failures: Failures) -> list[Explanation]:
    """Find the formula by which what slot s hashes to is the stamp of slot f(s), for all slots.

    A fault of some slots fits no formula: the sound ones speak against it. What is read from
    outside the pool, or from slots that were never stamped, goes with the rest.
    """
    view = failures.byte_view
    found: list[Explanation] = []
    accepted: dict[Layout, None] = {}
    for channel in view.channels():
        if channel.is_column and column_layer(channel.name) is None:
            continue
        reading = _Reading(view, channel)
        if not reading.is_mostly_open:
            continue
        layout = reading.best(list(accepted), min_fitting=0)
        if layout is None:
            layout = reading.best(reading.candidates(), min_fitting=_MIN_FITTING)
        if layout is not None:
            num_slots = view.evidence.snapshot.num_slots
            accepted |= dict.fromkeys((layout, *layout.in_the_other_half(num_slots)))
            found.append(_explanation(view, channel, layout, rows=reading.explained_by(layout)))
    return found


class _Reading:
    """One channel, as it is held against layouts."""

    def __init__(self, view: ByteView, channel: Channel) -> None:
        self._snapshot = view.evidence.snapshot
        self._channel = channel
        self._others = _other_half(view, channel)
        # Differences are cut to the first: what lies behind the last is not known to be sound.
        num_known = int(np.searchsorted(view.claimed_rows, channel.rows[-1], side="right"))
        self._claimed = view.claimed_rows[:num_known]

    @property
    def is_mostly_open(self) -> bool:
        """Whether so many rows differ that the others need not refute every layout."""
        num_sound = len(self._claimed) - len(self._channel.rows)
        return len(self._channel.rows) >= max(_MIN_FITTING, num_sound)

    @cached_property
    def _sound(self) -> NDArray[np.int64]:
        """Claimed rows that do not differ, shape [n], int64."""
        sound: NDArray[np.int64] = self._claimed[~among(self._claimed, self._channel.rows)]
        return sound

    def candidates(self) -> list[Layout]:
        """The layouts that the first rows speak for."""
        slots, channel = self._snapshot.slots, self._channel
        members = np.flatnonzero(channel.held)[:_MAX_LOOKED_UP]
        held = channel.held[members]
        own = homes_in(channel.written, held)
        other = np.full(len(held), -1) if self._others is None else homes_in(self._others, held)
        return list(
            candidate_layouts(
                slots[channel.rows[members]],
                own_homes=np.where(own >= 0, slots[own], -1),
                other_homes=np.where(other >= 0, slots[other], -1),
                page_size=self._snapshot.page_size,
            )
        )

    def best(self, layouts: list[Layout], *, min_fitting: int) -> Layout | None:
        """The layout that most rows fit and next to none refutes; the first of equal ones."""
        best, most = None, min_fitting - 1
        for layout in layouts:
            fitting, misfits = self._judge(layout)
            if fitting > most and fitting >= _FITTING_PER_MISFIT * misfits:
                best, most = layout, fitting
        return best

    def explained_by(self, layout: Layout) -> NDArray[np.int64]:
        """The rows that fit a layout, or of which it says nothing, shape [k], int64."""
        expected = self._expected(layout, self._channel.rows)
        rows: NDArray[np.int64] = self._channel.rows[
            (expected == self._channel.held) | (expected == 0)
        ]
        return rows

    def _judge(self, layout: Layout) -> tuple[int, int]:
        """How many rows fit a layout, and how many refute it."""
        channel = self._channel
        expected = self._expected(layout, channel.rows)
        fits = (expected == channel.held) & (expected != 0)
        misfits = (expected != 0) & ~fits
        of_sound = self._expected(layout, self._sound)
        refutes = (of_sound != 0) & (of_sound != channel.written[self._sound])
        num_refuting = int(misfits.sum()) + int(refutes.sum())
        if fits.sum() >= _FITTING_PER_MISFIT * num_refuting:
            # What should come from outside of what is known, and is a known slot's, does not.
            unknown = channel.held[(expected == 0) & (channel.held != 0)][:_MAX_LOOKED_UP]
            num_refuting += int(np.count_nonzero(homes_in(channel.written, unknown) >= 0))
        return int(fits.sum()), num_refuting

    def _expected(self, layout: Layout, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """What rows, shape [n], int64, hash to in a layout; 0 where that is not in the dump."""
        slots, is_other = layout.homes(self._snapshot.slots[rows])
        homes = self._snapshot.rows_of(slots)
        own = self._channel.written[homes]
        found = own if self._others is None else np.where(is_other, self._others[homes], own)
        known = (homes >= 0) & ~(is_other & (self._others is None))
        expected: NDArray[np.uint64] = np.where(known, found, np.uint64(0))
        return expected


def _other_half(view: ByteView, channel: Channel) -> NDArray[np.uint64] | None:
    """What was stamped of the other half of a layer, or of all, [num_rows]; None without any."""
    snapshot = view.evidence.snapshot
    if channel.is_column:
        _, half, layer = channel.name.split(".")
        name = f"kv.{'v' if half == 'k' else 'k'}.{layer}"
        return view.stamps(name) if half != "kv" and name in snapshot.stamped else None
    half = next(half for half in KvHalf if tail_of(half) != channel.name)
    for records in view.views:
        if records.buffer == tail_of(half):
            return records.real_kv_hashes
    return None


def _explanation(
    view: ByteView, channel: Channel, layout: Layout, *, rows: NDArray[np.int64]
) -> Explanation:
    snapshot = view.evidence.snapshot
    homes, is_other = layout.homes(snapshot.slots[rows])
    examples = [
        {"slot": slot, "holds_bytes_of_slot": home, "of_the_other_half": other}
        for slot, home, other in zip(
            snapshot.slots[rows][:MAX_EXAMPLES].tolist(),
            homes[:MAX_EXAMPLES].tolist(),
            is_other[:MAX_EXAMPLES].tolist(),
            strict=True,
        )
    ]
    half = view.half_of(channel)
    columns = [channel.name] if channel.is_column else view.sources_of(half)
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=(layout.misreading, layout.size),
            summary=f"{layout.summary()}: {hashes_counted(len(rows), view.evidence)} hold other slots' bytes",
            roots=rows,
            facts={"layout": layout.misreading.name.lower(), "examples": examples},
        ),
        columns=columns,
    )
