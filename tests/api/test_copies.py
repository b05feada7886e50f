from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.api.copies import INJECTION_RECORD
from kvaudit.backends.cpu import CpuBackend
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import Dataset
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ConfigError, NotArrow
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.pool_files import stamped, two_ranks, written
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import fixture_f


@pytest.mark.parametrize("writes", [False, True])
def test_a_stamp_announces_the_kernel_that_only_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """Only the kernel that writes records is not compiled yet."""
    monkeypatch.setattr(CpuBackend, "needs_compilation", lambda _, *, writes=False: writes)
    dataset, watcher = api.open([written(stamped(), tmp_path / "pool")]), Watcher()
    if writes:
        api.stamp(dataset, folder=tmp_path / "stamped", backend="cpu", observer=watcher)
    else:
        api.audit(dataset, backend="cpu", observer=watcher)
    assert watcher.compiled == int(writes)


def test_a_set_with_a_file_that_cannot_be_used_is_not_stamped(tmp_path: Path) -> None:
    folder = two_ranks(tmp_path / "set", damaged=fixture_f(canary=()))
    with pytest.raises(NotArrow):
        api.stamp(api.open([folder]), folder=tmp_path / "out", backend="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_stamped_copies_read_clean_and_inputs_stay(tmp_path: Path, backend: str) -> None:
    world = fixture_f(canary=())
    folder = written(world, tmp_path / "dump")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    watcher = Watcher()
    paths = api.stamp(
        api.open([folder]), folder=tmp_path / "stamped", backend=backend, observer=watcher
    )
    assert [path.name for path in paths] == ["pool.snapshot.arrow", "pool.sequences.arrow"]
    assert watcher.stages == {"stamp": (2, 2)}
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    report = api.audit(api.open([tmp_path / "stamped"]), backend=backend)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].planned == 8 * 4
    assert report.coverage.families[Family.RECORDS].checked == 16


def test_stamping_over_an_input_or_onto_one_name_is_refused(tmp_path: Path) -> None:
    first = written(fixture_f(canary=()), tmp_path / "first")
    with pytest.raises(ConfigError):
        api.stamp(api.open([first]), folder=first, backend="cpu")
    both = [api.open([first]), api.open([written(fixture_f(canary=()), tmp_path / "second")])]
    pools = [pool for dataset in both for pool in dataset.pools]
    with pytest.raises(ConfigError):
        api.stamp(Dataset(pools=pools), folder=tmp_path / "out", backend="cpu")
    assert not (tmp_path / "out").exists()


def test_a_fault_goes_into_one_pool(tmp_path: Path) -> None:
    one = written(stamped(), tmp_path / "one")
    other = fixture_f(key=PoolKey(group="draft"))
    write_snapshot(one / "draft.snapshot.arrow", other.snapshot())
    write_sequences(one / "draft.sequences.arrow", other.sequences())
    with pytest.raises(ConfigError, match="into one pool, not into 2"):
        api.inject(api.open([one]), "late-writer", folder=tmp_path / "out")


@pytest.mark.parametrize("batch_rows", [None, 3])
def test_an_injected_fault_is_found_in_the_copy(tmp_path: Path, batch_rows: int | None) -> None:
    folder = written(stamped(), tmp_path / "clean", batch_rows=batch_rows)
    out = tmp_path / "out"
    injection = api.inject(api.open([folder]), "kv-bit-flip", folder=out, seed=3)
    report = api.audit(api.open([out]), backend="reference")
    assert [(found.rule, found.slots) for found in report.findings] == [
        ("KV304", injection.damage.slots)
    ]
    assert (out / INJECTION_RECORD).is_file()
    assert api.audit(api.open([folder]), backend="reference").verdict is Verdict.CLEAN
