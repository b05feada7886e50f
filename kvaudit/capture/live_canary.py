"""A canary beside an engine, told what the engine does with the calls of a recorder.

    canary = LiveCanary(CanaryConfig.from_env(os.environ), dumps="dumps")
    canary.attach([RecordedPool(kv=pools, layout="page slot head dim", page_size=16)], max_requests=64)
    canary.before_forward(rows)        # verifies what the forward reads, stamps the head
    canary.after_forward()             # verifies again, stamps with the KV, sweeps, observes
    canary.copy_slots(src, dst)        # before the engine copies slots
    canary.forget(request_id)          # the engine is done with a request
    canary.finish()                    # the last look

Where a recorder keeps its stamps on the host, these are on the pool's device, and no call but a
dump and `finish` waits for it. Calls are made in the engine's thread, on the stream of its forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvaudit.capture.arguments import integer, schema_metadata, text
from kvaudit.capture.forward_row import ForwardRow, PoolTables, rows_by_pool, tables_by_pool
from kvaudit.capture.live_dump import LiveDump
from kvaudit.capture.live_pool import LivePool
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.rope_metadata import RopeSource, rope_metadata
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.canary_state import CanaryState
    from kvaudit.runner.live import CachedPrefix, CanaryConfig

CachedPrefixesOf = Callable[[str], Mapping[str, "CachedPrefix"]]


def never() -> bool:
    """The trigger that asks for no dump."""
    return False


class LiveCanary:
    """The canaries of an engine's pools, one a pool. In mode `none` all calls return at once.

    Args:
        config: how they run.
        dumps: the folder of mode `dump`: each dump is a folder in it, such as `step-000120`.
        triggered: asked once a step in mode `dump`: whether to dump now.
        rope: how the model rotates K, as in `capture.dump`.
        instance: the engine process, such as "decode-0".
        rank: the rank that owns the pools.
        metadata: further schema metadata of every file of a dump, such as {"model": ...}.

    Raises:
        ConfigError: mode `dump` without a folder, or an argument is none that a file can hold.
    """

    def __init__(
        self,
        config: CanaryConfig,
        *,
        dumps: str | Path | None = None,
        triggered: Callable[[], bool] = never,
        rope: RopeSource | None = None,
        instance: str | None = None,
        rank: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        from kvaudit.runner.live import CanaryMode

        if config.mode is CanaryMode.DUMP and dumps is None:
            raise ConfigError("mode is dump, and there is no folder for it", hint="give dumps")
        self._config = config
        self._is_off = config.mode is CanaryMode.NONE
        self._dumps = None if dumps is None else Path(dumps)
        self._triggered = triggered
        self._is_triggered = False
        self._instance = None if instance is None else text(instance, "instance")
        self._rank = None if rank is None else integer(rank, "rank", at_least=0)
        self._metadata = schema_metadata(metadata)
        self._rope = rope_metadata(rope)
        self._pools: dict[str, LivePool] = {}
        self._is_running = False

    @property
    def pools(self) -> Mapping[str, LivePool]:
        """The pools by name; none before `attach`, and in mode `none`."""
        return self._pools

    @property
    def step(self) -> int:
        """Steps done."""
        return max((pool.manager.step for pool in self._pools.values()), default=0)

    def read_states(self) -> dict[str, CanaryState]:
        """The ring and the counters of each pool; waits for the device."""
        return {name: pool.read_state() for name, pool in self._pools.items()}

    def attach(
        self,
        pools: Sequence[RecordedPool],
        *,
        max_requests: int,
        cached_prefixes: CachedPrefixesOf | None = None,
    ) -> None:
        """Run beside these pools, from a blank state.

        Args:
            pools: one of a name.
            max_requests: requests of the largest forward.
            cached_prefixes: what the engine caches in a pool, by its name; None = nothing.

        Raises:
            ConfigError: there is none, two share a name, a layout does not fit its tensors, or a
                pool uses slot 0.
        """
        if not pools or len({pool.name for pool in pools}) < len(pools):
            raise ConfigError(
                f"pools: named {', '.join(pool.name for pool in pools) or 'nothing'}",
                hint="give at least one pool, each with a name of its own",
            )
        if not self._is_off:
            self._pools = {
                pool.name: self._live_pool(pool, max_requests, cached_prefixes) for pool in pools
            }

    def before_forward(self, rows: Sequence[ForwardRow]) -> None:
        """Begin a step: launch what comes before the forward. Without a row there is no step.

        Raises:
            ConfigError: a row contradicts itself.
            ValueError: there are more requests than `max_requests`.
        """
        self._is_running = bool(rows) and bool(self._pools)
        if self._is_running:
            by_pool = rows_by_pool(rows, self._pools)
            for name, pool in self._pools.items():
                pool.before_forward(by_pool[name])

    def after_forward(self) -> None:
        """End the step: launch what comes after the forward, and tell what has arrived.

        Raises:
            CanaryViolationError: mode raise: violations of an earlier step.
            CanaryStalledError: a launch that was due did not run.
            DeviceFailed: the device reported an error.
        """
        if not self._is_running:
            return
        self._is_running = False
        # Once for all pools: a trigger may reset itself.
        self._is_triggered = self._triggered()
        for pool in self._pools.values():
            pool.after_forward()

    def copy_slots(self, src: PoolTables, dst: PoolTables) -> None:
        """The engine is about to copy slots src to dst, pair by pair; by pool name if several."""
        if self._pools:
            sources = tables_by_pool(src, self._pools)
            targets = tables_by_pool(dst, self._pools)
            for name, pool in self._pools.items():
                pool.copy_slots(sources[name], targets[name])

    def forget(self, request_id: str) -> None:
        """The engine is done with a request: from now on its slots may be given away."""
        for pool in self._pools.values():
            pool.forget(request_id)

    def finish(self) -> None:
        """Wait for the device, tell what is left, and check the counters a last time.

        Raises:
            CanaryViolationError: mode raise: violations that were not raised yet.
            CanaryStalledError: a launch that was due did not run, however short the run.
            DeviceFailed: the device reported an error.
        """
        self._is_triggered = False
        for pool in self._pools.values():
            pool.manager.finish()

    def _live_pool(
        self, pool: RecordedPool, max_requests: int, cached_prefixes: CachedPrefixesOf | None
    ) -> LivePool:
        def prefixes() -> Mapping[str, CachedPrefix]:
            return {} if cached_prefixes is None else cached_prefixes(pool.name)

        return LivePool(
            pool,
            config=self._config,
            max_requests=max_requests,
            prefixes=prefixes,
            write_dump=self._write,
            triggered=lambda: self._is_triggered,
        )

    def _write(self, dump: LiveDump) -> None:
        if self._dumps is None:
            return
        key = PoolKey(
            instance=self._instance,
            group=dump.pool.group,
            pool=dump.pool.name,
            pool_kind=dump.pool.pool_kind,
            rank=self._rank,
            step=dump.request.step,
        )
        metadata = {**self._metadata, "cause": dump.request.cause}
        dump.write(self._dumps, key=key, metadata=metadata, rope=self._rope)
