"""A table as named values."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kvaudit.core.layer0_table import TableSource
from kvaudit.core.layout import SlotRanges
from kvaudit.core.rope import Rope
from kvaudit.errors import ConfigError
from kvaudit.render.file_facts import file_facts
from kvaudit.render.slot_rows import slot_rows
from tests.helpers.layer0_tables import layer0_table


def test_a_learnt_table_is_described_by_its_rows_and_what_they_rest_on() -> None:
    facts = file_facts(layer0_table(path="a.arrow"))
    assert (facts["file"], facts["kind"], facts["model"]) == ("a.arrow", "table", "toy")
    assert facts["tokens"] == "2, from 3 to 8"
    assert facts["rows"] == dict.fromkeys(("k0", "v0"), "2 heads of 4 bfloat16, 16 B a token")
    assert facts["rope"] == "2 of 4 elements, interleaved layout, slowest 1 rad a position"
    assert facts["learnt_from"] == {"rows": 8, "agreeing": 7, "tokens_seen_once": 1}
    assert json.loads(json.dumps(facts)) == facts


def test_a_table_of_a_model_says_what_it_does_not_know() -> None:
    facts = file_facts(
        layer0_table(
            k0=None, rope=None, source=TableSource.MODEL, rows_seen=None, rows_agreeing=None
        )
    )
    assert list(facts["rows"]) == ["v0"]
    assert facts["rope"] is None
    assert "learnt_from" not in facts


def test_a_table_without_tokens_is_described() -> None:
    rows = np.empty((0, 16), dtype=np.uint8)
    counts = np.empty(0, dtype=np.int64)
    table = layer0_table(tokens=counts, k0=rows, v0=rows, rows_seen=counts, rows_agreeing=counts)
    assert file_facts(table)["tokens"] == "none"


def test_a_rotation_is_described_by_what_is_odd_in_it() -> None:
    rope = Rope(inverse_frequencies=np.array([0.5]), head_dim=4, first_dim=2, factor=1.25)
    words = file_facts(layer0_table(rope=rope))["rope"]
    assert "from element 2 on, times 1.25" in words
    still = Rope(inverse_frequencies=np.zeros(1), head_dim=4)
    assert file_facts(layer0_table(rope=still))["rope"] == "K is not rotated"


def test_a_table_has_no_slots_to_show() -> None:
    with pytest.raises(ConfigError):
        slot_rows(layer0_table(), SlotRanges(((0, 3),)))
