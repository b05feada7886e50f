from __future__ import annotations

import pytest

from kvaudit.core.snapshot import PoolKey
from tests.helpers.comparing import HERE, THERE, compared, dumped, finding_of
from tests.helpers.worlds import World


def _ranks(**second: object) -> tuple[World, World]:
    return dumped(key=PoolKey(rank=0)), dumped(key=PoolKey(rank=3), **second)


@pytest.mark.parametrize("sequences", [True, False])
def test_another_record_on_one_rank_is_named_with_both_ranks(sequences: bool) -> None:
    left, right = _ranks()
    right.records["k.tail"][8, 1] = 40
    found = finding_of(left, right, sequences=sequences)
    assert (found.rule, found.slots, found.key.rank) == ("KV401", [8], 3)
    assert found.summary.startswith("rank 3 does not hold what rank 0 does: slot 8 (page 4 +0)")
    assert "position 40, and not 2" in found.summary
    assert found.request_ids == (["B"] if sequences else [])


def test_a_request_on_other_slots_of_one_rank_is_a_difference_of_the_tables() -> None:
    left, right = _ranks(slots=(HERE[0], THERE[0]))
    found = finding_of(left, right)
    assert "request B has slot 6 in A and 10 in B at position 0" in found.summary
    assert found.evidence["num_tables"] == 4


def test_a_prefix_that_one_rank_did_not_load_is_a_difference_in_length() -> None:
    left, right = _ranks()
    right.request_of("A").kv_len = 2
    assert "request A has kv_len 4 in A and 2 in B" in finding_of(left, right).summary


def test_ranks_that_agree_and_transfers_are_none_of_its_business() -> None:
    assert not compared(*_ranks()).findings
    damaged = dumped(key=PoolKey(tier="host"))
    damaged.records["k.tail"][8, 1] = 40
    assert not compared(dumped(), damaged, select=("KV401",)).findings
