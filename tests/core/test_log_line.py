"""The frozen text, against blocks as engines print them."""

from __future__ import annotations

import pytest

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.log_line import tag_label, violation_text
from kvaudit.core.ring_row import RingRow

# CASES.md T02: another request's record at A's position 2.
T02 = RingRow(
    tag=LaunchTag.HEAD_K_FULL,
    slot=4,
    position=1,
    token=22,
    expected_token=-1,
    chain_hash=0x37FCA5A47DCA7665,
    expected_aux=0x13F5BAAFE6EF85D6,
    reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH | FailReason.VERIFY_POSITION_MISMATCH,
)
T02_TEXT = """\
kv_canary violation: launch_tag=HEAD_K_FULL fail_reason=verify_chain_hash+verify_position \
slot_idx=4 position=1 stored_token=22 expected_token=-1 stored_chain_hash=0x37fca5a47dca7665 \
expected_aux=0x13f5baafe6ef85d6
KV cache canary violation detected (kernel_kind=HEAD_K_FULL, slot_idx=4, position=1)
canary_kind:       per_forward_head_k_full
  fail_reasons: verify_chain_hash verify_position
  stored:   token_id=22   position=1 prev_hash=0x37fca5a47dca7665
  expected: prev_hash=0x13f5baafe6ef85d6
  total_violations=2 ring_overflow=False step_when_pumped=7"""


def _row(tag: int, reasons: FailReason, **changes: int) -> RingRow:
    fields = {
        "slot": 9,
        "position": 42,
        "token": 57,
        "expected_token": 58,
        "chain_hash": 0x1,
        "expected_aux": 43,
    }
    return RingRow(tag=tag, reasons=reasons, **{**fields, **changes})


def _lines(row: RingRow) -> list[str]:
    return violation_text(row, total=1, ring_overflow=True, step=3).splitlines()


def test_a_verify_row_is_the_engines_block_letter_by_letter() -> None:
    assert violation_text(T02, total=2, ring_overflow=False, step=7) == T02_TEXT


def test_a_token_that_was_judged_stands_before_the_expected_hash() -> None:
    lines = _lines(_row(LaunchTag.TAIL_V_SWA, FailReason.VERIFY_TOKEN_MISMATCH))
    assert lines[5] == "  expected: token_id=58 prev_hash=0x000000000000002b"


@pytest.mark.parametrize(
    "reason", [FailReason.WRITE_TOKEN_MISMATCH, FailReason.WRITE_POSITION_MISMATCH]
)
def test_a_write_row_compares_tokens_and_positions(reason: FailReason) -> None:
    lines = _lines(_row(LaunchTag.TAIL_K_FULL, reason))
    assert lines[0].endswith("expected_aux=0x000000000000002b")
    assert lines[4] == "  actual:   token_id=57   position=42"
    assert lines[5] == "  expected: token_id=58   position=43"


def test_a_sweeps_kind_has_no_prefix_and_an_unknown_tag_its_number() -> None:
    reason = FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    assert _lines(_row(LaunchTag.SWEEP_V_SWA, reason))[2] == "canary_kind:       sweep_v_swa"
    lines = _lines(_row(77, reason))
    assert "launch_tag=unknown(77) " in lines[0]
    assert lines[2] == "canary_kind:       unknown(77)"
    assert [tag_label(tag) for tag in (-1, 12)] == ["unknown(-1)", "unknown(12)"]


def test_a_row_without_a_bit_says_so_on_both_lines() -> None:
    lines = _lines(_row(LaunchTag.TAIL_K_FULL, FailReason(0)))
    assert " fail_reason=none " in lines[0]
    assert lines[3] == "  fail_reasons: none"
    assert lines[6] == "  total_violations=1 ring_overflow=True step_when_pumped=3"
