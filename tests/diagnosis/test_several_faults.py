"""Several faults at once, each in requests of its own: an audit says of each what it says of it alone."""

from __future__ import annotations

import random
from functools import cache

import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import FAULT_CLASSES, inject
from tests.helpers.several_faults import (
    WHOLE_POOL,
    Said,
    Shape,
    as_digests,
    grouped_pool,
    joined,
    said_of,
    with_fault,
)

SHAPES = {
    "pages of 1": Shape(page_size=1, pages_each=24),
    "pages of 16": Shape(page_size=16),
    "pages of 64": Shape(page_size=64, pages_each=4),
    "window pool": Shape(page_size=16, window=70),
    "draft pool": Shape(page_size=16, token_offset=1),
}
# A plan's fault goes into a plan, and these pools are judged by sequences; their KV is random, so
# that no token has a content of its own.
ELSEWHERE = (*WHOLE_POOL, "KV103", "KV210", "KV211")
CLASSES = tuple(fault.rule for fault in FAULT_CLASSES if fault.rule not in ELSEWHERE)
# A slot that one lets go of is what the other frees; what padding left in slot 0 is poisoned there.
MEETING = ({"KV107", "KV108"}, {"KV307", "KV309"})
TRIALS = 12

LAYOUT = pytest.mark.parametrize("name", SHAPES)
CONTENT = pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])


@cache
def _pool(name: str, digests_only: bool) -> AuditedPool:
    pool = grouped_pool(SHAPES[name])
    assert not said_of(pool)
    return as_digests(pool) if digests_only else pool


@cache
def _alone(name: str, digests_only: bool, rule: str, group: int) -> list[Said] | None:
    """What is said of a class alone; None where the pool cannot show it."""
    try:
        return said_of(with_fault(_pool(name, digests_only), rule, group, seed=group))
    except ConfigError:
        return None


@CONTENT
@LAYOUT
def test_pairs_and_triples_of_classes_have_the_findings_of_each_alone(
    name: str, digests_only: bool
) -> None:
    rng = random.Random(f"{name} {digests_only}")  # noqa: S311 - a test
    found = 0
    for trial in range(TRIALS):
        rules = rng.sample(CLASSES, 2 + trial % 2)
        alone = [_alone(name, digests_only, rule, group) for group, rule in enumerate(rules)]
        if None in alone or any(pair <= set(rules) for pair in MEETING):
            continue
        pool = _pool(name, digests_only)
        for group, rule in enumerate(rules):
            pool = with_fault(pool, rule, group, seed=group)
        assert said_of(pool) == joined(part for parts in alone for part in parts), rules
        found += 1
    assert found > TRIALS // 3


def _all_at_once(shape: Shape, *, digests_only: bool, classes: tuple[str, ...]) -> int:
    """Every class that the pool can show, a group each; how many those are."""
    clean = grouped_pool(shape)
    clean = as_digests(clean) if digests_only else clean
    pool, alone, group = clean, [], 0
    for rule in classes:
        try:
            pool = with_fault(pool, rule, group, seed=group)
        except ConfigError:
            continue
        alone += said_of(with_fault(clean, rule, group, seed=group))
        group += 1
    assert said_of(pool) == joined(alone)
    return group


# A request's own slots are not those that nobody holds: what is freed twice is chosen before.
ONCE = tuple(sorted(set(CLASSES) - {"KV307"}, key=lambda rule: (rule != "KV107", rule)))


@CONTENT
@pytest.mark.parametrize("name", ["pages of 1", "pages of 16", "pages of 64"])
def test_all_classes_at_once_have_a_finding_each(name: str, digests_only: bool) -> None:
    shape = Shape(
        page_size=SHAPES[name].page_size,
        pages_each=SHAPES[name].pages_each,
        num_groups=len(ONCE),
    )
    assert _all_at_once(shape, digests_only=digests_only, classes=ONCE) >= len(ONCE) - 3


def test_a_large_pool_of_many_layers_and_sequences_has_a_finding_each_too() -> None:
    """100,000 slots, 200 sequences and 30 layers."""
    shape = Shape(page_size=16, num_groups=100, pages_each=32, num_layers=30, row_bytes=32)
    assert _all_at_once(shape, digests_only=False, classes=ONCE) == len(ONCE)


# Moved content stands at other positions than its own: beside an offset of all, both are solved for
# and neither is known.
BESIDE_AN_OFFSET = tuple(rule for rule in CLASSES if rule not in ("KV205", "KV206"))


@CONTENT
@pytest.mark.parametrize("rule", BESIDE_AN_OFFSET)
def test_a_fault_beside_an_undeclared_offset_of_the_whole_pool_is_named_as_well(
    rule: str, digests_only: bool
) -> None:
    shifted = inject(_pool("pages of 16", digests_only), "KV207", seed=0).pool
    alone = _alone("pages of 16", digests_only, rule, 1)
    if alone is None:
        return
    found = said_of(with_fault(shifted, rule, 1, seed=1))
    places = [part[:3] for part in found if part[0] != "KV207"]
    assert places == [part[:3] for part in alone]
    assert [part[0] for part in found].count("KV207") == 1
