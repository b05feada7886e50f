"""What all backends must agree on; the CUDA one is judged in test_cuda.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends.cpu import CpuBackend
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.constants import CHAIN_ANCHOR, NO_SEED, SKIP_WRITE, FailReason, LaunchTag
from kvaudit.core.backend import Backend, FoldJob
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.kernels.hash.reference import splitmix64_mix3
from tests.helpers.kv_columns import random_column

BACKENDS = [
    pytest.param(ReferenceBackend, id="reference"),
    pytest.param(CpuBackend, id="cpu"),
]
NUM_SLOTS = 9


def entries(seed: int, num_entries: int) -> dict[str, Any]:
    """Records of small numbers, so that some entries are right, and slots out of range too."""
    random = np.random.default_rng(seed)
    return {
        "records": random.integers(-2, 3, (NUM_SLOTS, 4)),
        "slot_indices": random.integers(-2, NUM_SLOTS + 2, num_entries),
        "expected_tokens": random.integers(-2, 3, num_entries),
        "expected_positions": random.integers(-2, 3, num_entries),
        "prev_slot_indices": random.integers(-2, NUM_SLOTS + 2, num_entries),
    }


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_entries=st.integers(0, 40),
    has_hashes=st.booleans(),
    checks=st.booleans(),
)
def test_verify_gives_the_references_bits(
    seed: int, num_entries: int, has_hashes: bool, checks: bool
) -> None:
    hashes = np.random.default_rng(seed).integers(0, 3, num_entries).astype(np.uint64)
    results = [
        backend.verify(
            **entries(seed, num_entries),
            real_kv_hashes=hashes if has_hashes else None,
            tag=LaunchTag.TAIL_K_FULL,
            check_expected_token=checks,
        )
        for backend in (ReferenceBackend(), CpuBackend())
    ]
    np.testing.assert_array_equal(*results)
    assert results[0].dtype == results[1].dtype == np.uint32


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_a_right_entry_has_no_bits_and_a_wrong_one_its_own(make_backend: Any) -> None:
    records = np.zeros((3, 4), dtype=np.int64)
    records[1] = (11, 0, np.uint64(CHAIN_ANCHOR).astype(np.int64), 0)
    reasons = make_backend().verify(
        records=records,
        slot_indices=np.array([1, 1, 7, 0]),
        expected_tokens=np.array([11, 12, 11, 11]),
        expected_positions=np.array([0, 1, 0, 5]),
        prev_slot_indices=np.array([-1, -1, -1, -1]),
        real_kv_hashes=None,
        tag=LaunchTag.HEAD_K_FULL,
        check_expected_token=True,
    )
    both = FailReason.VERIFY_TOKEN_MISMATCH | FailReason.VERIFY_POSITION_MISMATCH
    assert reasons.tolist() == [0, both, FailReason.SLOT_OUT_OF_RANGE, 0]


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_inputs_may_be_read_only_and_strided(make_backend: Any) -> None:
    arguments = entries(3, 20)
    wide = {name: np.repeat(array, 2, axis=-1) for name, array in arguments.items()}
    strided = {name: array[..., ::2] for name, array in wide.items()}
    for array in wide.values():
        array.flags.writeable = False
    options = {
        "real_kv_hashes": None,
        "tag": LaunchTag.TAIL_K_FULL,
        "check_expected_token": True,
    }
    backend = make_backend()
    np.testing.assert_array_equal(
        backend.verify(**strided, **options), backend.verify(**arguments, **options)
    )


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_slot_hash_of_a_negative_slot_is_the_anchor(make_backend: Any) -> None:
    records = np.random.default_rng(2).integers(-9, 9, (NUM_SLOTS, 4))
    slots = np.array([-1, 3, -(2**63), 0])
    hashes = make_backend().slot_hashes(records, slots)
    assert hashes[[0, 2]].tolist() == [CHAIN_ANCHOR, CHAIN_ANCHOR]
    np.testing.assert_array_equal(hashes, ReferenceBackend().slot_hashes(records, slots))


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_a_written_chain_goes_on_from_one_before_it_and_leaves_skipped_slots(
    make_backend: Any,
) -> None:
    records = np.full((5, 4), 7, dtype=np.int64)
    make_backend().write_records(
        records=records,
        write_offsets=np.array([0, 2, 4]),
        write_seed_slot_indices=np.array([NO_SEED, 2]),
        input_ids=np.array([11, 12, 99, 13]),
        positions=np.array([0, 1, 9, 2]),
        out_cache_loc=np.array([1, 2, SKIP_WRITE, 4]),
        real_kv_hashes=np.array([5, 6, 9, 2**64 - 1], dtype=np.uint64),
        tag=LaunchTag.TAIL_K_FULL,
    )
    second = splitmix64_mix3(CHAIN_ANCHOR, 11, 0)
    assert records.view(np.uint64).tolist() == [
        [7] * 4,
        [11, 0, CHAIN_ANCHOR, 5],
        [12, 1, second, 6],
        [7] * 4,
        [13, 2, splitmix64_mix3(second, 12, 1), 2**64 - 1],
    ]


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_combine_is_the_designs_real_kv_hash(make_backend: Any) -> None:
    """The numbers are those of CASES.md: one source, then two equal ones."""
    source = np.array([0x447F1B95028CE131], dtype=np.uint64)
    backend = make_backend()
    assert backend.combine([source]).tolist() == [0xD6D75024DFD6C30C]
    assert backend.combine([source, source]).tolist() == [0xCD98CAD44BCDA2EA]
    first = backend.combine([source])
    assert backend.combine([source], running=first).tolist() == [0xCD98CAD44BCDA2EA]


@pytest.mark.parametrize("make_backend", BACKENDS)
def test_a_backend_says_what_it_is_and_fits_the_port(make_backend: Any) -> None:
    backend: Backend = make_backend()
    assert backend.name in ("reference", "cpu")
    assert backend.device


@pytest.mark.parametrize("make", BACKENDS)
def test_a_fold_of_fewer_bytes_is_that_of_a_column_of_them(make: type[Backend]) -> None:
    data = np.arange(120, dtype=np.uint8).reshape(3, 40)
    whole = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=40)
    leading = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=16)
    rows = np.array([0, 2])
    assert make().fold(whole, rows, read_bytes=16).tolist() == make().fold(leading, rows).tolist()
    assert make().fold(whole, rows).tolist() != make().fold(leading, rows).tolist()


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_the_host_is_one_place_and_holds_no_device_memory(backend_class: type) -> None:
    backend = backend_class()
    assert list(backend.spread(4)) == [backend]
    assert backend.device_bytes == 0


@pytest.mark.parametrize("backend_class", BACKENDS)
def test_folds_come_in_the_order_of_the_jobs_each_when_it_is_asked_for(backend_class: type) -> None:
    backend, taken = backend_class(), []
    columns = [
        random_column(num_rows=9, row_bytes=16, read_bytes=16, window_rows=4, seed=seed)
        for seed in range(3)
    ]

    def jobs() -> Iterator[FoldJob]:
        for number, column in enumerate(columns):
            taken.append(number)
            yield FoldJob(column, np.arange(number, 9), 8 * number)

    for number, hashes in enumerate(backend.folds(jobs())):
        assert taken == list(range(number + 1))
        expected = backend.fold(columns[number], np.arange(number, 9), read_bytes=8 * number)
        np.testing.assert_array_equal(hashes, expected)
    assert len(taken) == 3
