"""What the names of columns tell."""

from __future__ import annotations

from kvaudit.core.column_names import (
    canary_name,
    column_half,
    column_layer,
    column_order,
    digest_name,
    stamped_name,
    tail_of,
)
from kvaudit.core.launch_tag import KvHalf


def test_names_give_half_and_layer() -> None:
    assert (column_half("kv.v.17"), column_layer("kv.v.17")) == (KvHalf.V, 17)
    assert (column_half("kv.kv.3"), column_layer("kv.kv.3")) == (KvHalf.K, 3)
    assert (column_half("kv.side.scales"), column_layer("kv.side.scales")) == (KvHalf.K, None)


def test_columns_stand_in_layer_order_with_side_buffers_last() -> None:
    names = ["kv.side.scales", "kv.v.10", "kv.k.2", "kv.v.2", "kv.k.10"]
    assert sorted(names, key=column_order) == [
        "kv.k.2",
        "kv.v.2",
        "kv.k.10",
        "kv.v.10",
        "kv.side.scales",
    ]


def test_columns_are_named_as_in_the_file() -> None:
    assert [stamped_name("kv.k.0"), digest_name("kv.side.scales")] == [
        "stamped.k.0",
        "digest.side.scales",
    ]
    assert canary_name(tail_of(KvHalf.V)) == "canary.v.tail"
