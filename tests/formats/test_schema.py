"""Names and types of the format."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.formats.schema import (
    INT64,
    INT64_LIST,
    RECORD,
    STRING,
    STRING_LIST,
    accepts,
    claims_family,
    column_family,
    kv_name,
    type_word,
)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("canary.k.head", "canary"),
        ("canary.v.tail", "canary"),
        ("kv.k.0", "kv"),
        ("kv.kv.17", "kv"),
        ("kv.side.k_scale", "kv"),
        ("stamped.v.3", "stamped"),
        ("stamped.side.scales", "stamped"),
        ("digest.kv.999999", "digest"),
        ("slot", None),
        ("kv", None),
        ("kv.k.1000000", None),
        ("kv.k.0\n", None),
        ("alloc.state", None),
        ("KV.k.0", None),
    ],
)
def test_a_name_has_the_family_of_its_form(name, family):
    assert column_family(name) == family


def test_names_under_our_prefixes_are_ours():
    assert all(map(claims_family, ("kv.x", "kv.", "canary.", "stamped.k", "digest.", "alloc.x")))
    assert not any(map(claims_family, ("slot", "kv", "digest", "kvx", "mine.kv.k.0", "")))


def test_hash_columns_speak_of_a_kv_column():
    assert kv_name("stamped.k.0") == "kv.k.0"
    assert kv_name("digest.side.scales") == "kv.side.scales"


@pytest.mark.parametrize(
    ("wanted", "found", "is_accepted"),
    [
        (INT64, pa.int64(), True),
        (INT64, pa.int32(), False),
        (INT64, pa.uint64(), False),
        (STRING, pa.large_string(), True),
        (STRING, pa.string_view(), True),
        (STRING, pa.dictionary(pa.int8(), pa.large_string()), True),
        (STRING, pa.binary(), False),
        (STRING, pa.dictionary(pa.int8(), pa.int64()), False),
        (INT64_LIST, pa.large_list(pa.int64()), True),
        (INT64_LIST, pa.list_view(pa.int64()), True),
        (INT64_LIST, pa.large_list_view(pa.int64()), True),
        (INT64_LIST, pa.list_(pa.int32()), False),
        (INT64_LIST, pa.list_(pa.int64(), 2), False),
        (STRING_LIST, pa.list_(pa.string_view()), True),
        (RECORD, pa.list_(pa.int64(), 4), True),
        (RECORD, pa.list_(pa.int64(), 5), False),
        (RECORD, pa.list_(pa.uint64(), 4), False),
        (pa.int64(), pa.run_end_encoded(pa.int32(), pa.int64()), False),
    ],
)
def test_only_text_and_lists_have_variants(wanted, found, is_accepted):
    assert accepts(wanted, found) is is_accepted


@pytest.mark.parametrize(
    ("arrow_type", "word"),
    [
        (pa.int64(), "int64"),
        (RECORD, "fixed_size_list<int64>[4]"),
        (pa.list_(pa.field("element", pa.int64())), "list<int64>"),
        (pa.large_list(pa.int64()), "large_list<int64>"),
        (STRING_LIST, "list<string>"),
        (pa.binary(16), "fixed_size_binary[16]"),
    ],
)
def test_type_words_do_not_depend_on_names_of_inner_fields(arrow_type, word):
    assert type_word(arrow_type) == word
