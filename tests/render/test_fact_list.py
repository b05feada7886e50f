from __future__ import annotations

from kvaudit.render.fact_list import fact_list


def shown(facts) -> list[str]:
    return [text.plain for text in fact_list(facts)]


def test_a_fact_takes_a_line_and_its_value_has_a_word_for_everything() -> None:
    facts = {"kind": "snapshot", "window": None, "checksummed": True, "columns": ["a", "b"]}
    assert shown(facts) == [
        "kind         snapshot",
        "window       -",
        "checksummed  yes",
        "columns      a b",
    ]


def test_columns_of_many_layers_are_folded() -> None:
    assert shown({"columns": ["kv.k.0", "kv.k.1", "canary.k.tail"]}) == [
        "columns  kv.k.0-1 canary.k.tail"
    ]
    assert shown({"columns": []}) == ["columns  -"]


def test_a_mapping_takes_a_line_an_item() -> None:
    assert shown({"key": {"pool": "FULL", "rank": 3}}) == ["key  pool FULL", "     rank 3"]


def test_an_empty_mapping_takes_no_line() -> None:
    assert shown({"key": {}}) == []


def test_a_list_of_mappings_is_a_table_at_the_end() -> None:
    facts = {"slot_rows": [{"slot": 9, "token": 11}, {"slot": 10, "token": None}], "kind": "x"}
    assert shown(facts) == ["kind  x", "", "slot 9   token 11", "slot 10  token -"]


def test_values_cannot_command_the_terminal() -> None:
    assert shown({"metadata": {"a\x1b": "\x1b[2J"}}) == ["metadata  a\\x1b \\x1b[2J"]
