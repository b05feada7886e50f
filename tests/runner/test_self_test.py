from __future__ import annotations

import pytest

from kvaudit.backends.availability import choose
from kvaudit.diagnosis import registry
from kvaudit.diagnosis.rule import Hits
from kvaudit.runner.inject import FAULT_CLASSES
from kvaudit.runner.self_test import SelfTestRow, self_test
from kvaudit.runner.self_test_comparisons import DIVERGENCE_CLASSES
from tests.helpers.watcher import Watcher

CLASSES = (*FAULT_CLASSES, *DIVERGENCE_CLASSES)


def _tested() -> list[SelfTestRow]:
    backend, choice = choose("cpu", kv_bytes=0, num_entries=0)
    return self_test(backend, choice, observer=Watcher())


def test_this_installation_finds_every_class() -> None:
    rows = _tested()
    assert [row.fault for row in rows] == list(CLASSES)
    assert {row.problem for row in rows} == {""}
    assert {row.to_dict()["result"] for row in rows} == {"OK"}


@pytest.mark.parametrize("rule_id", [fault.rule for fault in CLASSES])
def test_without_any_one_rule_it_fails_and_says_what_an_audit_names_instead(
    rule_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rules in ("FINDERS", "EXPLAINERS", "IDENTITY_FINDERS", "COMPARERS"):
        kept = {rule: how for rule, how in getattr(registry, rules).items() if rule.id != rule_id}
        monkeypatch.setattr(registry, rules, kept)
    failed = {row.fault.rule: row for row in _tested() if row.problem}
    assert rule_id in failed
    assert failed[rule_id].to_dict()["result"].startswith("FAILED: with seed ")


def test_a_rule_that_cries_wolf_fails_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    alias = next(rule for rule in registry.FINDERS if rule.id == "KV101")

    def always(evidence: object) -> list[object]:
        return [alias.finding(evidence, "slot 1 has two owners", hits=Hits())]

    monkeypatch.setattr(registry, "FINDERS", {**registry.FINDERS, alias: always})
    audited = [row for row in _tested() if row.fault in FAULT_CLASSES]
    assert {row.problem for row in audited} == {"the clean pool has KV101"}
