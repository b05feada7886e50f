"""Flags and variables of a canary."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.errors import ConfigError
from kvaudit.runner.live.config import CanaryConfig, CanaryMode

EVERY_VARIABLE = {
    "MODE": ("raise", CanaryMode.RAISE),
    "RING_CAPACITY": ("77", 77),
    "SWEEP_INTERVAL": ("9", 9),
    "SWEEP_BYTES_PER_STEP": ("4096", 4096),
    "REAL_KV_HASH_MODE": ("partial", RealKvHashMode.PARTIAL),
    "ENABLE_WRITE_INPUT_ASSERT": ("1", True),
    "ENABLE_VERIFY_TOKEN_ASSERT": ("Yes", True),
    "VIOLATION_CHECK_EVERY_N_STEPS": ("1", 1),
    "STATS_PRINT_EVERY_N_STEPS": ("0", 0),
    "HEALTH_CHECK_EVERY_N_STEPS": ("3", 3),
    "HEALTH_CHECK_WARM_UP_STEPS": ("0", 0),
    "MAX_PREPARED_TOKENS": ("64", 64),
    "MAX_DUMPS": ("1", 1),
}


def test_an_empty_environment_gives_the_designs_defaults() -> None:
    config = CanaryConfig.from_env({"KVAUDIT_CANARY_MODE": " "})
    assert config == CanaryConfig()
    assert (config.mode, config.ring_capacity) == (CanaryMode.NONE, 1024)
    assert config.stats_print_every_n_steps == 100
    assert config.health_check_every_n_steps == config.health_check_warm_up_steps == 100


@pytest.mark.parametrize("prefix", ["KVAUDIT_CANARY_", "SGLANG_KV_CANARY_"])
def test_every_field_has_a_variable_of_both_prefixes(prefix: str) -> None:
    environ = {prefix + name: text for name, (text, _) in EVERY_VARIABLE.items()}
    config = CanaryConfig.from_env(environ)
    assert {field.name for field in fields(config)} == {name.lower() for name in EVERY_VARIABLE}
    for name, (_, value) in EVERY_VARIABLE.items():
        assert getattr(config, name.lower()) == value
        assert type(getattr(config, name.lower())) is type(value)


def test_our_variable_wins_and_an_empty_one_leaves_it_to_the_engines() -> None:
    environ = {"KVAUDIT_CANARY_RING_CAPACITY": "5", "SGLANG_KV_CANARY_RING_CAPACITY": "6"}
    assert CanaryConfig.from_env(environ).ring_capacity == 5
    environ["KVAUDIT_CANARY_RING_CAPACITY"] = ""
    assert CanaryConfig.from_env(environ).ring_capacity == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MODE", "loud"),
        ("REAL_KV_HASH_MODE", "2"),
        ("ENABLE_WRITE_INPUT_ASSERT", "maybe"),
        ("RING_CAPACITY", "0"),
        ("RING_CAPACITY", "many"),
        ("RING_CAPACITY", str((1 << 24) + 1)),
        ("MAX_PREPARED_TOKENS", str(1 << 40)),
        ("STATS_PRINT_EVERY_N_STEPS", str(1 << 63)),
        ("SWEEP_INTERVAL", "-1"),
        ("MAX_DUMPS", "1.5"),
    ],
)
@pytest.mark.parametrize("prefix", ["KVAUDIT_CANARY_", "SGLANG_KV_CANARY_"])
def test_a_bad_value_is_refused_by_the_name_of_its_variable(
    prefix: str, name: str, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        CanaryConfig.from_env({prefix + name: text})
    assert caught.value.message.startswith(f"{prefix}{name}: ")
    assert caught.value.hint.startswith("give ")


def test_a_name_with_a_typing_error_is_refused_and_an_engines_own_is_not() -> None:
    with pytest.raises(ConfigError, match=r"^KVAUDIT_CANARY_RING_CAPACTY: ") as caught:
        CanaryConfig.from_env({"KVAUDIT_CANARY_RING_CAPACTY": "5"})
    assert "RING_CAPACITY" in caught.value.hint
    assert CanaryConfig.from_env({"SGLANG_KV_CANARY_SEED": "5"}) == CanaryConfig()


def test_a_refused_value_is_shown_by_its_beginning() -> None:
    with pytest.raises(ConfigError) as caught:
        CanaryConfig.from_env({"KVAUDIT_CANARY_RING_CAPACITY": "9" * 5000})
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("name", ["MODE", "REAL_KV_HASH_MODE"])
def test_off_is_none_as_older_engines_say_it(name: str) -> None:
    config = CanaryConfig.from_env({f"SGLANG_KV_CANARY_{name}": "OFF"})
    assert getattr(config, name.lower()).name == "NONE"


@pytest.mark.parametrize(
    ("name", "value"),
    [("ring_capacity", 0), ("ring_capacity", True), ("mode", "log"), ("sweep_interval", 1.0)],
)
def test_a_value_given_in_code_is_refused_by_the_name_of_its_field(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        CanaryConfig(**{name: value})
