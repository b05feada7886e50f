"""The pools of the self-test: small, stamped here, and clean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_PREDECESSOR
from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.element_types import encoded
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn, RowColumn
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import AllocState, Snapshot
from kvaudit.runner.stamp import computed, stamp

_NUM_REQUESTS: Final = 4
_LENGTH: Final = 24
_PAGE_SIZE: Final = 4
_ROW_BYTES: Final = 64
_NUM_SLOTS: Final = 2 * _PAGE_SIZE + _NUM_REQUESTS * _LENGTH
_LAYERS: Final = ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")
_HEAD_DIM: Final = _ROW_BYTES // 2
# So few that each comes on several pages of several requests.
_VOCABULARY: Final = 8
_SIDE: Final = "kv.side.scales"


def self_test_pools(backend: Backend) -> Mapping[str, AuditedPool]:
    """Pools by what they have, each of requests on scattered pages.

    `stamped` has records and stamps, of a side buffer too; `layers` no side buffer; `planned` a plan
    in the place of sequences; `allocated` the columns of an allocator and of a window's map. Those
    contradict a fault of the tables alone, which would be a second finding. Layer 0 of `layer0` is
    what tokens and positions make of it, and its tokens come again.

    Args:
        backend: what stamps them.
    """
    rng = np.random.default_rng(0)
    sequences = _sequences(rng)
    stamped = _stamped(
        backend, sequences, columns=(*_LAYERS, _SIDE), data=_finite(len(_LAYERS) + 1, rng)
    )
    layers = _stamped(backend, sequences, columns=_LAYERS, data=_finite(len(_LAYERS), rng))
    allocated = replace(layers, evidence=_evidence(sequences))
    return {
        "stamped": AuditedPool(snapshot=stamped, sequences=(sequences,)),
        "layers": AuditedPool(snapshot=layers, sequences=(sequences,)),
        "layer0": _of_tokens(backend, sequences, rng=rng),
        "planned": AuditedPool(snapshot=layers, plans=(_plan(sequences),)),
        "allocated": AuditedPool(snapshot=allocated, sequences=(sequences,)),
    }


def _finite(num_columns: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Bytes of columns, shape [num_columns, num_slots, row_bytes], uint8."""
    data = rng.integers(1, 256, (num_columns, _NUM_SLOTS, _ROW_BYTES), dtype=np.uint8)
    # Without this bit no element of a float type is a NaN or an infinity.
    return data & np.uint8(0xBF)


def _stamped(
    backend: Backend, sequences: Sequences, *, columns: tuple[str, ...], data: NDArray[np.uint8]
) -> Snapshot:
    bare = Snapshot(
        slots=np.arange(_NUM_SLOTS, dtype=np.int64),
        num_slots=_NUM_SLOTS,
        page_size=_PAGE_SIZE,
        kv={
            name: ArrayKvColumn(name=name, data=part, read_bytes=_ROW_BYTES, dtype="bfloat16")
            for name, part in zip(columns, data, strict=True)
        },
    )
    pool = AuditedPool(snapshot=bare, sequences=(sequences,))
    return computed(stamp(pool, backend=backend, combined=_LAYERS[:1]))


def _of_tokens(backend: Backend, sequences: Sequences, *, rng: np.random.Generator) -> AuditedPool:
    """A stamped pool of a few words, whose layer 0 is a function of token and position."""
    tokens = rng.integers(0, _VOCABULARY, len(sequences.tokens))
    words = replace(sequences, tokens=tokens)
    rope = Rope(
        inverse_frequencies=plain_frequencies(theta=10_000.0, rotary_dim=_HEAD_DIM),
        head_dim=_HEAD_DIM,
    )
    k0, v0 = rng.standard_normal((2, _VOCABULARY, 1, _HEAD_DIM)).astype(np.float32)
    k = rope.rotated(k0[tokens], np.arange(len(tokens)) % _LENGTH)
    data = _finite(len(_LAYERS), rng)
    for column, rows in zip(data, (k, v0[tokens]), strict=False):
        column[words.slots] = encoded(rows.reshape(len(tokens), _HEAD_DIM), "bfloat16")
    snapshot = _stamped(backend, words, columns=_LAYERS, data=data)
    snapshot = replace(snapshot, metadata={"rope": rope.to_json()})
    return AuditedPool(snapshot=snapshot, sequences=(words,))


def _sequences(rng: np.random.Generator) -> Sequences:
    """Requests on whole pages in random order; the first and the last page of the pool are free."""
    pages = rng.permutation(np.arange(1, 1 + _NUM_REQUESTS * _LENGTH // _PAGE_SIZE))
    slots = pages[:, None] * _PAGE_SIZE + np.arange(_PAGE_SIZE)
    offsets = np.arange(0, (_NUM_REQUESTS + 1) * _LENGTH, _LENGTH, dtype=np.int64)
    return Sequences(
        request_ids=[f"request-{number}" for number in range(_NUM_REQUESTS)],
        token_offsets=offsets,
        tokens=rng.permutation(np.arange(1, 1 + _NUM_REQUESTS * _LENGTH, dtype=np.int64)),
        slot_offsets=offsets,
        slots=slots.ravel().astype(np.int64),
        kv_lens=np.full(_NUM_REQUESTS, _LENGTH, dtype=np.int64),
        start_positions=np.zeros(_NUM_REQUESTS, dtype=np.int64),
        prompt_lens=np.full(_NUM_REQUESTS, -1, dtype=np.int64),
        states=[SequenceState.RUNNING] * _NUM_REQUESTS,
        extra_keys=[None] * _NUM_REQUESTS,
    )


def _plan(sequences: Sequences) -> PlanDump:
    """All positions of all requests as one launch."""
    slots = sequences.slots
    prev_slots = np.roll(slots, 1)
    prev_slots[sequences.slot_offsets[:-1]] = NO_PREDECESSOR
    plan = VerifyPlan(
        verify_slot_indices=slots,
        verify_expected_tokens=sequences.tokens,
        verify_expected_positions=np.arange(len(slots), dtype=np.int64) % _LENGTH,
        verify_prev_slot_indices=prev_slots,
        num_valid=len(slots),
    )
    names = np.repeat(np.array(sequences.request_ids, dtype=object), _LENGTH).tolist()
    launch = PlannedLaunch(
        step=0, tags=None, plan=plan, check_verify_expected_token=True, request_ids=names
    )
    return PlanDump(launches=[launch])


def _evidence(sequences: Sequences) -> dict[str, RowColumn]:
    """One reference a slot in use, and a window slot of its own."""
    in_use = np.zeros(_NUM_SLOTS, dtype=np.bool_)
    in_use[sequences.slots] = True
    states: NDArray[Any] = np.where(in_use, str(AllocState.LIVE), str(AllocState.FREE))
    values: dict[str, NDArray[Any]] = {
        "swa_slot": np.where(in_use, np.arange(_NUM_SLOTS), 0).astype(np.int64),
        "alloc.ref": in_use.astype(np.int32),
        "alloc.state": states.astype(object),
    }
    return {name: ArrayColumn(name=name, values=column) for name, column in values.items()}
