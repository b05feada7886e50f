from __future__ import annotations

import numpy as np

from kvaudit.bench.fold_workload import FoldWorkload
from kvaudit.bench.options import RealKv
from kvaudit.bench.workload import MIN_SAMPLE
from kvaudit.kernels.fold.reference import source_hash
from tests.helpers.bench_launches import launched, sample_agrees
from tests.helpers.bench_pools import pool


def test_every_slot_is_folded_in_chain_order() -> None:
    built = pool()
    hashes = launched(FoldWorkload(built, real_kv=RealKv.ALL, read_bytes=64))["source_hashes"]
    rows = built.kv.reshape(built.num_slots, 64)
    for entry in (0, 1, 2047):
        assert hashes[entry] == source_hash(rows[built.slots[entry]].tobytes())


def test_of_several_layers_the_first_is_folded_where_it_lies() -> None:
    built = pool(layers=3)
    workload = FoldWorkload(built, real_kv=RealKv.ALL, read_bytes=64)
    first = built.layer_rows(0)[built.slots[7]]
    assert launched(workload)["source_hashes"][7] == source_hash(first.tobytes())
    assert workload.bytes_per_entry == 64 + 16
    assert sample_agrees(workload)


def test_partial_reads_the_first_16_bytes() -> None:
    built = pool()
    workload = FoldWorkload(built, real_kv=RealKv.PARTIAL, read_bytes=16)
    first = built.kv.reshape(built.num_slots, 64)[built.slots[0], :16]
    assert launched(workload)["source_hashes"][0] == source_hash(first.tobytes())
    assert workload.bytes_per_entry == 16 + 16


def test_the_sample_is_a_part_of_the_same_input() -> None:
    whole = FoldWorkload(pool(), real_kv=RealKv.ALL, read_bytes=64)
    assert whole.sample().workload.num_entries == whole.num_entries
    assert sample_agrees(whole)
    large = FoldWorkload(
        pool(1 << 13, bytes_per_token=8192, page_size=4), real_kv=RealKv.ALL, read_bytes=8192
    )
    assert large.sample().workload.num_entries == MIN_SAMPLE
    assert sample_agrees(large)


def test_an_entry_that_no_thread_wrote_is_no_hash() -> None:
    workload = FoldWorkload(pool(), real_kv=RealKv.ALL, read_bytes=64)
    fresh = workload.outputs()["source_hashes"]
    assert not np.isin(fresh, launched(workload)["source_hashes"]).any()
