"""What a user may ask of a benchmark, and how it is read and written on a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from kvaudit.constants import PARTIAL_READ_BYTES, SOURCE_ALIGNMENT_BYTES
from kvaudit.errors import ConfigError

# Below, no figure means anything, and there is no room for the damage that a proof must find.
MIN_ENTRIES: Final = 1 << 10
# num_valid of a launch is an int32.
MAX_ENTRIES: Final = (1 << 31) - 1
MAX_BYTES_PER_TOKEN: Final = 1 << 20
MAX_LAYERS: Final = 1 << 10
MAX_PAGE_SIZE: Final = 1 << 16
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Op(StrEnum):
    """What is measured: launches, and two jobs as users run them."""

    FOLD = "fold"
    VERIFY = "verify"
    STORM = "storm"
    WRITE = "write"
    PLAN = "plan"
    FILE = "file"
    DUMP = "dump"


class RealKv(StrEnum):
    """How much of a slot's bytes a launch folds."""

    NONE = "none"
    PARTIAL = "partial"
    ALL = "all"


# Operations that have a mode.
MODAL_OPS: Final = (Op.FOLD, Op.VERIFY, Op.WRITE)
_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure.

    Fields:
        ops: operations, in order.
        sizes: entries of each run: slots folded, entries checked, and so on.
        real_kv: modes of the operations that have one.
        bytes_per_token: KV bytes of a slot and layer, a multiple of 16 as engines' are.
        layers: layers of the pool, side by side in each slot. Launches read the first one.
        page_size: slots a page.
        request_tokens: tokens of a request, whole pages of them: the length of a chain.
        repeats: how often a launch is timed.
        seed: of tokens, bytes and the order of pages.

    Raises:
        ConfigError: a value is outside its range; the message names the option.
    """

    ops: Sequence[Op]
    sizes: Sequence[int]
    real_kv: Sequence[RealKv]
    bytes_per_token: int = 1024
    layers: int = 1
    page_size: int = 16
    request_tokens: int = 32 << 10
    repeats: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        for option, values in (("op", self.ops), ("sizes", self.sizes), ("real-kv", self.real_kv)):
            if not values:
                raise ConfigError(f"--{option} names nothing", hint="name at least one")
        _check_words("op", self.ops, Op)
        _check_words("real-kv", self.real_kv, RealKv)
        for size in self.sizes:
            _check_range("sizes", size, (MIN_ENTRIES, MAX_ENTRIES))
        _check_range("bytes-per-token", self.bytes_per_token, (16, MAX_BYTES_PER_TOKEN))
        if self.bytes_per_token % SOURCE_ALIGNMENT_BYTES:
            raise ConfigError(
                f"--bytes-per-token {self.bytes_per_token} is no multiple of "
                f"{SOURCE_ALIGNMENT_BYTES}",
                hint="engines read slots with 16-byte loads: round it up",
            )
        _check_range("layers", self.layers, (1, MAX_LAYERS))
        _check_range("page-size", self.page_size, (1, MAX_PAGE_SIZE))
        _check_range("request-tokens", self.request_tokens, (1, MAX_ENTRIES))
        if self.request_tokens % self.page_size:
            raise ConfigError(
                f"--request-tokens {self.request_tokens} is no multiple of --page-size "
                f"{self.page_size}",
                hint=f"requests own whole pages: give --request-tokens {self._whole_pages()}",
            )
        _check_range("repeats", self.repeats, (1, 1000))
        _check_range("seed", self.seed, (0, MAX_ENTRIES))

    @property
    def slot_bytes(self) -> int:
        """KV bytes of a slot in all layers."""
        return self.layers * self.bytes_per_token

    def read_bytes(self, mode: RealKv) -> int:
        """Bytes of a slot that a mode folds."""
        by_mode = {
            RealKv.NONE: 0,
            RealKv.PARTIAL: PARTIAL_READ_BYTES,
            RealKv.ALL: self.bytes_per_token,
        }
        return by_mode[mode]

    def _whole_pages(self) -> int:
        """request_tokens, rounded up to pages."""
        return -(-self.request_tokens // self.page_size) * self.page_size

    def reads_bytes(self) -> bool:
        """Whether anything of the run needs KV bytes."""
        folds = any(op in self.ops for op in MODAL_OPS) and set(self.real_kv) != {RealKv.NONE}
        return folds or Op.FILE in self.ops or Op.DUMP in self.ops

    def command(self, backend: str) -> str:
        """The command line that repeats the run, every option spelled out."""
        given = {
            "--sizes": ",".join(map(size_label, self.sizes)),
            "--bytes-per-token": self.bytes_per_token,
            "--layers": self.layers,
            "--op": ",".join(self.ops),
            "--backend": backend,
            "--real-kv": ",".join(self.real_kv),
            "--page-size": self.page_size,
            "--request-tokens": self.request_tokens,
            "--repeats": self.repeats,
            "--seed": self.seed,
        }
        words = [word for name, value in given.items() for word in (name, str(value))]
        return shlex.join(["kvaudit", "bench", *words])


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read `64k,1m,4m`: powers of 1024.

    Raises:
        ConfigError: a part is no size.
    """
    return tuple(dict.fromkeys(_size(part) for part in _parts(text)))


def parse_words(text: str, option: str, words: type[_Word]) -> tuple[_Word, ...]:
    """Read `fold,verify`: members of an enumeration.

    Raises:
        ConfigError: a part is none of them.
    """
    parts = _parts(text)
    _check_words(option, parts, words)
    return tuple(dict.fromkeys(words(part) for part in parts))


def size_label(size: int) -> str:
    """The shortest form that `parse_sizes` reads back."""
    for unit in ("g", "m", "k"):
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,10})([kmg]?)", text.lower())
    if found is None:
        raise ConfigError(f"--sizes {text!r} is no size", hint="write 64k, 1m or 64k,1m,4m")
    return int(found[1]) * _UNITS[found[2]]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_words(option: str, given: Iterable[str], words: type[StrEnum]) -> None:
    for word in given:
        if word not in list(words):
            raise ConfigError(f"--{option} {word!r} is unknown", hint=f"use {', '.join(words)}")


def _check_range(option: str, value: int, bounds: Iterable[int]) -> None:
    least, most = bounds
    if not least <= value <= most:
        raise ConfigError(f"--{option} {value} is out of range", hint=f"give {least} to {most}")
