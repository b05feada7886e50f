from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvaudit.bench.options import Op, RealKv, parse_sizes, parse_words, size_label
from kvaudit.errors import ConfigError
from tests.helpers.bench_pools import options


def test_sizes_are_powers_of_1024_and_each_is_measured_once() -> None:
    assert parse_sizes("64k, 1M,4m,65536,5000") == (1 << 16, 1 << 20, 1 << 22, 5000)


@pytest.mark.parametrize("text", ["64q", "k", "1.5m", "-1", "64 k", "0x10", "9" * 11])
def test_what_is_no_size_is_an_error_of_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--sizes"):
        parse_sizes(text)


@pytest.mark.parametrize("size", [1024, 5000, 65536, 3 << 20, 1 << 30])
def test_the_label_of_a_size_is_read_back(size: int) -> None:
    assert parse_sizes(size_label(size)) == (size,)


def test_words_keep_their_order_and_unknown_ones_are_named() -> None:
    assert parse_words("verify,fold,verify", "op", Op) == (Op.VERIFY, Op.FOLD)
    with pytest.raises(ConfigError, match="--op 'sort'") as raised:
        parse_words("fold,sort", "op", Op)
    assert "dump" in raised.value.hint


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        ("--sizes", {"sizes": (1023,)}),
        ("--sizes", {"sizes": (1 << 31,)}),
        ("--sizes", {"sizes": ()}),
        ("--op", {"ops": ()}),
        ("--op", {"ops": ("sort",)}),
        ("--real-kv", {"real_kv": ("some",)}),
        ("--real-kv", {"real_kv": ()}),
        ("--bytes-per-token", {"bytes_per_token": 0}),
        ("--bytes-per-token", {"bytes_per_token": 40}),
        ("--bytes-per-token", {"bytes_per_token": 2 << 20}),
        ("--layers", {"layers": 0}),
        ("--layers", {"layers": 2000}),
        ("--page-size", {"page_size": 0}),
        ("--request-tokens", {"request_tokens": 6}),
        ("--request-tokens", {"request_tokens": 0}),
        ("--repeats", {"repeats": 0}),
        ("--seed", {"seed": -1}),
    ],
)
def test_a_value_outside_its_range_is_an_error_of_its_option(
    option: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=option) as raised:
        options(**changes)
    assert raised.value.hint


def test_requests_of_broken_pages_are_refused_with_a_length_that_will_do() -> None:
    with pytest.raises(ConfigError) as raised:
        options(page_size=7, request_tokens=32768)
    assert "--request-tokens 32774" in raised.value.hint


def test_the_modes_read_nothing_16_bytes_or_all() -> None:
    assert [options().read_bytes(mode) for mode in RealKv] == [0, 16, 64]


def test_bytes_are_needed_by_a_mode_that_folds_and_by_the_jobs() -> None:
    none = {"real_kv": (RealKv.NONE,)}
    assert options().reads_bytes()
    assert not options(**none).reads_bytes()
    assert not options(ops=(Op.PLAN,)).reads_bytes()
    assert options(ops=(Op.FILE,), **none).reads_bytes()


def test_the_command_spells_every_option_out() -> None:
    words = shlex.split(options(sizes=(1 << 16, 1 << 20), layers=3, seed=5).command("cuda"))
    assert words[:2] == ["kvaudit", "bench"]
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given == {
        "--sizes": "64k,1m",
        "--bytes-per-token": "64",
        "--layers": "3",
        "--op": "fold,verify,write,plan",
        "--backend": "cuda",
        "--real-kv": "none,all",
        "--page-size": "4",
        "--request-tokens": "256",
        "--repeats": "1",
        "--seed": "5",
    }
