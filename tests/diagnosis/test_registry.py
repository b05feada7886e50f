"""The rules, by id and prefix."""

from __future__ import annotations

import pytest

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.registry import INDEX_RULES, RULES, chosen_rules, diagnose
from kvaudit.errors import ConfigError
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f

NAMES = {
    "KV001": "not-covered",
    "KV002": "launch-disabled",
    "KV003": "kernel-stalled",
    "KV004": "unstamped",
    "KV005": "ring-overflow",
    "KV101": "slot-alias",
    "KV102": "slot-out-of-range",
    "KV103": "broken-link",
    "KV104": "length-mismatch",
    "KV105": "swa-map-stale",
    "KV106": "live-slot-free",
    "KV107": "double-free",
    "KV108": "refcount-mismatch",
    "KV201": "token-mismatch",
    "KV202": "foreign-content",
    "KV203": "late-writer",
    "KV204": "position-shift",
    "KV205": "page-permutation",
    "KV206": "slot-shift",
    "KV207": "undeclared-offset",
    "KV208": "canary-bit-flip",
    "KV209": "record-missing",
    "KV210": "content-not-of-token",
    "KV211": "content-not-of-position",
    "KV301": "bytes-changed",
    "KV302": "zero-tail",
    "KV303": "torn-row",
    "KV304": "kv-bit-flip",
    "KV305": "wrong-layout",
    "KV306": "nan-inf",
    "KV307": "reserved-slot-poisoned",
    "KV308": "side-buffer-stale",
    "KV309": "sentinel-write",
    "KV310": "bytes-permuted",
    "KV311": "not-arrived",
    "KV401": "rank-divergence",
    "KV402": "transfer-divergence",
    "KV403": "violations-growing",
    "KV404": "replay-divergence",
}


def _ids(select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> list[str]:
    return [rule.id for rule in chosen_rules(select, ignore)]


def test_ids_names_and_weights_are_the_designs() -> None:
    assert {rule.id: rule.name for rule in RULES} == NAMES
    weights = {rule.id: rule.severity for rule in RULES}
    assert {weights[rule_id] for rule_id in NAMES if rule_id[2] in "1234"} == {Severity.ERROR}
    warnings = {rule_id for rule_id, weight in weights.items() if weight is Severity.WARNING}
    assert warnings == {"KV001", "KV002", "KV003", "KV005"}
    assert weights["KV004"] is Severity.NOTE


def test_rules_are_chosen_by_id_prefix_or_name() -> None:
    assert _ids() == list(NAMES)
    assert _ids(("KV0",)) == ["KV001", "KV002", "KV003", "KV004", "KV005"]
    assert _ids(("kv101", "slot-out-of-range")) == ["KV101", "KV102"]
    assert _ids(("KV10",), ("KV101",)) == [f"KV10{digit}" for digit in range(2, 9)]


@pytest.mark.parametrize("name", ["KV9", "alias", "", "V1"])
def test_what_names_no_rule_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        chosen_rules((name,), ())
    with pytest.raises(ConfigError):
        chosen_rules((), (name,))


def test_only_the_chosen_rules_run() -> None:
    world = fixture_f()
    world.request_of("B").kv_len = 9
    evidence = evidence_of(world)
    assert [finding.rule for finding in diagnose(evidence, chosen_rules((), ()))] == ["KV104"]
    assert not diagnose(evidence, chosen_rules(("KV101",), ()))


def test_the_rules_of_the_index_are_those_that_cover_its_family() -> None:
    assert [rule.id for rule in INDEX_RULES] == [name for name in NAMES if name[2] == "1"]
