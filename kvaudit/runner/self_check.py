"""Proof that this run's kernels catch damage: a planted bad entry, and good ones around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kvaudit.constants import (
    CHAIN_ANCHOR,
    NO_PREDECESSOR,
    PREDECESSOR_UNREACHABLE,
    FailReason,
    LaunchTag,
)
from kvaudit.core.backend import Backend
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.observer import RunObserver
from kvaudit.errors import SelfCheckFailed

# Known answers (DESIGN.md 3), none of them computed by the backend under test: the chain hash
# after token 11 at position 0, and the fold of bytes 00 01 .. 0f with its real_kv_hash.
_TOKENS: Final = (11, 12)
_SECOND_PREV_HASH: Final = 0x89CD_2ABF_BEBC_0649
_SOURCE_HASH: Final = 0x447F_1B95_028C_E131
_REAL_KV_HASH: Final = 0xD6D7_5024_DFD6_C30C
_BYTES: Final = bytes(range(16))

_FIRST, _SECOND, _ORPHAN = 1, 2, 3
_HINT: Final = "no verdict of this run can be trusted: run `kvaudit doctor`, or --backend reference"
_ALL_OF_THEM: Final = (
    FailReason.VERIFY_CHAIN_HASH_MISMATCH
    | FailReason.VERIFY_POSITION_MISMATCH
    | FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    | FailReason.VERIFY_TOKEN_MISMATCH
)


def prepare(backend: Backend, observer: RunObserver, *, writes: bool = False) -> str:
    """Compile what is not compiled yet, which takes seconds and is announced; then self-check.

    Args:
        backend: what computes.
        observer: told before anything is compiled.
        writes: whether the run writes records too, as a stamp does.

    Returns:
        `passed`.

    Raises:
        SelfCheckFailed: as in `self_check`.
    """
    if backend.needs_compilation(writes=writes):
        observer.compiling(is_kept=backend.keeps_code())
        backend.compile_kernels(writes=writes)
    return self_check(backend)


def self_check(backend: Backend) -> str:
    """Fold, combine and verify a private two-slot pool with one planted bad entry.

    Returns:
        `passed`.

    Raises:
        SelfCheckFailed: the bad entry was missed, or a good one was not passed.
    """
    _check_fold(backend)
    records = np.zeros((3, 4), dtype=np.uint64)
    records[_FIRST] = (_TOKENS[0], 0, CHAIN_ANCHOR, _REAL_KV_HASH)
    records[_SECOND] = (_TOKENS[1], 1, _SECOND_PREV_HASH, _REAL_KV_HASH)
    # The last entry asks for everything that slot 2 is not.
    reasons = backend.verify(
        records=records.view(np.int64),
        slot_indices=np.array([_FIRST, _SECOND, _SECOND], dtype=np.int64),
        expected_tokens=np.array([*_TOKENS, _TOKENS[1] + 1], dtype=np.int64),
        expected_positions=np.array([0, 1, 2], dtype=np.int64),
        prev_slot_indices=np.array([NO_PREDECESSOR, _FIRST, NO_PREDECESSOR], dtype=np.int64),
        real_kv_hashes=np.array([_REAL_KV_HASH, _REAL_KV_HASH, 0], dtype=np.uint64),
        tag=LaunchTag.TAIL_K_FULL,
        check_expected_token=True,
    )
    if reasons.tolist() != [0, 0, int(_ALL_OF_THEM)]:
        raise _failed(backend, f"verify gave the reason bits {reasons.tolist()}")
    return "passed"


def check_chain(launch_chain: Callable[..., None]) -> None:
    """Join three records: a head, its successor, and one whose predecessor's hash has a flipped bit.

    Raises:
        SelfCheckFailed: the orphan was linked, or the link was missed.
    """
    records = np.zeros((4, 4), dtype=np.uint64)
    records[_FIRST] = (_TOKENS[0], 0, CHAIN_ANCHOR, 0)
    records[_SECOND] = (_TOKENS[1], 1, _SECOND_PREV_HASH, 0)
    records[_ORPHAN] = (_TOKENS[1], 1, _SECOND_PREV_HASH ^ 1, 0)
    slots = np.array([_FIRST, _SECOND, _ORPHAN], dtype=np.int64)
    prev_slots = np.zeros_like(slots)
    launch_chain(records, slots, prev_slots, np.zeros(1, dtype=np.int64))
    if prev_slots.tolist() != [NO_PREDECESSOR, _FIRST, PREDECESSOR_UNREACHABLE]:
        raise SelfCheckFailed(
            f"chain recovery failed its self-check: it linked {prev_slots.tolist()}", hint=_HINT
        )


def check_distance(launch_distance: Callable[..., None]) -> None:
    """Measure three rows: an equal one, one of zeros, and one that is an element off.

    Raises:
        SelfCheckFailed: one of the distances is another.
    """
    rows = np.array([[3, 4], [0, 0], [3, 5]], dtype=np.float32)
    expected = np.array([[3, 4], [3, 4], [3, 4]], dtype=np.float32)
    distances = np.full(len(rows), -1.0)
    launch_distance(rows, expected, distances)
    if not np.allclose(distances, [0, 1, 1 / np.sqrt(34)], rtol=1e-12, atol=0):
        raise SelfCheckFailed(
            f"layer 0 failed its self-check: it measured {distances.tolist()}", hint=_HINT
        )


def _check_fold(backend: Backend) -> None:
    """Two slots, one with a flipped bit: the good one's hash is known, the other's is not it."""
    data = np.frombuffer(_BYTES * 2, dtype=np.uint8).reshape(2, len(_BYTES)).copy()
    data[1, 5] ^= 1
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=len(_BYTES))
    hashes = backend.fold(column, np.array([0, 1], dtype=np.int64))
    if int(hashes[0]) != _SOURCE_HASH or int(hashes[1]) == _SOURCE_HASH:
        raise _failed(backend, "fold missed a flipped bit or gave a wrong hash")
    if int(backend.combine([hashes])[0]) != _REAL_KV_HASH:
        raise _failed(backend, "combine gave a wrong hash")


def _failed(backend: Backend, what: str) -> SelfCheckFailed:
    return SelfCheckFailed(
        f"the {backend.name} backend failed its self-check: {what}",
        hint=_HINT,
    )
