"""KV202: a slot holds another sequence's content."""

from __future__ import annotations

import pytest

from kvaudit.core.sequences import SequenceState
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.worlds import build, fixture_f

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_whole_foreign_chain_is_told_by_its_tokens(page_size: int) -> None:
    """CASES.md T13: without tokens it is right in itself."""
    world = long_pool(page_size)
    corruptions.copy_chain(world, "R2", "R0")
    finding = finding_of(world)
    assert (finding.rule, finding.request_ids) == ("KV202", ["R0"])
    assert finding.slots == world.request_of("R0").slots
    assert finding.evidence["content_of"] == "R2"
    assert not findings_of(world, tokens=False)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@TOKENS
def test_a_foreign_suffix_is_told_by_what_it_is_chained_to(page_size: int, tokens: bool) -> None:
    world = long_pool(page_size, num_pages=4 if page_size > 1 else 30)
    mine, theirs = world.request_of("R0").slots, world.request_of("R1").slots
    corruptions.copy_slots(world, theirs[20:], mine[20:])
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV202", mine[20:], ["R0"])
    assert finding.evidence["content_of"] == "R1"


@TOKENS
def test_content_of_other_positions_is_found_as_well(tokens: bool) -> None:
    world = long_pool(16)
    mine, theirs = world.request_of("R0").slots, world.request_of("R1").slots
    corruptions.copy_slots(world, theirs[3:9], mine[20:26])
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV202", mine[20:26], ["R0"])


def test_a_cached_prefix_is_another_sequence_and_a_finished_one_is_not() -> None:
    for state, rule in ((SequenceState.CACHED, "KV202"), (SequenceState.FINISHED, "KV203")):
        world = fixture_f()
        corruptions.copy_chain(world, "B", "A")
        world.request_of("B").state = state
        assert finding_of(world).rule == rule


def test_all_that_share_the_prefix_are_tainted() -> None:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    builder.request("C", tokens=[11, 12, 33], slots=[2, 3, 12], shared=2)
    world = builder.request("B", tokens=[21, 22, 23, 24], slots=[6, 7, 8, 9]).done()
    corruptions.copy_slots(world, [6, 7], [2, 3])
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV202", [2, 3], ["A", "C"])


def test_a_scope_does_not_hide_whose_content_it_is() -> None:
    world = fixture_f()
    corruptions.copy_chain(world, "B", "A")
    finding = finding_of(world, request_ids=("A",))
    assert (finding.rule, finding.evidence["content_of"]) == ("KV202", "B")


def test_a_shared_prefix_is_not_foreign() -> None:
    """CASES.md G1."""
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    world = builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2).done()
    assert not findings_of(world)


def test_a_wrong_token_of_its_own_is_not_foreign() -> None:
    world = fixture_f()
    corruptions.wrong_token(world, "B", position=1, token=99)
    assert not report_of(world, select=("KV202",)).findings
