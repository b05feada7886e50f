from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.render.violation_ring import COMPARED, violation_ring
from tests.helpers import reports
from tests.helpers.vocabulary import Vocabulary


def row(**changes) -> Violation:
    return replace(reports.VIOLATIONS.violations[0], **changes)


def shown(*rows: Violation) -> list[str]:
    page_sizes = dict.fromkeys((row.key for row in rows), 16)
    report = replace(
        reports.VIOLATIONS, violations=rows, violations_total=len(rows), page_sizes=page_sizes
    )
    return [text.plain for text in violation_ring(report)]


def test_a_clean_report_has_no_ring() -> None:
    assert violation_ring(reports.CLEAN) == []


def test_the_ring_says_how_many_rows_it_shows() -> None:
    assert violation_ring(reports.VIOLATIONS)[0].plain == "violations  4 of 7 shown"
    hidden = replace(reports.VIOLATIONS, violations=())
    assert [text.plain for text in violation_ring(hidden)] == ["violations  0 of 7 shown"]


def test_a_slot_stands_in_both_numberings_with_its_request_and_position() -> None:
    assert shown(row())[1] == "  slot 4103 (page 256 +7)  request req-3  position 39"


@pytest.mark.parametrize("reason", COMPARED, ids=lambda reason: reason.name)
def test_every_compared_reason_shows_stored_and_expected(reason: FailReason) -> None:
    [_, _, text] = shown(row(reasons=reason))
    stored, expected = COMPARED[reason](row())
    assert f"stored {stored}  expected {expected}" in text


@pytest.mark.parametrize("reason", FailReason, ids=lambda reason: reason.name)
def test_every_reason_has_a_line(reason: FailReason) -> None:
    assert len(shown(row(reasons=reason))) == 3


def test_column_rows_name_layer_and_columns() -> None:
    text = shown(row(tag=None, columns=("kv.v.17",), reasons=FailReason.COLUMN_DIGEST_MISMATCH))
    assert text[-1] == "    bytes  column_digest  layer 17  kv.v.17"


def test_rows_of_one_slot_stand_together_in_slot_order() -> None:
    texts = shown(row(slot=9), row(slot=4), row(slot=9, tag=LaunchTag.TAIL_V_FULL))
    titles = [text for text in texts if text.startswith("  slot")]
    assert [title.split()[1] for title in titles] == ["4", "9"]


def test_a_shared_slot_says_which_request_and_position_each_row_is_of() -> None:
    texts = shown(row(), row(request_ids=("req-4",), expected_position=7))
    assert "requests req-3, req-4  positions 39, 7" in texts[1]
    assert texts[2].startswith("    TAIL_K_FULL req-3 @39  ")
    assert any(text.startswith("    TAIL_K_FULL req-4 @7  ") for text in texts)


def test_a_long_ring_is_written_in_time() -> None:
    """Quadratic work would take minutes."""
    start = time.perf_counter()
    shown(*(row(slot=slot) for slot in range(20_000)))
    assert time.perf_counter() - start < 20


def test_one_slot_of_several_pools_is_a_group_a_pool_with_its_own_page_size() -> None:
    """Steps, instances, groups, tiers and ranks tell pools apart as names do."""
    keys = [
        PoolKey(step=1),
        PoolKey(step=2),
        PoolKey(instance="prefill-0", step=1),
        PoolKey(pool="SWA", pool_kind=PoolKind.SWA, rank=3),
    ]
    rows = [row(key=key) for key in keys]
    report = replace(
        reports.VIOLATIONS,
        violations=rows,
        violations_total=4,
        page_sizes=dict(zip(keys, (16, 1, 4, 256), strict=True)),
    )
    titles = [text.plain for text in violation_ring(report) if "  slot 4103" in text.plain]
    assert [title.split("  request")[0] for title in titles] == [
        "  slot 4103 (page 256 +7)  pool FULL step 1",
        "  slot 4103 (page 4103 +0)  pool FULL step 2",
        "  slot 4103 (page 1025 +3)  pool prefill-0.FULL step 1",
        "  slot 4103 (page 16 +7)  pool SWA.r3",
    ]


def test_what_a_row_does_not_know_is_a_dash() -> None:
    [_, _, text] = shown(row(reasons=FailReason.VERIFY_REAL_KV_HASH_MISMATCH, real_kv_hash=None))
    assert "stored -  expected 0x0000000000000000" in text


@pytest.mark.parametrize(
    "reason", [FailReason.VERIFY_TOKEN_MISMATCH, FailReason.WRITE_TOKEN_MISMATCH]
)
def test_a_token_is_followed_by_its_word(reason: FailReason) -> None:
    rows = [row(reasons=reason, token=7042, expected_token=262)]
    report = replace(reports.VIOLATIONS, violations=rows, page_sizes={rows[0].key: 16})
    text = violation_ring(report, Vocabulary())[2].plain
    assert "stored 7042 ' Paris'  expected 262 ' the'" in text


def test_a_token_without_a_word_and_a_position_stay_numbers() -> None:
    reasons = FailReason.VERIFY_TOKEN_MISMATCH | FailReason.VERIFY_POSITION_MISMATCH
    rows = [row(reasons=reasons, token=5, expected_token=None, position=262, expected_position=9)]
    report = replace(reports.VIOLATIONS, violations=rows, page_sizes={rows[0].key: 16})
    texts = [text.plain for text in violation_ring(report, Vocabulary())]
    assert any("stored 5    expected -" in text for text in texts)
    assert any("stored 262  expected 9" in text for text in texts)


def test_a_row_of_a_pool_with_digests_of_pages_is_a_page() -> None:
    of_page = row(tag=None, columns=("kv.v.17",), reasons=FailReason.COLUMN_DIGEST_MISMATCH)
    report = replace(
        reports.VIOLATIONS,
        violations=[of_page],
        violations_total=1,
        page_sizes={of_page.key: 16},
        paged_pools=frozenset({of_page.key}),
    )
    title = violation_ring(report)[1].plain
    assert title == "  page 256 (slots 4096-4111)  request req-3  position 39"
