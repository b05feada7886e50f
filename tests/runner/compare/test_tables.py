from __future__ import annotations

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import TableDifference
from kvaudit.runner.compare.join import join_requests
from kvaudit.runner.compare.tables import compare_tables
from tests.helpers.comparing import HOST, THERE, dumped, side_of
from tests.helpers.worlds import World


def _differences(
    left: World, right: World, kind: LegKind = LegKind.TRANSFER
) -> tuple[list[TableDifference], int]:
    one, other = side_of(left), side_of(right, "B")
    return compare_tables(one, other, join_requests(one, other), kind=kind)


def test_relocated_requests_are_no_difference_of_a_transfer_and_one_of_ranks() -> None:
    moved = dumped(THERE, key=HOST)
    assert _differences(dumped(), moved) == ([], 0)
    found, total = _differences(dumped(), moved, LegKind.RANKS)
    assert total == 8
    assert found[0] == TableDifference(request_id="A", what="slot", position=0, left=2, right=10)


def test_another_token_of_one_request_is_a_difference_and_an_unknown_one_is_none() -> None:
    other = dumped()
    other.request_of("A").tokens = [11, 99, -1, 14]
    found, total = _differences(dumped(), other)
    assert total == 1
    assert found == [TableDifference(request_id="A", what="token", position=1, left=12, right=99)]


def test_ranks_must_have_the_same_requests_as_long_in_both() -> None:
    other = dumped()
    other.request_of("A").kv_len = 3
    other.request_of("B").request_id = "C"
    found, total = _differences(dumped(), other, LegKind.RANKS)
    assert total == 3
    assert [(each.request_id, each.what, each.left, each.right) for each in found] == [
        ("B", "request", 1, 0),
        ("C", "request", 0, 1),
        ("A", "kv_len", 4, 3),
    ]


def test_without_sequences_there_is_nothing_to_compare() -> None:
    one, other = side_of(dumped(), sequences=False), side_of(dumped(), "B")
    assert compare_tables(one, other, join_requests(one, other), kind=LegKind.RANKS) == ([], 0)
