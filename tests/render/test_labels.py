from __future__ import annotations

import pytest

from kvaudit.core.snapshot import PoolKey
from kvaudit.render.labels import (
    column_labels,
    count_label,
    known_label,
    listed,
    named,
    names_label,
    page_label,
    percent_label,
    place_label,
    pool_label,
    ranges_label,
)


@pytest.mark.parametrize(
    ("ratio", "label"),
    [
        (1.0, "100%"),
        (0.0, "0%"),
        (0.5, "50%"),
        (1 / 3, "33.33%"),
        (0.99999, "99.99%"),
        (1 - 1e-13, "99.99%"),
        (1e-9, "<0.01%"),
        (0.57, "57%"),
    ],
)
def test_a_percentage_is_rounded_down_and_never_hides_a_rest(ratio: float, label: str) -> None:
    assert percent_label(ratio) == label


def test_counts_carry_their_noun() -> None:
    assert count_label(1, "slot") == "1 slot"
    assert count_label(2048, "launch", "launches") == "2,048 launches"


def test_what_is_not_known_is_a_dash_and_zero_is_known() -> None:
    assert [known_label(value) for value in (None, 0, "a")] == ["-", "0", "a"]


def test_named_values_agree_in_number() -> None:
    assert named("request", ["A"]) == "request A"
    assert named("request", ["A", "B"]) == "requests A, B"


def test_runs_are_folded() -> None:
    assert ranges_label([3, 1, 2, 7, 9, 10]) == "1-3,7,9-10"
    assert ranges_label([]) == ""
    assert ranges_label([1, 3, 4, 6], most=2) == "1,3-4,..."
    assert ranges_label([1, 3, 4], most=2) == "1,3-4"


def test_long_lists_say_how_many_they_leave_out() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(10), most=3) == "0, 1, 2 and 7 more"


def test_columns_name_their_layers() -> None:
    assert column_labels(["kv.v.17"]) == ("layer 17", "kv.v.17")
    assert column_labels(["kv.k.0", "kv.k.1", "kv.v.1"]) == ("layers 0-1", "kv.k.0-1 kv.v.1")
    assert column_labels(["kv.side.scales"]) == ("no layer", "kv.side.scales")


def test_names_of_one_stem_are_folded_whatever_they_are_of() -> None:
    names = ["kv.k.0", "kv.v.0", "kv.k.1", "stamped.k.0", "canary.k.tail", "kv.k.side", "0", ""]
    assert names_label(names) == "kv.k.0-1 kv.v.0 stamped.k.0 canary.k.tail kv.k.side 0 "
    assert names_label([]) == ""


def test_a_pool_is_named_by_the_parts_of_its_key_that_are_given() -> None:
    assert pool_label(PoolKey()) == "FULL"
    key = PoolKey(instance="decode-0", group="target", tier="host", rank=3, step=120)
    assert pool_label(key) == "decode-0.target.FULL.host.r3 step 120"
    assert "\x1b" not in pool_label(PoolKey(instance="\x1b[31m"))


def test_a_slot_outside_the_pool_has_no_page() -> None:
    assert place_label(4103, page_size=16, out_of_range=False) == "slot 4103 (page 256 +7)"
    assert place_label(-1, page_size=16, out_of_range=False) == "slot -1 (outside the pool)"
    assert place_label(99, page_size=16, out_of_range=True) == "slot 99 (outside the pool)"


def test_a_page_is_said_with_all_its_slots() -> None:
    assert page_label(5, page_size=2) == "page 2 (slots 4-5)"
