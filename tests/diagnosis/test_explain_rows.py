"""The engine: each row explained once, a finding a cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.constants import FailReason
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explain_rows import Explainer, explain_rows
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Hits, Rule
from tests.helpers import corruptions
from tests.helpers.failing import failing
from tests.helpers.worlds import World, fixture_f

RULE = Rule(id="KV999", name="some-rule", severity=Severity.ERROR)
OTHER = replace(RULE, id="KV998")
EVERY_BUFFER = ("k.head", "k.tail", "v.head", "v.tail")


def _overwritten(**options: object) -> World:
    world = fixture_f(**options)
    corruptions.overwrite_slot(world, 7, token=99, position=1, prev_hash=1)
    return world


def _rule(rule: Rule = RULE, **changes: object) -> Explainer:
    """Explains whatever is open at slot 7, launch by launch."""

    def explain(failures: Failures) -> list[Explanation]:
        found = []
        for view in failures.views:
            failed = view.on_rows(np.array([7]))
            reasons = FailReason.VERIFY_CHAIN_HASH_MISMATCH | FailReason.VERIFY_TOKEN_MISMATCH
            found.append(
                Explanation(
                    rule=rule,
                    cause=7,
                    summary="it is so",
                    roots=np.array([7]),
                    failed=failed[np.isin(failed, view.with_open(reasons))],
                    reasons=reasons,
                )
            )
        return [replace(explanation, **changes) for explanation in found]

    return explain


def _findings(world: World, *explainers: Explainer) -> list[Finding]:
    return explain_rows(failing(world), explainers, [])


def test_launches_of_one_cause_are_one_finding_and_successors_count_with_it() -> None:
    (finding,) = _findings(_overwritten(canary=EVERY_BUFFER), _rule())
    assert (finding.slots, finding.request_ids) == ([7], ["B"])
    assert finding.evidence["rows"] == 8
    assert finding.evidence["launches"] == [
        "HEAD_K_FULL", "HEAD_V_FULL", "TAIL_K_FULL", "TAIL_V_FULL",
    ]  # fmt: skip


def test_the_first_rule_takes_the_rows_and_a_later_one_has_no_finding() -> None:
    findings = _findings(_overwritten(), _rule(), _rule(OTHER))
    assert [finding.rule for finding in findings] == ["KV999"]


def test_an_alternative_has_no_severity() -> None:
    (finding,) = _findings(
        _overwritten(),
        _rule(is_alternative=True, alternatives=["KV202"], settled_by="the old owner"),
    )
    assert finding.severity is None
    assert (finding.alternatives, finding.settled_by) == (["KV202"], "the old owner")


def test_rows_that_nobody_explains_have_no_finding() -> None:
    assert not _findings(_overwritten())


def test_what_explains_most_comes_first() -> None:
    world = _overwritten()
    corruptions.wrong_token(world, "A", position=3, token=99)

    def explain(failures: Failures) -> list[Explanation]:
        (view,) = failures.views
        return [
            Explanation(
                rule=RULE,
                cause=row,
                summary="it is so",
                roots=np.array([row]),
                failed=view.on_rows(np.array([row])),
                reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH | FailReason.VERIFY_TOKEN_MISMATCH,
            )
            for row in (5, 7)
        ]

    assert [finding.slots for finding in _findings(world, explain)] == [[7], [5]]


def test_what_the_index_explains_is_no_rules_any_more() -> None:
    evidence = failing(_overwritten())
    alias = replace(RULE, id="KV101").finding(
        evidence, "held twice", hits=Hits(slots=np.array([7]))
    )
    length = replace(RULE, id="KV104").finding(evidence, "too long", hits=Hits(slots=np.array([3])))
    findings = explain_rows(evidence, [_rule()], [alias, length])
    assert [finding.rule for finding in findings] == ["KV101", "KV104"]
    assert findings[0].evidence["rows"] == 2
    assert findings[1] is length


def test_differences_of_columns_count_once_a_slot() -> None:
    world = fixture_f(stamps=("kv.k.0", "kv.v.1"))
    corruptions.overwrite_bytes(world, 7)
    evidence = failing(world)
    columns = dict(evidence.differing)

    def explain(failures: Failures) -> list[Explanation]:
        assert failures.open_columns
        row = np.array([7])
        return [Explanation(rule=RULE, cause=7, summary="so", roots=row, columns=columns)]

    (finding,) = explain_rows(evidence, [explain], [])
    assert finding.evidence == {"num_slots": 1, "rows": 1}


def test_nothing_failed_asks_no_rule() -> None:
    def explain(_: Failures) -> list[Explanation]:
        raise AssertionError

    assert not _findings(fixture_f(), explain)
