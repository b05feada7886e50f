"""KV210 on the cases that need no stamp (CASES.md T07, T13, T23, a stale page), and beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.element_types import encoded
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.report import Verdict
from kvaudit.core.sequences import SequenceState
from kvaudit.kernels.hash.reference import splitmix64
from tests.helpers.diagnosing import report_of
from tests.helpers.identity_findings import identity_finding, identity_findings
from tests.helpers.layer0_worlds import (
    Layer0World,
    TokenModel,
    V,
    chatty_world,
    fixture_f,
)

PAGE_SIZES = (1, 16, 64)


def pool_of(page_size: int) -> Layer0World:
    """Requests A and B on four pages each, in scattered order, and C that shares A's first page."""
    length = 4 * max(page_size, 4)
    pages = np.random.default_rng(page_size).permutation(np.arange(1, 1 + 9 * length // page_size))
    slots = (pages[:, None] * page_size + np.arange(page_size)).ravel().tolist()
    world = Layer0World(
        model=TokenModel(vocab=2000), num_slots=10 * length + 2 * page_size, page_size=page_size
    )
    for number, name in enumerate("AB"):
        tokens = range(100 + 600 * number, 100 + 600 * number + length)
        world.request(name, list(tokens), slots[number * length : (number + 1) * length])
    shared = max(page_size, 4)
    own = slots[2 * length : 2 * length + 8]
    world.request("C", [*range(100, 100 + shared), *range(1500, 1508)], [*slots[:shared], *own])
    return world


def test_t07_swapped_pages_are_a_page_permutation() -> None:
    world = fixture_f()
    world.copy([2, 3, 4, 5], [4, 5, 2, 3])
    finding = identity_finding(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV210", [2, 3, 4, 5], ["A"])
    assert finding.evidence["cause"] == "page permutation"
    assert finding.summary == (
        "page permutation: slot 2 (page 1 +0) of request A should hold token 11 at position 0 and "
        "holds token 13 of request A at position 2; 4 slots in all"
    )


def test_t13_a_whole_foreign_chain_is_foreign_content() -> None:
    world = fixture_f()
    world.copy([6, 7, 8, 9], [2, 3, 4, 5])
    finding = identity_finding(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV210", [2, 3, 4, 5], ["A"])
    assert (finding.evidence["cause"], finding.evidence["content_of"]) == ("foreign content", ["B"])
    [stretch] = finding.evidence["ranges"]
    assert (stretch["positions"], stretch["content_positions"]) == ([0, 3], [0, 3])
    assert (stretch["tokens"], stretch["content_tokens"]) == ([11, 12, 13, 14], [21, 22, 23, 24])


def test_t23_a_wrong_token_is_named() -> None:
    world = fixture_f()
    world.write([7], [99], [1])
    finding = identity_finding(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV210", [7], ["B"])
    assert finding.evidence["cause"] == "wrong token"
    [example] = finding.evidence["examples"]
    assert example == {
        "slot": 7,
        "request_id": "B",
        "position": 1,
        "token": 22,
        "holds": "another token",
        "holds_token": 99,
        "rotated_for": 1,
    }


def test_a_stale_prefix_page_taints_every_request_that_shares_it() -> None:
    world = fixture_f().request("C", [11, 12, 77], [2, 3, 10])
    world.write([2, 3], [301, 302], [0, 1])
    finding = identity_finding(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV210", [2, 3], ["A", "C"])
    assert finding.evidence["cause"] == "stale page"
    assert finding.alternatives == ["KV202", "KV203"]
    assert "state finished" in finding.settled_by


def test_a_stale_page_whose_last_owner_is_known_names_it() -> None:
    world = fixture_f()
    world.request("old", [301, 302], [2, 3], state=SequenceState.FINISHED)
    finding = identity_finding(world)
    assert (finding.evidence["cause"], finding.evidence["content_of"]) == ("stale page", ["old"])
    assert (finding.request_ids, finding.settled_by) == (["A", "old"], "")


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_foreign_prefix_is_named_at_every_page_size(page_size: int) -> None:
    world = pool_of(page_size)
    one, other = world.requests[:2]
    size = max(page_size, 4)
    world.copy(other.slots[:size], one.slots[:size])
    finding = identity_finding(world)
    assert finding.slots == sorted(one.slots[:size])
    assert finding.request_ids == ["A", "C"]
    assert (finding.evidence["cause"], finding.evidence["content_of"]) == ("foreign content", ["B"])


@pytest.mark.parametrize("page_size", [16, 64])
def test_swapped_pages_are_named_at_every_page_size(page_size: int) -> None:
    world = pool_of(page_size)
    slots = world.requests[1].slots
    one, other = slots[page_size : 2 * page_size], slots[2 * page_size : 3 * page_size]
    world.copy(one + other, other + one)
    finding = identity_finding(world)
    assert (finding.evidence["cause"], finding.request_ids) == ("page permutation", ["B"])
    assert finding.slots == sorted(one + other)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_clean_pool_accuses_nobody(page_size: int) -> None:
    assert identity_findings(pool_of(page_size)) == []


def test_two_faults_at_once_are_two_findings() -> None:
    world = pool_of(16)
    one, other = world.requests[:2]
    world.copy(other.slots[:16], one.slots[:16])
    world.v[other.slots[40]] = 0
    causes = {f.evidence["cause"]: f.slots for f in identity_findings(world)}
    assert causes == {
        "foreign content": sorted(one.slots[:16]),
        "zeros": [other.slots[40]],
    }


def test_by_repetition_it_says_on_how_many_rows_it_rests() -> None:
    world = chatty_world()
    request = world.requests[0]
    place = next(p for p in range(16, 60) if request.tokens[p] == 0)
    world.write([request.slots[place]], [399], [place])
    finding = identity_finding(world, layer0="auto")
    assert finding.slots == [request.slots[place]]
    assert finding.evidence["judged_by"] == "dump"
    assert finding.evidence["votes"] > 30
    assert finding.evidence["votes_against"] == 1


def test_a_column_of_another_type_is_one_finding() -> None:
    world = fixture_f()
    tokens = [11, 12, 13, 14, 21, 22, 23, 24]
    world.v[2:10] = encoded(world.model.v0[tokens].reshape(8, -1), "float16")
    finding = identity_finding(world)
    assert finding.summary == (
        "8 slots fail at once: the column says bfloat16, and its bytes are float16"
    )
    assert finding.request_ids == ["A", "B"]


def test_a_row_of_another_type_says_which() -> None:
    world = fixture_f()
    world.v[7] = encoded(world.model.v0[[22]].reshape(1, -1), "float16")[0]
    finding = identity_finding(world)
    assert finding.evidence["types"] == ["float16"]
    assert "holds it as float16" in finding.summary


def test_rows_that_a_canary_explains_are_not_reported_twice() -> None:
    """Stamps of A's V say that its bytes changed; B's were stamped as they are."""
    world = fixture_f()
    stamps = np.array([_fold(row.tobytes()) for row in world.v], dtype=np.uint64)
    world.write([3], [99], [1])
    world.write([7], [98], [1])
    stamps[7] = _fold(world.v[7].tobytes())
    column = ArrayColumn(name="stamped.v.0", values=stamps.view(np.int64))
    pool = world.pool(stamped={V: column})
    report = report_of(Dataset(pools=[pool]), layer0=world.model.table())
    found = {finding.rule: finding.slots for finding in report.findings}
    assert found == {"KV301": [3], "KV210": [7]}
    alone = report_of(Dataset(pools=[pool]), layer0=world.model.table(), select=("KV210",))
    assert [finding.slots for finding in alone.findings] == [[3], [7]]


def _fold(data: bytes) -> int:
    running = 0
    for first in range(0, len(data), 8):
        running = splitmix64(running ^ int.from_bytes(data[first : first + 8], "little"))
    return running


def test_without_the_rule_the_verdict_is_not_its() -> None:
    world = fixture_f()
    world.write([7], [99], [1])
    report = report_of(world.dataset(), layer0=world.model.table(), ignore=("KV210",))
    assert (report.findings, report.verdict) == ([], Verdict.CLEAN)


def test_ranks_that_say_the_same_are_one_finding() -> None:
    pools = []
    for rank in range(2):
        world = fixture_f()
        world.key = replace(world.key, rank=rank)
        world.write([7], [99], [1])
        pools.append(world.pool())
    model = fixture_f().model
    report = report_of(Dataset(pools=pools), layer0=model.table())
    [finding] = report.findings
    assert finding.evidence["ranks"] == [0, 1]


def test_a_plan_s_entries_are_judged_as_a_sequence_s() -> None:
    from tests.helpers.worlds import fixture_f as records_f

    world = fixture_f()
    world.write([7], [99], [1])
    plan = records_f().plan()
    pool = AuditedPool(snapshot=world.pool().snapshot, plans=(plan,))
    report = report_of(Dataset(pools=[pool]), layer0=world.model.table())
    [finding] = [each for each in report.findings if each.rule == "KV210"]
    assert (finding.slots, finding.request_ids) == ([7], ["B"])
