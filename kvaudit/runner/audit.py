"""The audit: pools with expectations in, a Report out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import column_layer
from kvaudit.core.dataset import Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.given_away import given_away_from
from kvaudit.core.observer import RunObserver
from kvaudit.core.report import BackendChoice, InputFile, Report, Timing
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.diagnosis.pool_groups import grouped_findings
from kvaudit.diagnosis.registry import chosen_rules
from kvaudit.diagnosis.rule import Rule
from kvaudit.errors import ConfigError, InputError
from kvaudit.runner.expectations import Expectations, expectations_of, scope_of, swa_pool_of
from kvaudit.runner.pool_audit import PoolAudit, PoolResult
from kvaudit.runner.pool_spread import device_label, judge_pools, prepare_all
from kvaudit.runner.run_coverage import chain_counters, coverage_of, tag_counters
from kvaudit.runner.verdict import conclude

# Requests or layers an error message lists.
_MAX_NAMED = 10


def audit(
    dataset: Dataset,
    *,
    backend: Backend,
    choice: BackendChoice,
    options: AuditOptions,
    observer: RunObserver,
) -> Report:
    """Judge every pool of a dataset by its own expectations, or for want of any, by its chains.

    Of several pools, one that turns out corrupt is left out and named.

    Args:
        dataset: the pools.
        backend: what computes; several pools are spread over the devices that it knows of.
        choice: which backend that is, and why.
        options: scope, demands and limits.
        observer: told of progress.

    Raises:
        InputError: no pool can be audited: a file is corrupt, or its parts contradict each other.
        BackendError: the backend failed while it ran.
        ConfigError: the options name a request, a layer or a rule that does not exist.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    rules = chosen_rules(options.select, options.ignore)
    scope = scope_of(options)
    expectations = [expectations_of(pool, scope) for pool in dataset.pools]
    if not dataset.left_out:
        check_requests(options.request_ids, expectations)
        _check_layers(options.layers, dataset)
    backends = backend.spread(len(dataset.pools))
    passed = prepare_all(backends, observer)
    started = time.perf_counter()
    audits = [
        PoolAudit(
            pool=pool,
            expectations=expected,
            swa_pool=swa_pool_of(pool, dataset.pools),
            earlier=given_away_from(pool.snapshot.key, dataset.pools),
            backend=backend,
            options=options,
            rules=rules,
            observer=observer,
        )
        for pool, expected in zip(dataset.pools, expectations, strict=True)
    ]
    results: list[PoolResult] = []
    corrupt: list[tuple[Snapshot, InputError]] = []
    judged = judge_pools(audits, backends=backends, observer=observer)
    for pool, result in zip(dataset.pools, judged, strict=True):
        if isinstance(result, InputError):
            corrupt.append((pool.snapshot, result))
        else:
            results.append(result)
    if corrupt and not results:
        raise corrupt[0][1]
    return _report(
        dataset,
        results,
        corrupt=corrupt,
        choice=replace(
            choice,
            device=device_label(backends),
            device_bytes=sum(each.device_bytes for each in backends),
        ),
        options=options,
        rules=rules,
        self_check=passed,
        started=started,
    )


def _report(
    dataset: Dataset,
    results: Sequence[PoolResult],
    *,
    corrupt: Sequence[tuple[Snapshot, InputError]],
    choice: BackendChoice,
    options: AuditOptions,
    rules: Sequence[Rule],
    self_check: str,
    started: float,
) -> Report:
    """The pools' results as one report."""
    findings = _sorted_findings(results)
    coverage = coverage_of(results, options=options, rules=rules)
    left_out = [*dataset.left_out, *(error for _, error in corrupt)]
    conclusion = conclude(results, coverage, findings=findings, options=options, left_out=left_out)
    rows = sorted((row for r in results for row in r.violations), key=lambda row: row.sort_key())
    return Report(
        verdict=conclusion.verdict,
        exit_code=conclusion.exit_code,
        inputs=_inputs(dataset.files, results, corrupt),
        backend=choice,
        self_check=self_check,
        coverage=coverage,
        tags=tag_counters(results),
        chains=chain_counters(results),
        violations_total=sum(result.violations_total for result in results),
        violations=rows[: options.max_violations],
        findings=findings,
        page_sizes={r.snapshot.key: r.snapshot.page_size for r in results},
        paged_pools=frozenset(
            r.snapshot.key for r in results if r.snapshot.digest_grain is DigestGrain.PAGE
        ),
        incomplete_reasons=conclusion.incomplete_reasons,
        left_out=left_out,
        timing=Timing(
            seconds=time.perf_counter() - started,
            kv_bytes=sum(r.bytes.kv_bytes for r in results if r.bytes is not None),
        ),
    )


def check_requests(request_ids: Sequence[str], expectations: Sequence[Expectations]) -> None:
    """Refuse a request that no expectation names: nothing of it could be judged."""
    if not request_ids:
        return
    known = set().union(*(expected.request_ids() for expected in expectations))
    for name in request_ids:
        if name not in known:
            hint = "no expectation names requests"
            if known:
                hint = f"the expectations name {_some(known)}"
            raise ConfigError(f"no expectation names request {name!r}", hint=hint)


def _check_layers(layers: Sequence[int] | None, dataset: Dataset) -> None:
    """Refuse a layer that no pool has: nothing of it could be judged."""
    snapshots = [pool.snapshot for pool in dataset.pools]
    known = {
        layer
        for snapshot in snapshots
        for name in (*snapshot.kv, *snapshot.digests, *snapshot.stamped)
        if (layer := column_layer(name)) is not None
    }
    for layer in layers or ():
        if layer not in known:
            hint = f"the layers are {_some(known)}" if known else "no pool has KV columns"
            raise ConfigError(f"no pool has layer {layer}", hint=hint)


def _some(values: set[str] | set[int]) -> str:
    """The first of them, for a hint."""
    first = sorted(values)
    more = " and others" if len(first) > _MAX_NAMED else ""
    return ", ".join(map(str, first[:_MAX_NAMED])) + more


def _sorted_findings(results: Sequence[PoolResult]) -> list[Finding]:
    """Errors first, then warnings, notes and alternatives; else in pool and rule order."""
    findings = grouped_findings([found for result in results for found in result.findings])
    return sorted(findings, key=lambda f: 1 if f.severity is None else -f.severity.rank)


def _inputs(
    files: Sequence[InputFile],
    results: Sequence[PoolResult],
    corrupt: Sequence[tuple[Snapshot, InputError]],
) -> list[InputFile]:
    """The files, with what the run has to say of them."""
    notes: dict[str, str] = {}
    for result in results:
        notes.update(result.expectations.notes)
    for snapshot, error in corrupt:
        notes[snapshot.path] = error.left_out_note(snapshot.path)
    return [
        replace(file, notes=(*file.notes, notes[file.path])) if file.path in notes else file
        for file in files
    ]
