from __future__ import annotations

from kvaudit.constants import FailReason
from kvaudit.core.claims import claims_of
from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.runner.compare.match import Matcher
from kvaudit.runner.compare.records import (
    compare_records,
    record_violations,
    requests_by_row,
)
from kvaudit.runner.expectations import expectations_of
from tests.helpers.comparing import HOST, THERE, dumped, side_of
from tests.helpers.worlds import World


def _compared(left: World, right: World, match: MatchBy = MatchBy.REQUEST):
    one, other = side_of(left), side_of(right, "B")
    matching = Matcher(one, other, kind=LegKind.TRANSFER, match=match).run()
    return one, other, matching, compare_records(one, other, matching)


def test_every_buffer_that_both_stamped_is_compared() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    right.records["v.tail"][:] = 0
    *_, found = _compared(left, right)
    assert found.buffers == ("k.tail", "k.head")
    assert not found.pairs.size


def test_what_differs_is_told_word_by_word_with_both_values() -> None:
    right = dumped(THERE, key=HOST)
    right.records["k.head"][12, 0] = 77
    right.records["k.tail"][12, 2] ^= 1
    one, other, matching, found = _compared(dumped(), right)
    assert found.reasons.tolist() == [
        FailReason.VERIFY_TOKEN_MISMATCH | FailReason.VERIFY_CHAIN_HASH_MISMATCH
    ]
    claims = claims_of(expectations_of(other.pool, ALL_ENTRIES).sources, other.snapshot)
    rows = record_violations(
        found, one, other, key=other.snapshot.key, pairs=matching.pairs, claims=claims, max_rows=10
    )
    by_tag = {row.tag.name: row for row in rows}
    assert set(by_tag) == {"HEAD_K_FULL", "TAIL_K_FULL"}
    head = by_tag["HEAD_K_FULL"]
    assert (head.slot, head.token, head.expected_token) == (12, 77, 13)
    assert head.request_ids == ("A",)
    assert requests_by_row(claims, matching.pairs.right_rows[found.pairs]) == {12: ["A"]}


def test_records_matched_by_their_hash_are_not_read_again_but_other_buffers_are() -> None:
    right = dumped(THERE, key=HOST)
    right.records["k.head"][12, 0] = 77
    *_, found = _compared(dumped(), right, MatchBy.CONTENT)
    assert list(found.by_buffer) == ["k.head"]


def test_a_declared_offset_of_positions_is_no_difference() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    for records in right.records.values():
        records[[*THERE[0], *THERE[1]], 1] += 5
    one = side_of(left)
    other = side_of(right.dataset(snapshot=right.snapshot(position_offset=5)), "B")
    matching = Matcher(one, other, kind=LegKind.TRANSFER, match=MatchBy.REQUEST).run()
    found = compare_records(one, other, matching)
    assert all(reasons == FailReason.VERIFY_CHAIN_HASH_MISMATCH for reasons in found.reasons)
    *_, undeclared = _compared(left, right)
    assert all(r & FailReason.VERIFY_POSITION_MISMATCH for r in undeclared.reasons.tolist())
