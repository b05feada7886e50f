from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.backends.availability import choose
from kvaudit.diagnosis import registry
from kvaudit.diagnosis.rule import Hits
from kvaudit.runner.self_test_comparisons import (
    DIVERGENCE_CLASSES,
    DivergenceClass,
    divergence_problem,
)
from kvaudit.runner.self_test_pools import self_test_pools


def _problem(divergence: DivergenceClass) -> str:
    backend, choice = choose("cpu", kv_bytes=0, num_entries=0)
    pool = self_test_pools(backend)["layers"]
    return divergence_problem(pool, divergence, seeds=range(5), backend=backend, choice=choice)


@pytest.mark.parametrize("divergence", DIVERGENCE_CLASSES, ids=lambda each: each.rule)
def test_every_copy_that_parts_is_found_at_every_place(divergence: DivergenceClass) -> None:
    assert _problem(divergence) == ""


def test_the_classes_have_the_names_of_their_rules() -> None:
    rules = {rule.id: rule.name for rule in registry.COMPARERS}
    assert {each.rule: each.name for each in DIVERGENCE_CLASSES} == rules


def test_a_copy_that_is_damaged_otherwise_is_not_taken_for_it() -> None:
    ranks = next(each for each in DIVERGENCE_CLASSES if each.rule == "KV401")
    assert "names nothing" in _problem(replace(ranks, fault="bytes-changed"))


def test_a_rule_of_comparison_that_cries_wolf_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(iter(registry.COMPARERS))

    def always(evidence: object) -> list[object]:
        return [rule.finding(evidence, "they differ", hits=Hits())]

    monkeypatch.setattr(registry, "COMPARERS", {rule: always})
    assert _problem(DIVERGENCE_CLASSES[0]) == "equal dumps do not compare as clean"
