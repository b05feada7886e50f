"""Values of a configuration, each of the type that is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from kvaudit.core.model_config import ModelConfig
from kvaudit.errors import SchemaMismatch


def _config(**values: Any) -> ModelConfig:
    return ModelConfig(values, path="config.json")


def test_values_come_as_they_are_asked_for() -> None:
    config = _config(
        theta=1e4, layers=3, bias=True, name="a", factors=[1, 2.5], kinds=["x", "y"], text={"n": 4}
    )
    assert (config.number("theta"), config.count("layers"), config.flag("bias")) == (1e4, 3, True)
    assert (config.text("name"), config.numbers("factors")) == ("a", [1.0, 2.5])
    assert (config.first("kinds"), config.section("text").count("n")) == ("x", 4)


def test_what_is_missing_or_null_has_its_default() -> None:
    config = _config(none=None)
    for key in ("none", "absent"):
        assert not config.has(key)
        assert (config.number(key, 2.0), config.count(key, 5), config.flag(key)) == (2.0, 5, False)
        assert (config.text(key), config.first(key), config.section(key)) == ("", None, None)


@pytest.mark.parametrize("value", [None, "1", True, float("nan"), float("inf"), [1]])
def test_a_number_is_finite(value: object) -> None:
    with pytest.raises(SchemaMismatch, match="theta"):
        _config(theta=value).number("theta")


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, True, "3", 1 << 40])
def test_a_count_is_whole_and_above_0(value: object) -> None:
    with pytest.raises(SchemaMismatch, match="layers"):
        _config(layers=value).count("layers")


def test_texts_lists_and_objects_are_such() -> None:
    config = _config(a=1, b=["x"], c=True)
    for ask in (config.text, config.numbers, config.section):
        with pytest.raises(SchemaMismatch, match="a is 1"):
            ask("a")
    with pytest.raises(SchemaMismatch):
        config.numbers("b")


def test_an_error_says_where_in_the_file_the_value_stands() -> None:
    inner = _config(text={"rope": {}}).section("text").section("rope")
    with pytest.raises(SchemaMismatch, match=r"text\.rope\.theta is missing") as caught:
        inner.number("theta")
    assert (caught.value.path, bool(caught.value.hint)) == ("config.json", True)
