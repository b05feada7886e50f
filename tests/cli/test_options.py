from __future__ import annotations

import pytest

from kvaudit.cli.options import families, layers, rules
from kvaudit.core.coverage import Family
from kvaudit.errors import ConfigError


def test_families_may_be_repeated_or_joined() -> None:
    assert families(None) is None
    assert families([]) is None
    assert families(["index", "records, bytes"]) == {Family.INDEX, Family.RECORDS, Family.BYTES}


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        families(["index", "kv"])
    assert "identity" in raised.value.hint


def test_layers_are_numbers_and_ranges() -> None:
    assert layers(None) is None
    assert layers(["17", "0-2,5"]) == (0, 1, 2, 5, 17)


@pytest.mark.parametrize("text", ["k", "-1", "3-1", "1-", "1.5", "9999999"])
def test_a_layer_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        layers([text])


def test_rules_may_be_repeated_or_joined_and_keep_their_spelling() -> None:
    assert rules(None) == ()
    assert rules(["KV101", "kv2, slot-alias"]) == ("KV101", "kv2", "slot-alias")
