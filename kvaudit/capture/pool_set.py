"""All pools of a recorder: each with a recorder of its own, told of what concerns it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.content import Content, Grain
from kvaudit.capture.dump_identity import DumpIdentity
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_recorder import NOWHERE, PoolRecorder
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.pairing_key import file_stem

EACH_WITH_A_NAME: Final = "give at least one pool, each with a name of its own"

_NO_SLOTS = np.empty(0, dtype=np.int64)

SlotsByPool = Mapping[str, NDArray[np.int64]]


class PoolSet:
    """The pools of one engine, by name, from a blank state.

    Args:
        pools: the pools.
        content: what their dumps hold.
        identity: whose they are.

    Fields:
        identity: the same.

    Raises:
        ConfigError: two share a name or the name of their files, or a layout does not fit its
            tensors.
    """

    def __init__(
        self, pools: Sequence[RecordedPool], *, content: Content, identity: DumpIdentity
    ) -> None:
        names = {pool.name for pool in pools}
        stems = {file_stem(identity.key(pool, step=0)) for pool in pools}
        if len(names) < len(pools) or len(stems) < len(pools):
            raise ConfigError(
                f"pools: named {', '.join(pool.name for pool in pools)}",
                hint=EACH_WITH_A_NAME,
            )
        self.identity = identity
        self._pools = {pool.name: (pool, PoolRecorder(pool, content=content)) for pool in pools}

    def __iter__(self) -> Iterator[str]:
        """The names of the pools."""
        return iter(self._pools)

    @property
    def num_stamped(self) -> int:
        """Different slots stamped so far, over all pools."""
        return sum(recorder.num_stamped for _, recorder in self._pools.values())

    @property
    def live_requests(self) -> frozenset[str]:
        """Requests that have slots and were not forgotten."""
        return frozenset().union(*(recorder.live_requests for _, recorder in self._pools.values()))

    def before_forward(self, rows: Mapping[str, Sequence[PoolRow]], *, last_step: int) -> None:
        """Note what a forward will write, and save what it overwrites; rows by pool name."""
        memory = self._memory_of(
            {
                name: np.concatenate([_NO_SLOTS, *(row.chain().slots for row in its_rows)])
                for name, its_rows in rows.items()
            }
        )
        for name, key, recorder in self._recorders(last_step):
            recorder.before_forward(rows[name], key, elsewhere=_all_but(name, memory))

    def after_forward(self, step: int) -> None:
        """Stamp what the forward wrote."""
        for _, recorder in self._pools.values():
            recorder.after_forward(step)

    def update(
        self,
        request_id: str,
        *,
        known_tokens: NDArray[np.int64] | None,
        slots: SlotsByPool | None,
        kv_len: int | None,
    ) -> None:
        """What the engine has of a request now; None leaves it."""
        for name, (_, recorder) in self._pools.items():
            recorder.update(
                request_id,
                known_tokens=known_tokens,
                slots=None if slots is None else slots[name],
                kv_len=kv_len,
            )

    def copy_slots(self, src: SlotsByPool, dst: SlotsByPool, *, step: int) -> None:
        """Slots src are about to be copied to dst, pair by pair.

        Raises:
            ConfigError: there are not as many of the one as of the other.
        """
        memory = self._memory_of(dst)
        for name, key, recorder in self._recorders(step):
            if len(src[name]) != len(dst[name]):
                raise ConfigError(
                    f"copy_slots: {len(src[name])} sources, {len(dst[name])} targets",
                    hint="give one target a source",
                )
            elsewhere = _all_but(name, memory)
            recorder.copy_slots(src[name], dst[name], step=step, key=key, elsewhere=elsewhere)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request."""
        for _, recorder in self._pools.values():
            recorder.forget(request_id)

    def dump_stamped(self, step: int, *, content: Content) -> dict[str, PoolDump]:
        """What each pool holds now, with every slot that was ever stamped, by pool name."""
        return {
            name: recorder.dump_stamped(key, content=content)
            for name, key, recorder in self._recorders(step)
        }

    def dump(
        self, step: int, *, request_ids: Collection[str] | None, content: Content
    ) -> Iterator[PoolDump]:
        """What each pool holds now, and unless requests are named, what was given away of it.

        A dump of that is let go of once the next one is asked for.
        """
        for _, key, recorder in self._recorders(step):
            yield recorder.dump(key, request_ids=request_ids, content=content)
            for saved in recorder.take_given_away() if request_ids is None else ():
                yield saved.as_content(content)

    def write(
        self, directory: str | Path, dumps: Iterable[PoolDump], digest_grain: Grain
    ) -> list[Path]:
        """Write dumps of these pools into a folder; gives the files.

        Raises:
            FileUnwritable: a file or its folder cannot be written.
        """
        return [
            path
            for dumped in dumps
            for path in self.identity.write(directory, dumped, digest_grain)
        ]

    def _recorders(self, step: int) -> Iterator[tuple[str, PoolKey, PoolRecorder]]:
        for name, (pool, recorder) in self._pools.items():
            yield name, self.identity.key(pool, step=step), recorder

    def _memory_of(self, slots: SlotsByPool) -> dict[str, NDArray[np.int64]]:
        """The memory that each pool's slots lie on: a finished sequence of another pool may, too."""
        if len(slots) == 1:
            return {}
        return {
            name: self._pools[name][1].memory_of(its_slots) for name, its_slots in slots.items()
        }


def _all_but(name: str, memory: SlotsByPool) -> NDArray[np.int64]:
    """The memory of the other pools, shape [n, 2], int64."""
    return np.concatenate([NOWHERE, *(spans for pool, spans in memory.items() if pool != name)])
