"""Metadata is text until it is proven."""

from __future__ import annotations

from enum import StrEnum

import pytest

from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import SchemaMismatch
from kvaudit.formats.metadata_values import MetadataValues, check_metadata
from kvaudit.formats.schema import NUMBER_BOUNDS


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def values(**metadata: str) -> MetadataValues:
    return MetadataValues(metadata, "a.arrow")


def test_what_nobody_read_is_the_rest():
    found = values(rank="1", b="2")
    assert found.peek("rank") == "1"
    assert found.number("rank") == 1
    assert found.rest() == {"b": "2"}


def test_an_absent_key_is_none_or_the_default():
    found = values()
    assert found.text("a") is None
    assert found.number("rank") is None
    assert found.names("a") == ()
    assert found.word("a", Colour.BLUE) is Colour.BLUE


@pytest.mark.parametrize(
    "text", ["", "-", "+1", " 1", "1 ", "1.0", "0x1", "--1", "1_0", "²", "9" * 50]
)
def test_only_plain_decimal_numbers_are_numbers(text):
    with pytest.raises(SchemaMismatch) as caught:
        values(step=text).number("step")
    assert caught.value.path == "a.arrow"
    assert "kvaudit.step" in caught.value.message


def test_a_number_that_a_file_cannot_do_without_is_demanded_by_name():
    assert values(step="3").required_number("step") == 3
    with pytest.raises(SchemaMismatch, match=r"no metadata key kvaudit\.step") as caught:
        values().required_number("step")
    assert caught.value.path == "a.arrow"


@pytest.mark.parametrize("key", sorted(NUMBER_BOUNDS))
def test_bounds_of_a_number_are_inclusive_for_readers_and_writers(key):
    least, most = NUMBER_BOUNDS[key]
    for number in (least, most):
        assert values(**{key: str(number)}).number(key) == number
        check_metadata({key: str(number)}, path="a.arrow")
    for number in (least - 1, most + 1):
        with pytest.raises(SchemaMismatch):
            values(**{key: str(number)}).number(key)
        with pytest.raises(SchemaMismatch) as caught:
            check_metadata({key: str(number)}, path="a.arrow")
        assert caught.value.path == "a.arrow"


def test_words_are_those_of_the_enumeration():
    assert values(a="red").word("a", Colour.BLUE) is Colour.RED
    with pytest.raises(SchemaMismatch, match="red or blue"):
        values(a="Red").word("a", Colour.BLUE)


@pytest.mark.parametrize("text", ["", "a", "{}", "[1]", '["a", null]', '"a"', "[" * 5000])
def test_names_are_a_json_list_of_texts(text):
    assert values(a='["x","y"]').names("a") == ("x", "y")
    with pytest.raises(SchemaMismatch):
        values(a=text).names("a")


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(SchemaMismatch) as caught:
        values(rank="x" * 10_000).number("rank")
    assert len(caught.value.message) < 300


def test_a_pairing_key_knows_which_parts_were_given():
    key, given = values(pool_kind="SWA", rank="3", note="x").pool_key()
    assert key == PoolKey(pool="SWA", pool_kind=PoolKind.SWA, rank=3)
    assert given == {"pool_kind": "SWA", "rank": 3}
    key, given = values().pool_key()
    assert key == PoolKey()
    assert given == {}
