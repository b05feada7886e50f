from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.constants import MASK64, FailReason
from kvaudit.core.engine_log import WRITE_REASONS
from kvaudit.core.log_line import tag_label, violation_text
from kvaudit.core.ring_row import RingRow
from kvaudit.importers.log_violations import violation_of
from tests.helpers.engine_logs import BYTES, CHAIN, POSITION, T02

int64 = st.integers(-(2**63), 2**63 - 1)
ring_rows = st.builds(
    RingRow,
    tag=st.integers(-1, 14),
    slot=int64,
    position=int64,
    token=int64,
    expected_token=int64,
    chain_hash=st.integers(0, MASK64),
    expected_aux=st.integers(0, 2**62),
    reasons=st.integers(0, 63).map(FailReason),
)


def _read(text: str):
    return violation_of("".join(text.split()), rank="TP1")


@given(
    row=ring_rows, total=st.integers(0, 2**31), overflow=st.booleans(), step=st.integers(0, 10**9)
)
def test_what_a_canary_prints_is_read_back(
    row: RingRow, *, total: int, overflow: bool, step: int
) -> None:
    text = violation_text(row, total=total, ring_overflow=overflow, step=step)
    checks_token = row.reasons & (WRITE_REASONS | FailReason.VERIFY_TOKEN_MISMATCH)
    is_write = bool(row.reasons & WRITE_REASONS)
    for number, lines in enumerate((text, text.partition("\n")[2])):
        found = _read(lines)
        assert (found.tag, found.slot, found.position) == (
            tag_label(row.tag),
            row.slot,
            row.position,
        )
        assert (found.reasons, found.token) == (row.reasons, row.token)
        assert found.expected_token == (row.expected_token if checks_token else None)
        assert found.expected_position == (row.expected_aux if is_write else None)
        assert found.expected_hash == (None if is_write else row.expected_aux)
        # Only the first line has the running hash of a write.
        assert found.chain_hash == (None if is_write and number else row.chain_hash)
        assert (found.total, found.ring_overflow, found.step) == (total, overflow, step)
        assert found.rank == "TP1"


def test_older_labels_and_bodies_are_read() -> None:
    short = T02.replace("verify_", "")
    assert _read(short).reasons == CHAIN | POSITION
    old = (
        "KV cache canary violation detected (kernel_kind=TAIL_K_FULL, slot_idx=4, position=1)\n"
        "canary_kind: per_forward_tail_k_full\n  fail_reasons: real_kv_hash position\n"
        "  stored:   token_id=22   position=1 prev_hash=0x00000000000000ab "
        "real_kv_hash=0x0000000000000001\n"
        "  expected: token_id=0 position=2 prev_hash=0x00000000000000cd\n"
    )
    found = _read(old)
    assert found.reasons == BYTES | POSITION
    assert (found.expected_token, found.expected_position) == (None, 2)
    assert (found.chain_hash, found.expected_hash) == (0xAB, 0xCD)
    assert (found.step, found.total) == (None, None)


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
def test_a_block_that_was_cut_says_what_is_left(keep: int) -> None:
    found = _read("\n".join(T02.splitlines()[:keep]))
    assert (found.slot, found.token, found.expected_hash) == (4, 22, 0x13F5BAAFE6EF85D6)


def test_a_body_without_its_place_is_none() -> None:
    assert _read("\n".join(T02.splitlines()[2:])) is None
