from __future__ import annotations

import pytest

from kvaudit.constants import FailReason
from kvaudit.core.log_report import LoggedSlot
from kvaudit.diagnosis.log_footprints import footprint_of
from kvaudit.importers.rule_page import rule_texts
from tests.helpers.engine_logs import BYTES, CHAIN, POSITION, TOKEN

WRITE = FailReason.WRITE_POSITION_MISMATCH


def _candidates(reasons: FailReason, *, zero: bool = False, behind: bool = False) -> list[str]:
    token, position, chain_hash = (0, 0, 0) if zero else (22, 1, 5)
    root = LoggedSlot(
        pool_kind="FULL",
        slot=4,
        position=position,
        token=token,
        chain_hash=chain_hash,
        reasons=reasons,
        num_rows=1,
    )
    found = footprint_of(root, has_consequence=behind)
    assert found.says
    assert found.open
    assert found.settled_by
    return list(found.candidates)


@pytest.mark.parametrize(
    ("reasons", "options", "among"),
    [
        pytest.param(BYTES, {}, {"KV203", "KV302", "KV304", "KV208", "KV310", "KV305"}, id="bytes"),
        pytest.param(CHAIN, {"behind": True}, {"KV101", "KV203", "KV208"}, id="T01 T04 T21"),
        pytest.param(CHAIN, {}, {"KV202", "KV208", "KV103"}, id="T19 and foreign suffixes"),
        pytest.param(POSITION, {}, {"KV204", "KV205"}, id="T05"),
        pytest.param(CHAIN | POSITION, {}, {"KV101", "KV205"}, id="T02 T07"),
        pytest.param(POSITION, {"zero": True}, {"KV302", "KV311", "KV209"}, id="T09 T12 T26"),
        pytest.param(CHAIN, {"zero": True}, {"KV302", "KV311", "KV209"}, id="T12 at a head"),
        pytest.param(TOKEN, {}, {"KV201", "KV202", "KV207"}, id="T13 T23 G2"),
        pytest.param(TOKEN, {"behind": True}, {"KV208", "KV203"}, id="T19 with tokens"),
        pytest.param(WRITE, {}, {"KV204"}, id="write"),
    ],
)
def test_mechanisms_that_leave_the_same_line_are_named_together(
    reasons: FailReason, options: dict[str, bool], among: set[str]
) -> None:
    found = _candidates(reasons, **options)
    assert among <= set(found)
    assert len(found) == len(set(found))


def test_zero_bytes_under_a_zero_record_are_no_fault_of_the_record() -> None:
    assert "KV311" not in _candidates(BYTES, zero=True)


def test_a_line_without_a_reason_names_no_rule() -> None:
    assert _candidates(FailReason(0)) == []


def test_every_candidate_is_a_rule_that_can_be_explained() -> None:
    named = {
        rule
        for reasons in map(FailReason, range(64))
        for zero in (False, True)
        for behind in (False, True)
        for rule in _candidates(reasons, zero=zero, behind=behind)
    }
    assert named <= set(rule_texts())
