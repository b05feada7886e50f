"""The smaller forms of a recorder's dump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.constants import RealKvHashMode
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.snapshot import DigestGrain
from kvaudit.kernels.hash.reference import splitmix64
from tests.helpers import dumps


def test_digests_take_the_place_of_bytes_and_those_that_are_there_stay() -> None:
    pool = dumps.snapshot(kv={"kv.k.0": dumps.snapshot().kv["kv.k.0"]})
    there = ArrayColumn(name="digest.v.0", values=np.arange(16))
    whole = PoolDump(snapshot=replace(pool, digests={"kv.v.0": there}), sequences=dumps.sequences())
    small = whole.as_content("digests").snapshot
    assert not small.kv
    assert list(small.digests) == ["kv.v.0", "kv.k.0"]
    assert small.digests["kv.v.0"] is there
    assert small.digests["kv.k.0"].read().view(np.uint64).tolist() == [dumps.SOURCE_HASH] * 16
    assert small.canary.keys() == pool.canary.keys()


def test_what_is_in_memory_no_longer_sees_the_pool() -> None:
    dumped = PoolDump(snapshot=dumps.snapshot(), sequences=dumps.sequences())
    saved = dumped.in_memory().snapshot.kv
    assert list(saved) == list(dumped.snapshot.kv)
    for name, column in saved.items():
        assert isinstance(column, ArrayKvColumn)
        assert column.dtype == "uint8"
        np.testing.assert_array_equal(column.data, dumped.snapshot.kv[name].data)


def test_pages_have_one_hash_and_no_record() -> None:
    whole = PoolDump(snapshot=dumps.snapshot(), sequences=dumps.sequences()).as_content("digests")
    pages = whole.by_page().snapshot
    first = splitmix64(dumps.SOURCE_HASH)
    of_two = splitmix64(first ^ dumps.SOURCE_HASH)
    for columns in (pages.digests, pages.stamped):
        assert tuple(columns) == dumps.COLUMNS
        for column in columns.values():
            assert column.read().view(np.uint64).tolist() == [of_two] * 16
    assert (pages.digest_grain, pages.real_kv_hash_mode) == (DigestGrain.PAGE, RealKvHashMode.NONE)
    assert not pages.canary
    assert pages.stamped_columns == ()
