from __future__ import annotations

import pytest

from kvaudit.core.engine_log import LogLineKind
from kvaudit.importers.log_lines import line_facts
from tests.helpers.engine_logs import OTHER_LINES

FOUND = [line_facts("".join(line.split())) for line in OTHER_LINES.splitlines()]


def test_every_other_line_is_told_by_its_words() -> None:
    assert [kind for kind, _ in FOUND] == [*LogLineKind, LogLineKind.SWA_DIVERGENCE]


@pytest.mark.parametrize(
    ("number", "facts"),
    [
        (0, {"step": 300, "violations": 2, "active_tags": 4, "tags": 12, "sweep_passes": 3}),
        (1, {"sweeps": 30, "step": 290}),
        (2, {"total": 70000, "capacity": 65536}),
        (3, {"tags": "HEAD_K_FULL,TAIL_K_FULL", "step": 200}),
        (4, {"pool_class": "MLATokenToKVPool", "supported": "'MHA','SWA'"}),
        (5, {"disaggregation_mode": "decode", "ring_capacity": 1024, "speculative_num_steps": 0}),
        (6, {"pool": "MHATokenToKVPool", "read_bytes": 256, "token_offset": 0}),
        (7, {"forward_ct": 12, "swa_full_idx_divergence": 5}),
        (8, {"swa_full_idx_divergence": 3}),
    ],
)
def test_a_line_says_its_numbers(number: int, facts: dict[str, object]) -> None:
    found = FOUND[number][1]
    assert {name: found[name] for name in facts} == facts


@pytest.mark.parametrize(
    "text", ["", "[canary]step=3", "kv_canary_swa_divergence={", "[canary]step=" + "9" * 5000]
)
def test_an_incomplete_line_is_none(text: str) -> None:
    assert line_facts(text) is None


@pytest.mark.parametrize("document", ["{x}", '{"x":' + "[" * 1900 + "}"])
def test_a_damaged_document_says_nothing(document: str) -> None:
    found = line_facts(f"kv_canary_swa_divergence={document}")
    assert found == (LogLineKind.SWA_DIVERGENCE, {})
