"""Read dumps and judge them: an audit, a comparison, one slot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.observer import RunObserver, SilentObserver

if TYPE_CHECKING:
    from kvaudit.core.backend import Backend
    from kvaudit.core.blame_report import BlameReport
    from kvaudit.core.comparison import CompareOptions
    from kvaudit.core.dataset import Dataset
    from kvaudit.core.report import BackendChoice, Report
    from kvaudit.formats.dataset import StrPath


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
    from kvaudit.runner.audit import audit as run_audit

    options = AuditOptions() if options is None else options
    chosen, choice = _chosen(backend, dataset, options)
    return run_audit(
        dataset,
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
    from kvaudit.core.comparison import CompareOptions
    from kvaudit.core.comparison_choices import ComparedContent
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
    from kvaudit.runner.blame import blame as run_blame

    options = AuditOptions() if options is None else options
    chosen, choice = _chosen(backend, dataset, options)
    return run_blame(
        dataset,
        target,
        backend=chosen,
        choice=choice,
        options=options,
        observer=SilentObserver() if observer is None else observer,
    )


def _chosen(backend: str, dataset: Dataset, options: AuditOptions) -> tuple[Backend, BackendChoice]:
    """The backend for an audit of a dataset, and why it."""
    from kvaudit.backends.availability import choose
    from kvaudit.core.job_size import kv_bytes_of, num_entries_of

    return choose(
        backend,
        kv_bytes=0 if options.skip_bytes else kv_bytes_of(dataset.pools),
        num_entries=num_entries_of(dataset.pools),
    )
