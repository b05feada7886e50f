"""What an engine hands over becomes plain values, or an error that names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.capture import arguments
from kvaudit.core.layout import SlotRanges
from kvaudit.errors import ConfigError


@pytest.mark.parametrize("value", [4, np.int32(4), torch.tensor(4)])
def test_whole_numbers_of_any_type_are_ints(value: object) -> None:
    number = arguments.integer(value, "page_size", at_least=1)
    assert (number, type(number)) == (4, int)


@pytest.mark.parametrize("value", [0, -4, 4.0, "4", None, 1 << 49])
def test_other_numbers_are_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^page_size: "):
        arguments.integer(value, "page_size", at_least=1)


def test_names_may_be_numbers_of_a_list_an_array_or_a_tensor() -> None:
    for ids in ([7, 8], np.array([7, 8]), torch.tensor([7, 8]), ("7", "8")):
        assert arguments.texts(ids, "request_ids") == ["7", "8"]


@pytest.mark.parametrize("value", ["\ud800", "x" * (1 << 17)])
def test_a_name_that_no_file_holds_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^request_ids\[1\]: "):
        arguments.texts(["a", value], "request_ids")


@pytest.mark.parametrize(
    "values", [{"a": [1]}, {1, 2}, (page for page in [[1]]), 5, torch.tensor(5), "ab", None]
)
def test_what_has_no_entry_a_request_is_refused(values: Any) -> None:
    with pytest.raises(ConfigError, match=r"^page_tables: "):
        arguments.indexed(values, "page_tables")


def test_slots_are_ranges_in_words() -> None:
    assert arguments.slot_ranges("0,4-7", "reserved_slots") == SlotRanges(((0, 0), (4, 7)))


@pytest.mark.parametrize("value", [0, None, [0], range(4), "x", "3-1", "-1"])
def test_other_slots_are_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^reserved_slots: "):
        arguments.slot_ranges(value, "reserved_slots")


def test_metadata_is_strings() -> None:
    assert arguments.schema_metadata(None) == {}
    assert arguments.schema_metadata({"world_size": 8, "tier": "host"}) == {  # type: ignore[dict-item] # a number is written as a string
        "world_size": "8",
        "tier": "host",
    }


@pytest.mark.parametrize(
    "metadata",
    [
        {"rank": "7"},
        {"page_size": "99"},
        {"kind": "plan"},
        {"sequences": "other"},
        "x",
        {"a": "\ud800"},
    ],
)
def test_metadata_that_contradicts_the_dump_is_refused(metadata: Any) -> None:
    with pytest.raises(ConfigError, match=r"^metadata"):
        arguments.schema_metadata(metadata)
