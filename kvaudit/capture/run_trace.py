"""The trace of a run: a plan and a state file a pool, between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.pool_trace import PoolTrace
from kvaudit.formats.atomic_file import make_folder


class RunTrace:
    """What a recorder tells the traces of all its pools.

    Args:
        folder: where the traces go; it is made.
        held: what each pool holds as the trace begins, by pool name.
        step: the step that has ended.
        digests_every: steps from one snapshot of digests to the next; 0 = none.
        metadata: further schema metadata of the files.

    Raises:
        FileUnwritable: the system refused.
    """

    def __init__(
        self,
        folder: Path,
        held: Mapping[str, PoolDump],
        *,
        step: int,
        digests_every: int,
        metadata: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._digests_every = digests_every
        make_folder(folder)
        self._pools: dict[str, PoolTrace] = {}
        try:
            for name, dumped in held.items():
                self._pools[name] = PoolTrace(folder, dumped, step=step, metadata=metadata)
        except BaseException:
            self.abandon()
            raise

    def folder_of(self, step: int) -> Path:
        """Where a snapshot of a step goes."""
        return self._folder / f"step-{step:06d}"

    def is_digest_due(self, step: int) -> bool:
        """Whether a snapshot of digests is due where a step ends."""
        return self._digests_every > 0 and step % self._digests_every == 0

    def before_forward(self, rows: Mapping[str, Sequence[PoolRow]]) -> None:
        """What the forward will write, by pool name."""
        for name, pool in self._pools.items():
            pool.before_forward(rows[name])

    def after_forward(self, step: int) -> None:
        """The forward has written.

        Raises:
            FileUnwritable: the system refused.
        """
        for pool in self._pools.values():
            pool.after_forward(step)

    def copy_slots(
        self, src: Mapping[str, NDArray[np.int64]], dst: Mapping[str, NDArray[np.int64]]
    ) -> None:
        """Slots are copied, by pool name."""
        for name, pool in self._pools.items():
            pool.copy_slots(src[name], dst[name])

    def update(
        self,
        request_id: str,
        *,
        slots: Mapping[str, NDArray[np.int64]] | None,
        kv_len: int | None,
    ) -> None:
        """A request's tables by pool name, and its length, as the engine has them now."""
        for name, pool in self._pools.items():
            pool.update(request_id, slots=None if slots is None else slots[name], kv_len=kv_len)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request."""
        for pool in self._pools.values():
            pool.forget(request_id)

    def close(self) -> list[Path]:
        """Write the files; returns them.

        Raises:
            FileUnwritable: the system refused.
        """
        return [path for pool in self._pools.values() for path in pool.close()]

    def abandon(self) -> None:
        """Let go of the traces; none of their files is written."""
        for pool in self._pools.values():
            pool.abandon()
