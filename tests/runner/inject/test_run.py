from __future__ import annotations

import json
import random

import pytest

from kvaudit.core.finding import RuleGroup, group_of
from kvaudit.diagnosis.registry import RULES
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import FAULT_CLASSES, FaultClass, fault_of, inject
from kvaudit.runner.inject.copy import Aim
from tests.helpers.injecting import named, pool_for, random_pool

SEEDS = range(4)
RANDOM_POOLS = 25
# These pools have no side buffer, and digests show neither halves of rows nor single numbers.
REFUSED = {"KV308"}
REFUSED_WITHOUT_BYTES = {"KV210", "KV211", "KV303", "KV306", "KV307"}


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("fault", FAULT_CLASSES, ids=lambda fault: fault.name)
def test_each_class_is_named_by_its_rule_alone_or_refused_by_name(
    fault: FaultClass, page_size: int, digests_only: bool
) -> None:
    pool = pool_for(fault.rule, page_size, digests_only=digests_only)
    if fault.rule in REFUSED | (REFUSED_WITHOUT_BYTES if digests_only else set()):
        with pytest.raises(ConfigError, match=f"{fault.name} cannot be put .* it needs "):
            inject(pool, fault.name, seed=0)
        return
    assert named(pool) == []
    for seed in SEEDS:
        injection = inject(pool, fault.name, seed=seed)
        findings = named(injection.pool)
        assert [finding.rule for finding in findings] == [fault.rule], (seed, injection.damage)
        assert set(injection.damage.slots) <= set(findings[0].slots), seed
        assert set(injection.damage.request_ids) == set(findings[0].request_ids), seed


def test_in_a_random_pool_each_class_is_named_by_its_rule_alone_or_refused() -> None:
    num_named = 0
    for seed in range(RANDOM_POOLS):
        pool = random_pool(random.Random(seed))  # noqa: S311 - a test
        for fault in FAULT_CLASSES:
            try:
                injection = inject(pool, fault.name, seed=seed)
            except ConfigError:
                continue
            num_named += 1
            findings = named(injection.pool)
            assert [finding.rule for finding in findings] == [fault.rule], (seed, fault.name)
            assert set(injection.damage.slots) <= set(findings[0].slots), (seed, fault.name)
            assert set(injection.damage.request_ids) <= set(findings[0].request_ids), seed
    assert num_named >= 10 * RANDOM_POOLS


def test_every_rule_that_explains_a_pool_has_a_class() -> None:
    """A rule without one would never be proved by the self-test."""
    judged = (RuleGroup.INDEX, RuleGroup.IDENTITY, RuleGroup.BYTES)
    rules = {rule.id: rule.name for rule in RULES if group_of(rule.id) in judged}
    assert {fault.rule: fault.name for fault in FAULT_CLASSES} == rules


def test_the_same_seed_does_the_same_and_another_one_something_else() -> None:
    pool = pool_for("KV301", 16)
    one, same, other = (inject(pool, "bytes-changed", seed=seed) for seed in (1, 1, 2))
    for name, column in one.pool.snapshot.kv.items():
        again = same.pool.snapshot.kv[name]
        assert (column.read_rows(0, 300) == again.read_rows(0, 300)).all()
    assert one.to_dict() == same.to_dict()
    assert one.damage != other.damage


def test_a_fault_goes_where_it_was_asked_for() -> None:
    pool = pool_for("KV208", 1)
    injection = inject(pool, "canary-bit-flip:request=B,position=7", seed=0)
    assert injection.damage.request_ids == ["B"]
    assert injection.damage.slots == [int(pool.sequences[0].slots_of(1)[7])]


def test_the_record_says_what_was_done_and_which_columns_were_written() -> None:
    injection = inject(pool_for("KV208", 1), "KV208", seed=3)
    record = json.loads(json.dumps(injection.to_dict()))
    assert record["schema"] == "kvaudit.injection/1"
    assert (record["fault"], record["rule"], record["seed"]) == ("canary-bit-flip", "KV208", 3)
    assert record["columns"] == ["canary.k.head", "canary.k.tail", "canary.v.tail"]


def test_a_class_may_be_named_by_its_rule_and_takes_two_arguments() -> None:
    fault, aim = fault_of("kv203:request=A,position=7")
    assert (fault.name, aim) == ("late-writer", Aim(request_id="A", position=7))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no-such", "no fault class 'no-such'"),
        ("late-writer:slot=3", "'slot=3' is no argument"),
        ("late-writer:request", "'request' is no argument"),
        ("late-writer:position=1,position=2", "'position=2' is no argument"),
        ("late-writer:position=-1", "'-1' is no position"),
    ],
)
def test_what_cannot_be_understood_is_said(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        fault_of(text)
    assert caught.value.hint


@pytest.mark.parametrize("arguments", ["request=Z", "position=9999"])
def test_a_place_that_the_pool_does_not_have_is_refused(arguments: str) -> None:
    with pytest.raises(ConfigError, match="late-writer cannot be put into this dump"):
        inject(pool_for("KV203", 1), f"late-writer:{arguments}", seed=0)


@pytest.mark.parametrize(
    "fault",
    [
        "reserved-slot-poisoned:request=A",
        "undeclared-offset:request=A",
        "wrong-layout:position=3",
        "not-arrived:position=3",
        "page-permutation:position=3",
    ],
)
def test_a_class_that_has_no_such_place_refuses_it(fault: str) -> None:
    name, _, argument = fault.partition(":")
    with pytest.raises(ConfigError, match=f"{name} takes no {argument.partition('=')[0]}"):
        inject(pool_for("KV301", 4), fault, seed=0)
