"""How a canary runs, as an engine's flags or its environment say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import Enum, StrEnum
from typing import Any, Final

from kvaudit.constants import RealKvHashMode
from kvaudit.errors import ConfigError

# The first prefix wins; the second is what engines with a canary of their own are set by.
PREFIXES: Final = ("KVAUDIT_CANARY_", "SGLANG_KV_CANARY_")
# Rows of a ring of 1 GiB. What stays allocated has a limit, so that a typing error is told by name.
_MAX_ROWS: Final = 1 << 24
_MAX_COUNT: Final = (1 << 63) - 1
# Of a value that is refused: a variable may hold anything.
_MAX_SHOWN: Final = 80

_BOOLS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class CanaryMode(StrEnum):
    """What a canary does about violations."""

    NONE = "none"
    """The canary is off: nothing is launched."""
    LOG = "log"
    """Each is a warning of seven frozen lines."""
    RAISE = "raise"
    """They are raised in the engine, as one CanaryViolationError."""
    DUMP = "dump"
    """Each is logged; the flight recorder dumps the first, and serving goes on."""


def _number(default: int, *, at_least: int, at_most: int = _MAX_COUNT) -> int:
    return field(default=default, metadata={"at_least": at_least, "at_most": at_most})


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig:
    """How a canary runs.

    Fields:
        mode: what it does about violations.
        ring_capacity: violations whose rows are kept; all are counted.
        sweep_interval: steps from the start of a sweep to the start of the next; 0 = no sweeps.
        sweep_bytes_per_step: bytes that the sweep of one step may read, records included; a pass
            goes on in the next step. Below one entry's bytes it still takes one entry a step.
        real_kv_hash_mode: how much of a slot's KV bytes is hashed.
        enable_write_input_assert: whether written tokens and positions are compared with those that
            the engine expects.
        enable_verify_token_assert: whether stored tokens are compared with the engine's.
        violation_check_every_n_steps: steps between two looks at the ring; 1 tells of a violation
            soonest.
        stats_print_every_n_steps: steps between two lines of statistics; 0 = none.
        health_check_every_n_steps: steps between two checks of the counters; 0 = none.
        health_check_warm_up_steps: steps before the first of them; the end of a run is checked all
            the same.
        max_prepared_tokens: tokens of the largest batch whose launches are prepared once and repeated:
            it is copied to buffers that stay. Larger ones are launched as they come; 0 = all.
        max_dumps: dumps of the flight recorder in the process's life.

    Raises:
        ConfigError: a value is outside its range; the message names the field.
    """

    mode: CanaryMode = CanaryMode.NONE
    ring_capacity: int = _number(1024, at_least=1, at_most=_MAX_ROWS)
    sweep_interval: int = _number(0, at_least=0)
    sweep_bytes_per_step: int = _number(64 << 20, at_least=1)
    real_kv_hash_mode: RealKvHashMode = RealKvHashMode.NONE
    enable_write_input_assert: bool = False
    enable_verify_token_assert: bool = False
    violation_check_every_n_steps: int = _number(8, at_least=1)
    stats_print_every_n_steps: int = _number(100, at_least=0)
    health_check_every_n_steps: int = _number(100, at_least=0)
    health_check_warm_up_steps: int = _number(100, at_least=0)
    max_prepared_tokens: int = _number(512, at_least=0, at_most=_MAX_ROWS)
    max_dumps: int = _number(4, at_least=1)

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(getattr(self, item.name), item, name=item.name)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> CanaryConfig:
        """What the variables of an environment say; an empty one counts for nothing.

        Args:
            environ: such as os.environ: KVAUDIT_CANARY_<FIELD>, else SGLANG_KV_CANARY_<FIELD>.

        Raises:
            ConfigError: a value cannot be understood, or a variable of ours is none of the fields;
                the message names the variable.
        """
        _refuse_unknown(environ, [item.name.upper() for item in fields(cls)])
        values: dict[str, Any] = {}
        for item in fields(cls):
            for prefix in PREFIXES:
                variable = prefix + item.name.upper()
                if text := environ.get(variable, "").strip():
                    values[item.name] = _parsed(text, item, variable=variable)
                    break
        return cls(**values)


def _refuse_unknown(environ: Mapping[str, str], names: Sequence[str]) -> None:
    """Refuse a name with a typing error; an engine's prefix may have names of its own.

    Raises:
        ConfigError: naming the variable.
    """
    own, _ = PREFIXES
    for variable in environ:
        if variable.startswith(own) and variable.removeprefix(own) not in names:
            raise ConfigError(
                f"{variable}: there is no such variable",
                hint=f"after {own} stands {', '.join(names[:-1])} or {names[-1]}",
            )


def _parsed(text: str, item: Field[Any], *, variable: str) -> object:
    """The value of a variable.

    Raises:
        ConfigError: naming the variable.
    """
    if isinstance(item.default, Enum):
        # Engines before 0.5.23 say `off` where later ones say `none`.
        name = "NONE" if text.lower() == "off" else text.upper()
        members = type(item.default).__members__
        if name not in members:
            raise _refused(variable, text, f"give {', '.join(members).lower()}")
        return members[name]
    if isinstance(item.default, bool):
        if text.lower() not in _BOOLS:
            raise _refused(variable, text, f"give {', '.join(_BOOLS)}")
        return _BOOLS[text.lower()]
    try:
        value = int(text)
    except ValueError:
        raise _refused(variable, text, "give a whole number") from None
    _check(value, item, name=variable)
    return value


def _check(value: object, item: Field[Any], *, name: str) -> None:
    """Refuse a value of another type or outside its field's limits.

    Raises:
        ConfigError: naming the field, or its variable.
    """
    kind = type(item.default)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        raise _refused(name, value, f"give a {kind.__name__}")
    if "at_least" not in item.metadata or not isinstance(value, int):
        return
    at_least, at_most = item.metadata["at_least"], item.metadata["at_most"]
    if value < at_least:
        raise _refused(name, value, f"give {at_least} or more")
    if value > at_most:
        raise _refused(name, value, f"give {at_most} or less")


def _refused(name: str, value: object, hint: str) -> ConfigError:
    return ConfigError(f"{name}: {repr(value)[:_MAX_SHOWN]} cannot be used", hint=hint)
