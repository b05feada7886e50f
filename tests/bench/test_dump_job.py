from __future__ import annotations

import importlib.util
import tempfile

import pytest
import torch

from kvaudit import capture
from kvaudit.bench import dump_job
from kvaudit.bench.dump_job import check_torch, measured_dump
from kvaudit.errors import BackendNotInstalled, NoDevice, ProofFailed
from tests.helpers.bench_launches import bench_with
from tests.helpers.bench_pools import pool


@pytest.mark.parametrize("num_entries", [2048, 2043])
def test_a_dump_is_proved_and_timed_and_nothing_of_it_stays(
    tmp_path, monkeypatch, num_entries: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    row = measured_dump(bench_with(), pool(num_entries, layers=2))
    assert (row.op, row.num_entries, row.bytes_per_entry) == ("dump", num_entries, 2 * 64)
    assert row.proof.reference_entries == row.proof.cpu_entries == num_entries
    assert len(row.seconds) == 2
    assert not list(tmp_path.iterdir())


def test_digests_of_other_bytes_are_refused(monkeypatch) -> None:
    dump = capture.dump

    def wrong(*args, kv, **arguments):
        changed = kv.clone()
        changed.view(torch.int16)[5, 1, 2, 0, 3] ^= 1
        return dump(*args, kv=changed, **arguments)

    monkeypatch.setattr(capture, "dump", wrong)
    with pytest.raises(ProofFailed, match=r"^dump: 1 digests"):
        measured_dump(bench_with(), pool(layers=3))


def test_torch_is_asked_for_by_its_extra(monkeypatch) -> None:
    monkeypatch.setattr(dump_job, "find_spec", lambda _: None)
    with pytest.raises(BackendNotInstalled) as raised:
        check_torch("cpu")
    assert "kvaudit[torch]" in raised.value.hint


def test_a_torch_without_a_device_is_no_pool_on_the_device(monkeypatch) -> None:
    assert importlib.util.find_spec("torch")
    check_torch("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match="--op dump"):
        check_torch("cuda")
