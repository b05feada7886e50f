"""All rules, and which of them a user asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kvaudit.core.comparison_evidence import LegEvidence
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding, RuleGroup, group_of
from kvaudit.core.severity import Severity
from kvaudit.diagnosis import (
    broken_link,
    bytes_changed,
    bytes_permuted,
    canary_bit_flip,
    content_not_of_position,
    content_not_of_token,
    double_free,
    foreign_content,
    kernel_stalled,
    kv_bit_flip,
    late_writer,
    launch_disabled,
    length_mismatch,
    live_slot_free,
    nan_inf,
    not_arrived,
    not_covered,
    page_permutation,
    position_shift,
    rank_divergence,
    record_missing,
    refcount_mismatch,
    replay_divergence,
    reserved_slot_poisoned,
    ring_overflow,
    sentinel_write,
    side_buffer_stale,
    slot_alias,
    slot_out_of_range,
    slot_shift,
    swa_map_stale,
    token_mismatch,
    torn_row,
    transfer_divergence,
    undeclared_offset,
    unstamped,
    violations_growing,
    wrong_layout,
    zero_tail,
)
from kvaudit.diagnosis.explain_rows import Explainer, explain_rows
from kvaudit.diagnosis.rule import Rule
from kvaudit.errors import ConfigError

# What finds its fault by itself, whatever failed.
FINDERS: Final[Mapping[Rule, Callable[[PoolEvidence], list[Finding]]]] = {
    module.RULE: module.find
    for module in (
        not_covered,
        launch_disabled,
        kernel_stalled,
        unstamped,
        ring_overflow,
        slot_alias,
        slot_out_of_range,
        broken_link,
        length_mismatch,
        swa_map_stale,
        live_slot_free,
        double_free,
        refcount_mismatch,
        replay_divergence,
        nan_inf,
        reserved_slot_poisoned,
    )
}

# What explains failed rows, in the order in which they are asked: what is proved from the rows
# alone comes before what is concluded from what else there is.
EXPLAINERS: Final[Mapping[Rule, Explainer]] = {
    module.RULE: module.explain
    for module in (
        undeclared_offset,
        canary_bit_flip,
        kv_bit_flip,
        wrong_layout,
        page_permutation,
        slot_shift,
        record_missing,
        not_arrived,
        zero_tail,
        foreign_content,
        late_writer,
        position_shift,
        token_mismatch,
        bytes_permuted,
        nan_inf,
        side_buffer_stale,
        torn_row,
        sentinel_write,
        bytes_changed,
    )
}

# What finds content without a stamp, and looks only at rows that nothing above explains.
IDENTITY_FINDERS: Final[Mapping[Rule, Callable[[PoolEvidence], list[Finding]]]] = {
    module.RULE: module.find for module in (content_not_of_token, content_not_of_position)
}

# What looks at two dumps of one pool.
COMPARERS: Final[Mapping[Rule, Callable[[LegEvidence], list[Finding]]]] = {
    module.RULE: module.find
    for module in (rank_divergence, transfer_divergence, violations_growing)
}

RULES: Final = tuple(
    sorted({*FINDERS, *EXPLAINERS, *IDENTITY_FINDERS, *COMPARERS}, key=lambda rule: rule.id)
)

# What speaks of the content of a slot: identity speaks of no row that these explain.
_OF_CONTENT: Final = (RuleGroup.IDENTITY, RuleGroup.BYTES)

# What covers the index family: it is checked as far as one of these runs.
INDEX_RULES: Final = tuple(rule for rule in RULES if group_of(rule.id) is RuleGroup.INDEX)


def chosen_rules(select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that ids or prefixes, such as `KV101` or `KV1`, choose.

    Args:
        select: rules to run; empty = all.
        ignore: rules to leave out, stronger than select.

    Raises:
        ConfigError: an id or prefix names no rule.
    """
    for prefix in (*select, *ignore):
        if not any(_matches(rule, prefix) for rule in RULES):
            raise ConfigError(
                f"{prefix!r} names no rule",
                hint=f"the rules are {', '.join(rule.id for rule in RULES)}; a prefix such as KV1 works",
            )
    return tuple(
        rule
        for rule in RULES
        if (not select or any(_matches(rule, prefix) for prefix in select))
        and not any(_matches(rule, prefix) for prefix in ignore)
    )


def diagnose(evidence: PoolEvidence, rules: Sequence[Rule]) -> list[Finding]:
    """The findings of the rules: in rule order, then what explains failed rows, most rows first."""
    found = [finding for rule in rules if rule in FINDERS for finding in FINDERS[rule](evidence)]
    found = explain_rows(evidence, [e for rule, e in EXPLAINERS.items() if rule in rules], found)
    left = _not_explained(evidence, found)
    finders = [find for rule, find in IDENTITY_FINDERS.items() if rule in rules]
    return found + [finding for find in finders for finding in find(left)]


def _not_explained(evidence: PoolEvidence, findings: Sequence[Finding]) -> PoolEvidence:
    """The pool, its layer-0 rows without those whose content an error already explains."""
    if evidence.identity is None:
        return evidence
    slots = [
        slot
        for finding in findings
        if finding.severity is Severity.ERROR and group_of(finding.rule) in _OF_CONTENT
        for slot in finding.slots
    ]
    rows = evidence.snapshot.rows_of(np.unique(np.array(slots, dtype=np.int64)))
    return replace(evidence, identity=evidence.identity.without_rows(rows))


def diagnose_leg(evidence: LegEvidence, rules: Sequence[Rule]) -> list[Finding]:
    """What the rules of comparison find between two dumps, in rule order."""
    return [finding for rule in rules if rule in COMPARERS for finding in COMPARERS[rule](evidence)]


def _matches(rule: Rule, prefix: str) -> bool:
    return bool(prefix) and (rule.id.startswith(prefix.upper()) or rule.name == prefix)
