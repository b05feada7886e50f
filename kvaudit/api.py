"""The public functions: what the commands call, and what a program may call instead.

Importing this module loads neither numba nor pyarrow: each function imports what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.observer import RunObserver, SilentObserver

if TYPE_CHECKING:
    from kvaudit.bench.options import BenchOptions
    from kvaudit.core.bench_report import BenchReport
    from kvaudit.core.blame_report import BlameReport
    from kvaudit.core.comparison import CompareOptions
    from kvaudit.core.dataset import Dataset
    from kvaudit.core.layer0_table import Layer0Table
    from kvaudit.core.layout import SlotRanges
    from kvaudit.core.recorded_run import RecordedRun
    from kvaudit.core.report import Report
    from kvaudit.runner.inject import Injection

__all__ = [
    "audit",
    "bench",
    "blame",
    "compare",
    "inject",
    "learn",
    "learn_model",
    "open",
    "open_run",
    "replay",
    "stamp",
]

StrPath = str | os.PathLike[str]

# The record of an injected fault, beside the copies.
INJECTION_RECORD = "injection.json"


def open(paths: Iterable[StrPath], *, expect: Iterable[StrPath] = ()) -> Dataset:  # noqa: A001 - `api.open` reads as what it does
    """Read snapshots with what they should hold.

    Of several pools, one whose own files cannot be used is left out; `Dataset.left_out` says why.

    Args:
        paths: snapshots, their sequences and plans, or folders of them.
        expect: sequences or plans that replace the search for companions.

    Raises:
        InputError: there is no snapshot among them, or no pool can be audited.
    """
    from kvaudit.formats.dataset import open_dataset

    return open_dataset(paths, expect=expect)


def audit(
    dataset: Dataset,
    *,
    backend: str = "auto",
    options: AuditOptions | None = None,
    observer: RunObserver | None = None,
) -> Report:
    """Check every pool of a dataset against its expectations, or for want of any, by its chains.

    Of several pools, one that turns out corrupt is left out; `Report.left_out` says why.

    Args:
        dataset: what `open` returned.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        options: scope, demands and limits; None = the defaults.
        observer: told of progress; None = nobody.

    Raises:
        InputError: no pool can be audited: a file is corrupt, or its parts contradict each other.
        BackendError: a demanded backend cannot run, or failed while it ran.
        ConfigError: the options name a request, a layer or a rule that does not exist.
        SelfCheckFailed: the backend missed a planted bad entry: nothing of the run can be trusted.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of, num_entries_of
    from kvaudit.runner.audit import audit as run_audit

    options = AuditOptions() if options is None else options
    chosen, choice = choose(
        backend,
        kv_bytes=0 if options.skip_bytes else kv_bytes_of(dataset.pools),
        num_entries=num_entries_of(dataset.pools),
    )
    return run_audit(
        dataset,
        backend=chosen,
        choice=choice,
        options=options,
        observer=SilentObserver() if observer is None else observer,
    )


def blame(
    dataset: Dataset,
    target: str,
    *,
    backend: str = "auto",
    options: AuditOptions | None = None,
    observer: RunObserver | None = None,
) -> BlameReport:
    """Gather everything that is known of one slot, with what an audit of its pool finds there.

    Args:
        dataset: what `open` returned, of one pool.
        target: a slot in the engine's numbering, as `873`, or a request and a position, as `tale@9`.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        options: whether the audit that gives the findings reads the pool's KV bytes (the slot's own
            are compared all the same), and what it judges layer 0 by; nothing else of it is used.
            None = the defaults.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a file of the pool cannot be used.
        ConfigError: there is more than one pool, no such request or position, or no such slot in
            the snapshot.
        BackendError: a demanded backend cannot run, or failed while it ran.
        SelfCheckFailed: the backend missed a planted bad entry: nothing of the run can be trusted.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of, num_entries_of
    from kvaudit.runner.blame import blame as run_blame

    options = AuditOptions() if options is None else options
    chosen, choice = choose(
        backend,
        kv_bytes=0 if options.skip_bytes else kv_bytes_of(dataset.pools),
        num_entries=num_entries_of(dataset.pools),
    )
    return run_blame(
        dataset,
        target,
        backend=chosen,
        choice=choice,
        options=options,
        observer=SilentObserver() if observer is None else observer,
    )


def compare(
    datasets: Sequence[Dataset],
    *,
    backend: str = "auto",
    options: CompareOptions | None = None,
    observer: RunObserver | None = None,
) -> Report:
    """Compare dumps of the same pools: each with the one before it, the first taken for right.

    Of several pools, one whose files cannot be used is left out; `Report.left_out` says why.

    Args:
        datasets: two or three of what `open` returned.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        options: how slots are matched, what of them is compared, demands and limits; None = the
            defaults.
        observer: told of progress; None = nobody.

    Raises:
        InputError: no pool can be compared: a file is corrupt, or the dumps differ in geometry.
        BackendError: a demanded backend cannot run, or failed while it ran.
        ConfigError: there are not two or three datasets, one of them has a pool twice, or the
            options name a request, a layer or a rule that does not exist.
        SelfCheckFailed: the backend missed a planted bad entry: nothing of the run can be trusted.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.comparison import ComparedContent, CompareOptions
    from kvaudit.core.job_size import kv_bytes_of
    from kvaudit.runner.compare import compare as run_compare

    options = CompareOptions() if options is None else options
    folds = options.content is not ComparedContent.DIGESTS and not options.audit.skip_bytes
    pools = [pool for dataset in datasets for pool in dataset.pools]
    chosen, choice = choose(backend, kv_bytes=kv_bytes_of(pools) if folds else 0, num_entries=0)
    return run_compare(
        datasets,
        backend=chosen,
        choice=choice,
        options=options,
        observer=SilentObserver() if observer is None else observer,
    )


def learn(
    dataset: Dataset,
    *,
    backend: str = "auto",
    observer: RunObserver | None = None,
) -> Layer0Table:
    """Learn what layer 0 holds of each token from dumps: what most slots of a token hold.

    Args:
        dataset: what `open` returned: dumps of one model and rank, with the bytes of layer 0.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a file is corrupt, has no layer-0 V or no tokens, or rows of one token differ.
        BackendError: a demanded backend cannot run, or failed while it ran.
    """
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of
    from kvaudit.runner.learn import learnt_table

    if dataset.left_out:
        raise dataset.left_out[0]
    chosen, _ = choose(backend, kv_bytes=kv_bytes_of(dataset.pools), num_entries=0)
    return learnt_table(
        dataset.pools,
        backend=chosen,
        observer=SilentObserver() if observer is None else observer,
    )


def learn_model(
    path: StrPath,
    *,
    dtype: str | None = None,
    max_length: int | None = None,
    observer: RunObserver | None = None,
) -> Layer0Table:
    """Learn what layer 0 holds of each token from a model's weights, without a forward pass.

    Args:
        path: the model's folder with `config.json` and safetensors, or a `.gguf` file.
        dtype: the type that the engine computes in, `float32`, `float16` or `bfloat16`; None = that
            of the weights.
        max_length: the longest sequence that the engine allows, in tokens, by which some rotations
            scale; None = not known.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a file is missing or damaged, or layer 0 of this model is no function of token
            and position: `ModelNotApplicable`, with the reason.
        BackendNotInstalled: a .gguf file needs the extra `models`.
        ConfigError: dtype is none of these.
    """
    from kvaudit.importers.model_weights import model_table

    return model_table(os.fspath(path), dtype=dtype, longest=max_length, observer=observer)


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


def open_run(
    trace: StrPath,
    *,
    start: StrPath | None = None,
    against: StrPath | None = None,
    until: int | None = None,
) -> RecordedRun:
    """Open a recorded run: a trace with the snapshots and the state of its pool.

    Args:
        trace: the trace, or the folder of a run that has one.
        start: the snapshot to begin with; None = the run's first.
        against: the snapshot to end with; None = the run's own end.
        until: the last step to replay; None = the trace's.

    Raises:
        InputError: a file cannot be used, or there is no snapshot to begin with.
    """
    from kvaudit.formats.run_files import open_run as open_files

    return open_files(trace, start=start, against=against, until=until)


def replay(
    run: RecordedRun,
    *,
    backend: str = "auto",
    options: AuditOptions | None = None,
    environ: Mapping[str, str] | None = None,
    observer: RunObserver | None = None,
) -> Report:
    """Run a recorded run again from its trace, and hold it against its snapshots.

    The lines of statistics go to the logger `kvaudit.runner.live`, as beside an engine.

    Args:
        run: what `open_run` returned.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        options: demands and limits; its scope is not used. None = the defaults.
        environ: the canary's configuration, as `CanaryConfig.from_env` reads it; None = its defaults.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a row of the trace or a snapshot cannot be used.
        BackendError: a demanded backend cannot run, torch is missing, or the device failed.
        ConfigError: the options name a rule that does not exist, or a variable cannot be understood.
        SelfCheckFailed: the backend missed a planted bad entry: nothing of the run can be trusted.
    """
    from kvaudit.runner.live.config import CanaryConfig
    from kvaudit.runner.replay import ReplayOptions, choose_place, replay_run

    config = CanaryConfig.from_env({} if environ is None else environ)
    chosen, choice, place = choose_place(backend)
    return replay_run(
        run,
        backend=chosen,
        choice=choice,
        place=place,
        options=ReplayOptions(audit=AuditOptions() if options is None else options, config=config),
        observer=SilentObserver() if observer is None else observer,
    )


def bench(
    options: BenchOptions, *, backend: str = "auto", observer: RunObserver | None = None
) -> BenchReport:
    """Measure the kernels, and jobs as users run them; each row is proved before it is timed.

    Args:
        options: operations, sizes and the shape of the pool.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        observer: told of progress; None = nobody.

    Raises:
        ConfigError: the sizes do not fit this machine, or nothing is left to measure.
        BackendError: a demanded backend cannot run, torch is missing, or the device failed.
        InputError: the temporary folder cannot be written to.
        ProofFailed: two implementations disagree on an input that was to be timed.
    """
    from kvaudit.backends.cuda_device import numba_imports_translated

    with numba_imports_translated():
        from kvaudit.bench.run import run_bench

    def audit_files(
        paths: Sequence[Path], *, backend: str, slots: SlotRanges | None = None
    ) -> Report:
        return audit(open(paths), backend=backend, options=AuditOptions(slots=slots))

    return run_bench(
        options,
        backend=backend,
        audit_files=audit_files,
        observer=SilentObserver() if observer is None else observer,
    )
