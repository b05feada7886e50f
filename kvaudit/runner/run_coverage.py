"""From the pools' counts to the coverage of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kvaudit.constants import LaunchTag
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.column_names import column_layer
from kvaudit.core.coverage import BY_CHAIN, Coverage, Family, FamilyCoverage
from kvaudit.core.report import TagCounters
from kvaudit.core.snapshot import DigestGrain
from kvaudit.diagnosis.registry import INDEX_RULES
from kvaudit.diagnosis.rule import Rule
from kvaudit.runner.pool_audit import PoolResult


def coverage_of(
    results: Sequence[PoolResult], *, options: AuditOptions, rules: Sequence[Rule]
) -> Coverage:
    """The coverage of all pools.

    Args:
        results: the pools.
        options: what the user asked for.
        rules: the rules that ran.
    """
    families = {
        Family.INDEX: _index(results, rules),
        Family.RECORDS: _records(results),
        Family.BYTES: _bytes(results, options),
        Family.IDENTITY: _identity(results),
    }
    return Coverage(
        families=families,
        absent={
            family: _reason(results, why, options)
            for family, why in _WHY_ABSENT.items()
            if (covered := families.get(family)) is None or not covered.due
        },
        disabled_launches=sum(result.records.disabled_launches for result in results),
        slots_pool=sum(result.snapshot.num_slots for result in results),
        slots_planned=sum(result.planned.num_slots for result in results),
        slots_checked=sum(result.counts.slots_checked for result in results),
    )


def tag_counters(results: Sequence[PoolResult]) -> list[TagCounters]:
    """The counters of all pools, one a tag, in tag order."""
    by_tag: dict[str, TagCounters] = {}
    for counters in (counters for result in results for counters in result.records.tags):
        seen = by_tag.get(counters.tag)
        by_tag[counters.tag] = counters if seen is None else _added(seen, counters)
    return sorted(by_tag.values(), key=lambda counters: LaunchTag[counters.tag])


def chain_counters(results: Sequence[PoolResult]) -> list[ChainCounters]:
    """The chains of all pools without expectations, one a tag, in tag order."""
    by_tag: dict[str, Counter[str]] = {}
    for chains in (result.chains for result in results if result.chains is not None):
        for counters in chains.counters:
            counts = counters.to_dict()
            by_tag.setdefault(counts.pop("tag"), Counter()).update(counts)
    return [
        ChainCounters(tag=tag, **by_tag[tag])
        for tag in sorted(by_tag, key=lambda name: LaunchTag[name])
    ]


def _added(one: TagCounters, other: TagCounters) -> TagCounters:
    return TagCounters(
        tag=one.tag,
        kernel_runs=one.kernel_runs + other.kernel_runs,
        slots_run=one.slots_run + other.slots_run,
        checked=one.checked + other.checked,
        violations=one.violations + other.violations,
    )


def _index(results: Sequence[PoolResult], rules: Sequence[Rule]) -> FamilyCoverage | None:
    planned = checked = in_flight = 0
    for result in results:
        entries = result.expectations.sequence_entries
        if entries is not None:
            every = int(entries.num_positions[entries.selected].sum())
            count = every if entries.scope.slots is None else entries.num_entries
            planned += count
            checked += count
            in_flight += int((entries.in_flight & entries.selected).sum())
        for launch in result.expectations.launch_entries:
            planned += launch.num_entries
            checked += launch.num_entries if launch.enabled else 0
    if not planned:
        return None
    left_out = [rule.id for rule in INDEX_RULES if rule not in rules]
    return FamilyCoverage(
        planned=planned,
        checked=0 if len(left_out) == len(INDEX_RULES) else checked,
        details={"sequences_in_flight": in_flight},
        scope=f"({', '.join(left_out)} left out)" if left_out else "",
    )


def _records(results: Sequence[PoolResult]) -> FamilyCoverage | None:
    records = [result.records for result in results]
    planned = sum(part.planned for part in records)
    if not planned:
        return None
    padding = sum(part.skipped_padding for part in records)
    unstamped = sum(part.unstamped for part in records)
    checked = sum(part.checked for part in records)
    by_chain = sum(result.records.checked for result in results if result.chains is not None)
    in_part = by_chain if by_chain < checked else 0
    return FamilyCoverage(
        planned=planned,
        checked=checked,
        excused=padding + unstamped,
        details={
            "skipped_padding": padding,
            "predecessor_unreachable": sum(part.predecessor_unreachable for part in records),
            "not_in_snapshot": sum(part.not_in_snapshot for part in records),
            "unstamped": unstamped,
            BY_CHAIN: by_chain,
        },
        scope=f"({in_part:,} of {checked:,} by chain)" if in_part else "",
        basis="by chain (no expectations)" if by_chain and not in_part else "",
    )


def _bytes(results: Sequence[PoolResult], options: AuditOptions) -> FamilyCoverage | None:
    planned = sum(result.counts.bytes_planned for result in results)
    if not planned:
        return None
    passes = [result.bytes for result in results if result.bytes is not None]
    limits = []
    if options.layers is not None:
        limits.append(f"layers {', '.join(map(str, options.layers))} alone")
    if any(result.snapshot.digest_grain is DigestGrain.PAGE for result in results):
        limits.append("by page")
    return FamilyCoverage(
        planned=planned,
        checked=sum(result.counts.bytes_checked for result in results),
        details={
            "columns_unstamped": sum(len(part.unstamped) for part in passes),
            "columns_absent": sum(len(part.absent) for part in passes),
        },
        scope=f"({', '.join(limits)})" if limits else "",
    )


def _identity(results: Sequence[PoolResult]) -> FamilyCoverage | None:
    parts = [result.identity for result in results if result.identity.planned]
    if not parts:
        return None
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    limits = [f"{len(parts)} of {len(results)} pools"] if len(parts) < len(results) else []
    if by_dump := counts["by_repetition"]:
        limits.append("by repetition" if not counts["by_table"] else f"{by_dump:,} by repetition")
    return FamilyCoverage(
        planned=sum(part.planned for part in parts),
        checked=sum(part.checked for part in parts),
        details=dict(counts),
        scope=f"({', '.join(limits)})" if limits else "",
    )


def _reason(
    results: Sequence[PoolResult],
    why: Callable[[PoolResult, AuditOptions], str],
    options: AuditOptions,
) -> str:
    """Why no pool has anything of a family, each different reason once."""
    return ", ".join(dict.fromkeys(why(result, options) for result in results))


def _why_no_index(result: PoolResult, options: AuditOptions) -> str:
    if not result.expectations.sources:
        return "no expectations"
    return "nothing in scope" if options.request_ids or options.slots else "no entries"


def _why_no_slot(result: PoolResult, options: AuditOptions) -> str:
    """Why neither an expectation nor a record names a slot to judge."""
    if result.chains is None:
        return _why_no_index(result, options)
    if options.request_ids or options.slots:
        return "nothing in scope"
    held = any(counters.records for counters in result.chains.counters)
    return "free slots alone" if held else "not stamped"


def _why_no_records(result: PoolResult, options: AuditOptions) -> str:
    if not result.snapshot.canary:
        return "no canary"
    if not result.records.planned:
        return _why_no_slot(result, options)
    return "not stamped" if result.records.unstamped else "padding alone"


def _why_no_bytes(result: PoolResult, options: AuditOptions) -> str:
    snapshot, passed, layers = result.snapshot, result.bytes, options.layers
    if passed is None:
        return "left out"
    stamped = {*snapshot.stamped, *snapshot.stamped_columns}
    left_out = layers is not None and any(column_layer(name) not in layers for name in stamped)
    never = passed.zero_stamps or result.records.unstamped_columns or result.records.unstamped
    reasons = (
        (not snapshot.kv and not snapshot.digests, "no bytes"),
        (not stamped, "not stamped"),
        (not result.planned.num_slots, _why_no_slot(result, options)),
        (bool(passed.absent), "a column is absent"),
        (left_out, "nothing in scope"),
        (bool(never), "not stamped"),
        (True, "no launch covers it"),
    )
    return next(words for holds, words in reasons if holds)


def _why_no_identity(result: PoolResult, _options: AuditOptions) -> str:
    return result.identity.not_applicable


_WHY_ABSENT = {
    Family.INDEX: _why_no_index,
    Family.RECORDS: _why_no_records,
    Family.BYTES: _why_no_bytes,
    Family.IDENTITY: _why_no_identity,
}
