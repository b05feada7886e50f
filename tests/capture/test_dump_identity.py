"""Whose pools a recorder's files are of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kvaudit.capture.dump_identity import DumpIdentity
from kvaudit.capture.pool_recorder import PoolRecorder
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError
from kvaudit.formats.reader import read_file
from tests.helpers.pool_rows import row

POOL = RecordedPool(
    kv=[(torch.ones(16, 4), torch.ones(16, 4))],
    layout="slot dim",
    page_size=4,
    pool_kind=PoolKind.SWA,
    name="window",
    group="draft",
)


def test_a_key_names_the_engine_and_the_pool() -> None:
    identity = DumpIdentity.of(instance="decode-0", rank=2, metadata=None, rope=None)
    assert identity.key(POOL, step=7) == PoolKey(
        instance="decode-0", group="draft", pool="window", pool_kind=PoolKind.SWA, rank=2, step=7
    )


@pytest.mark.parametrize(
    ("arguments", "named"), [({"rank": -1}, "rank"), ({"metadata": {"step": "3"}}, "metadata")]
)
def test_what_no_file_can_hold_is_refused(arguments: dict, named: str) -> None:
    given = {"instance": None, "rank": None, "metadata": None, "rope": None}
    with pytest.raises(ConfigError, match=f"^{named}: "):
        DumpIdentity.of(**{**given, **arguments})


def test_a_snapshot_names_its_sequences_and_has_all_metadata(tmp_path: Path) -> None:
    identity = DumpIdentity(metadata={"model": "toy"}, rope={"turned": "no"})
    recorder = PoolRecorder(POOL, content="bytes")
    key = identity.key(POOL, step=1)
    recorder.before_forward([row("a", range(2), [4, 5])], key)
    recorder.after_forward(1)
    dumped = recorder.dump(key, request_ids=None, content="bytes")
    snapshot, sequences = identity.write(tmp_path, dumped, "slot")
    metadata = read_file(str(snapshot)).metadata
    assert metadata["sequences"] == sequences.name
    assert (metadata["model"], metadata["turned"]) == ("toy", "no")
