"""Pairing keys survive the way to metadata and back, and name files."""

from __future__ import annotations

import pytest

from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.pairing_key import file_name, key_metadata
from kvaudit.formats.schema import FileKind
from tests.helpers.arrow_files import KEY


@pytest.mark.parametrize(
    "key",
    [
        PoolKey(),
        KEY,
        PoolKey(pool="SWA", pool_kind=PoolKind.SWA),
        PoolKey(pool="FULL", pool_kind=PoolKind.SWA),
        PoolKey(rank=0, step=-1, instance=""),
    ],
)
def test_a_key_comes_back_from_its_metadata(key):
    assert MetadataValues(key_metadata(key), "a").pool_key()[0] == key


def test_parts_at_their_default_are_left_out():
    assert key_metadata(PoolKey()) == {"pool_kind": "FULL"}


@pytest.mark.parametrize(
    ("key", "kind", "name"),
    [
        (
            PoolKey(instance="decode-0", group="target", rank=3),
            FileKind.SNAPSHOT,
            "decode-0.target.full.r3.snapshot.arrow",
        ),
        (PoolKey(), FileKind.PLAN, "full.plan.arrow"),
        (
            PoolKey(group="a/../b", tier="host"),
            FileKind.SEQUENCES,
            "a_.._b.full.host.sequences.arrow",
        ),
        (
            PoolKey(instance="../out/side", pool="..\\x:[y]\0"),
            FileKind.SNAPSHOT,
            "_out_side..._x__y__.snapshot.arrow",
        ),
        (PoolKey(pool=".."), FileKind.PLAN, "_.plan.arrow"),
    ],
)
def test_files_are_named_by_their_key(key, kind, name):
    assert file_name(key, kind) == name
