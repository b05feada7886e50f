"""Copies of dumps: stamped ones, and damaged ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvaudit.core.observer import RunObserver, SilentObserver

if TYPE_CHECKING:
    from kvaudit.core.dataset import Dataset
    from kvaudit.formats.dataset import StrPath
    from kvaudit.runner.inject import Injection

# The record of an injected fault, beside the copies.
INJECTION_RECORD: Final = "injection.json"


def stamp(
    dataset: Dataset,
    *,
    folder: StrPath,
    backend: str = "auto",
    combined: Sequence[str] = (),
    observer: RunObserver | None = None,
) -> list[Path]:
    """Write stamped copies of a dataset's snapshots, with their expectations beside them.

    It certifies what is there now: damage from before reads clean afterwards.

    Args:
        dataset: what `open` returned.
        folder: where the copies go; made if missing. No input is written to.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        combined: KV columns, in fold order, that the records' real_kv_hash shall cover.
        observer: told of progress; None = nobody.

    Returns:
        the files written.

    Raises:
        InputError: a file cannot be used, nothing says what a snapshot should hold, or a copy cannot
            be written.
        ConfigError: two files would get one name, or a copy would replace an input.
        BackendError: a demanded backend cannot run, or failed while it ran.
        SelfCheckFailed: the backend missed a planted bad entry; nothing is written.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of
    from kvaudit.formats.pool_copies import copy_targets, write_copies
    from kvaudit.runner.self_check import prepare
    from kvaudit.runner.stamp import stamp as run_stamp

    if dataset.left_out:
        raise dataset.left_out[0]
    observer = SilentObserver() if observer is None else observer
    chosen, _ = choose(backend, kv_bytes=kv_bytes_of(dataset.pools), num_entries=0)
    prepare(chosen, observer, writes=True)
    targets = copy_targets(dataset.pools, Path(folder))
    observer.stage("stamp", len(targets))
    for pool in dataset.pools:
        stamped = run_stamp(pool, backend=chosen, combined=combined)
        write_copies(targets, replace(pool, snapshot=stamped), observer=observer)
    return list(targets.values())


def inject(dataset: Dataset, fault: str, *, folder: StrPath, seed: int = 0) -> Injection:
    """Put a fault into copies of one pool's files, with a record of it, `injection.json`, beside them.

    The digests of the copies' chunks are right: the damage is the engine's, not the file's.

    Args:
        dataset: what `open` returned, of one pool.
        fault: a fault class, with where it goes: `late-writer:request=A,position=7`.
        folder: where the copies go; made if missing. No input is written to.
        seed: chooses what was not asked for; the same seed gives the same damage.

    Raises:
        InputError: a file cannot be used, or a copy cannot be written.
        ConfigError: there is no such class, this pool cannot show it, there is more than one pool,
            two files would get one name, or a copy would replace an input.
    """
    import json

    from kvaudit.errors import ConfigError
    from kvaudit.formats.atomic_file import atomic_file
    from kvaudit.formats.pool_copies import copy_targets, write_copies
    from kvaudit.runner.inject import inject as run_inject

    if dataset.left_out:
        raise dataset.left_out[0]
    if len(dataset.pools) != 1:
        raise ConfigError(
            f"a fault goes into one pool, not into {len(dataset.pools)}", hint="name one snapshot"
        )
    injection = run_inject(dataset.pools[0], fault, seed=seed)
    for column in dataset.pools[0].snapshot.kv.values():
        for window in column.windows():
            window.check()
    targets = copy_targets(dataset.pools, Path(folder))
    write_copies(targets, injection.pool, observer=SilentObserver())
    files = [path.name for path in targets.values()]
    with atomic_file(Path(folder) / INJECTION_RECORD) as file:
        file.write(json.dumps({**injection.to_dict(), "files": files}, indent=2).encode() + b"\n")
    return injection
