"""KV301 bytes-changed: the KV of a slot is not what was stamped, and nothing more definite fits."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_view import ByteView, Channel
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, content_at, hashes_counted

RULE = Rule(id="KV301", name="bytes-changed", severity=Severity.ERROR)

# What leaves content that is nowhere else in the dump, and with digests alone, what bytes would show.
_WITH_BYTES: Final = ("KV203", "KV303")
_WITHOUT_BYTES: Final = ("KV203", "KV304", "KV303", "KV306")


def explain(failures: Failures) -> list[Explanation]:
    """What no rule before explains, in runs of the sequences that read it.

    Another writer came after the stamp, or the stamp before the last writer: which of them, only
    another copy of the slots tells.
    """
    view = failures.byte_view
    channels = view.channels()
    return [_explanation(view, run, channels) for run in view.bounded_runs(view.rows())]


def _explanation(view: ByteView, run: NDArray[np.int64], channels: list[Channel]) -> Explanation:
    snapshot = view.evidence.snapshot
    slot = int(snapshot.slots[run[0]])
    hit = [channel for channel in channels if among(run, channel.rows).any()]
    names = [_label(channel) for channel in hit]
    more = f"; {hashes_counted(len(run), view.evidence)} in all" if len(run) > 1 else ""
    bytes_known = _has_bytes(view, hit)
    # An index of -1 names the last slot of a tensor.
    of_sentinel = ("KV309",) if snapshot.num_slots - 1 in snapshot.slots[run] else ()
    settled_by = "another copy of these slots: the sender's dump, or one of an earlier step"
    if not bytes_known:
        settled_by = f"the KV bytes: this dump holds their digests alone; then {settled_by}"
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=run.tobytes(),
            summary=(
                f"the KV at {content_at(slot, view.evidence)} is not what was stamped, in "
                f"{_listed(names)}{more}"
            ),
            roots=run,
            facts={"columns": names[:MAX_EXAMPLES], "num_columns": len(names)},
            alternatives=(*(_WITH_BYTES if bytes_known else _WITHOUT_BYTES), *of_sentinel),
            settled_by=settled_by,
        )
    )


def _label(channel: Channel) -> str:
    return channel.name if channel.is_column else f"the combined hash in {channel.name}"


def _has_bytes(view: ByteView, channels: list[Channel]) -> bool:
    """Whether the dump holds the bytes of all that may differ: it may hold those of layer 0 alone."""
    names = [channel.name for channel in channels if channel.is_column]
    if not names:
        names = [name for channel in channels for name in view.sources_of(view.half_of(channel))]
    return all(name in view.evidence.snapshot.kv for name in names)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"
