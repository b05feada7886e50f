"""Whose pools a recorder's files are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvaudit.capture.arguments import integer, schema_metadata, text
from kvaudit.capture.content import Grain
from kvaudit.capture.dump import sequences_path, write_pair
from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.rope_metadata import RopeSource, rope_metadata
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.pairing_key import file_stem


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpIdentity:
    """What the files of one engine have in common.

    Fields:
        instance: the engine process, such as "decode-0"; None when not given.
        rank: the rank that owns the pools; None when not given.
        metadata: further schema metadata of every file.
        rope: schema metadata of every snapshot, on how the model rotates K.
    """

    instance: str | None = None
    rank: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    rope: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        *,
        instance: str | None,
        rank: int | None,
        metadata: Mapping[str, str] | None,
        rope: RopeSource | None,
    ) -> DumpIdentity:
        """An identity from what a caller gave.

        Raises:
            ConfigError: an argument is none that a file can hold; the message names it.
        """
        return cls(
            instance=None if instance is None else text(instance, "instance"),
            rank=None if rank is None else integer(rank, "rank", at_least=0),
            metadata=schema_metadata(metadata),
            rope=rope_metadata(rope),
        )

    def key(self, pool: RecordedPool, *, step: int) -> PoolKey:
        """The pairing key of a pool's files at a step."""
        return PoolKey(
            instance=self.instance,
            group=pool.group,
            pool=pool.name,
            pool_kind=pool.pool_kind,
            rank=self.rank,
            step=step,
        )

    def write(
        self, directory: str | Path, pool_dump: PoolDump, digest_grain: Grain
    ) -> tuple[Path, Path]:
        """Write a pool's snapshot and its sequences into a folder; gives both files.

        Raises:
            FileUnwritable: a file or its folder cannot be written.
        """
        dumped = pool_dump.by_page() if digest_grain == "page" else pool_dump
        stem = Path(directory) / file_stem(dumped.snapshot.key)
        metadata = {
            **self.metadata,
            **self.rope,
            "sequences": sequences_path(stem).name,
        }
        return write_pair(
            stem,
            snapshot=replace(dumped.snapshot, metadata=metadata),
            sequences=dumped.sequences,
        )
