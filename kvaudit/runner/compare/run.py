"""The comparison: two or three sets of dumps in, a Report out."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kvaudit.core.backend import Backend
from kvaudit.core.column_names import column_layer
from kvaudit.core.comparison import CompareOptions
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.observer import RunObserver
from kvaudit.core.report import BackendChoice, Report
from kvaudit.diagnosis.registry import chosen_rules
from kvaudit.errors import ConfigError, InputError
from kvaudit.runner.compare.leg import LegResult
from kvaudit.runner.compare.legs import paired_pools
from kvaudit.runner.compare.pool import PoolComparison
from kvaudit.runner.compare.report import Outcome, report_of
from kvaudit.runner.self_check import prepare


def compare(
    datasets: Sequence[Dataset],
    *,
    backend: Backend,
    choice: BackendChoice,
    options: CompareOptions,
    observer: RunObserver,
) -> Report:
    """Compare every pool of the first set with that of the second, and that one with the third.

    Of several pools, one whose files turn out corrupt, or of another geometry, is left out and named.

    Args:
        datasets: two or three sets of dumps.
        backend: what computes.
        choice: which backend that is, and why.
        options: how to match, and what an audit may be asked for.
        observer: told of progress.

    Raises:
        InputError: no pool can be compared.
        BackendError: the backend failed while it ran.
        ConfigError: the options name a request, a layer or a rule that does not exist.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    rules = chosen_rules(options.audit.select, options.audit.ignore)
    paired = paired_pools(datasets)
    every = [pool for pools in paired.pools for pool in pools]
    _check_requests(options.audit.request_ids, every)
    _check_layers(options.audit.layers, every)
    passed = prepare(backend, observer)
    started = time.perf_counter()
    legs: list[LegResult] = []
    unusable: list[InputError] = []
    for pools in paired.pools:
        comparison = PoolComparison(
            pools=pools,
            beside=[dataset.pools for dataset in datasets],
            backend=backend,
            options=options,
            rules=rules,
            observer=observer,
        )
        try:
            legs += comparison.run()
        except InputError as error:
            unusable.append(error)
    if unusable and not legs:
        raise unusable[0]
    left_out = [error for dataset in datasets for error in dataset.left_out]
    return report_of(
        Outcome(legs=legs, left_out=[*left_out, *unusable], alone=paired.alone),
        datasets=datasets,
        choice=choice,
        options=options.audit,
        self_check=passed,
        started=started,
    )


def _check_requests(request_ids: Sequence[str], pools: Sequence[AuditedPool]) -> None:
    """Refuse a request that no dump's sequences name: nothing of it could be compared."""
    known = {name for pool in pools for part in pool.sequences for name in part.request_ids}
    for name in request_ids:
        if name not in known:
            raise ConfigError(
                f"no sequences name request {name!r}",
                hint="give the sequences of the dumps beside them, and one of their requests",
            )


def _check_layers(layers: Sequence[int] | None, pools: Sequence[AuditedPool]) -> None:
    """Refuse a layer that no dump has: nothing of it could be compared."""
    known = {
        column_layer(name) for pool in pools for name in (*pool.snapshot.kv, *pool.snapshot.digests)
    }
    for layer in layers or ():
        if layer not in known:
            raise ConfigError(
                f"no dump has layer {layer}", hint="name one that `kvaudit show` lists"
            )
