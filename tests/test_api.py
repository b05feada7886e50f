"""The public functions, on files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.backends.cpu import CpuBackend
from kvaudit.constants import RealKvHashMode
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.coverage import Family
from kvaudit.core.dataset import Dataset
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import BackendNotInstalled, ConfigError, FileCorrupt, NoDevice, NotArrow
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers import bench_pools, corruptions
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import World, fixture_f

EVERY = ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")


def _stamped() -> World:
    return fixture_f(
        mode=RealKvHashMode.ALL,
        stamped_columns=EVERY,
        stamps=EVERY,
        canary=("k.head", "k.tail", "v.head", "v.tail"),
    )


def _written(world: World, folder: Path, *, batch_rows: int | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    write_snapshot(folder / "pool.snapshot.arrow", world.snapshot(), batch_rows=batch_rows)
    write_sequences(folder / "pool.sequences.arrow", world.sequences())
    return folder


@pytest.mark.parametrize("batch_rows", [None, 3, 16])
@pytest.mark.parametrize("backend", ["reference", "cpu", "auto"])
def test_a_folder_is_audited_whatever_its_batches(
    tmp_path: Path, backend: str, batch_rows: int | None
) -> None:
    folder = _written(_stamped(), tmp_path / "clean", batch_rows=batch_rows)
    report = api.audit(api.open([folder]), backend=backend)
    assert report.verdict is Verdict.CLEAN
    for family in (Family.INDEX, Family.RECORDS, Family.BYTES):
        assert report.coverage.families[family].ratio == 1.0
    assert len(report.inputs) == 2


@pytest.mark.parametrize("batch_rows", [None, 3])
def test_files_give_the_rows_of_the_arrays(tmp_path: Path, batch_rows: int | None) -> None:
    world = _stamped()
    corruptions.swap_pages(world, 1, 3)
    corruptions.flip_bit(world, "kv.v.1", 9)
    folder = _written(world, tmp_path / "damaged", batch_rows=batch_rows)
    from_files = api.audit(api.open([folder]), backend="cpu").to_dict()
    from_arrays = api.audit(world.dataset(), backend="cpu").to_dict()
    for key in ("verdict", "coverage", "tags", "violations"):
        assert from_files[key] == from_arrays[key]


@pytest.mark.parametrize("writes", [False, True])
def test_a_stamp_announces_the_kernel_that_only_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """Only the kernel that writes records is not compiled yet."""
    monkeypatch.setattr(CpuBackend, "needs_compilation", lambda _, *, writes=False: writes)
    dataset, watcher = api.open([_written(_stamped(), tmp_path / "pool")]), Watcher()
    if writes:
        api.stamp(dataset, folder=tmp_path / "stamped", backend="cpu", observer=watcher)
    else:
        api.audit(dataset, backend="cpu", observer=watcher)
    assert watcher.compiled == int(writes)


def test_a_plan_beside_the_snapshot_is_found(tmp_path: Path) -> None:
    world = _stamped()
    write_snapshot(tmp_path / "pool.snapshot.arrow", world.snapshot())
    write_plan(tmp_path / "pool.plan.arrow", world.plan(step=4))
    report = api.audit(api.open([tmp_path]), backend="cpu")
    assert report.verdict is Verdict.CLEAN
    plan_file = next(file for file in report.inputs if file.kind == "plan")
    assert any("step 4" in note for note in plan_file.notes)


def test_a_corrupt_file_is_an_input_error_and_no_violation(tmp_path: Path) -> None:
    folder = _written(_stamped(), tmp_path / "corrupt")
    path = folder / "pool.snapshot.arrow"
    data = bytearray(path.read_bytes())
    at = data.index(_stamped().kv["kv.v.1"][7].tobytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(FileCorrupt):
        api.audit(api.open([folder]), backend="cpu")


def _two_ranks(folder: Path, *, damaged: World, corrupt: str = "") -> Path:
    """Rank 0 as it is given, and rank 1 with a byte of a column changed after it was written."""
    folder.mkdir()
    for rank, world in enumerate([damaged, _stamped()]):
        world.key = PoolKey(rank=rank)
        write_snapshot(folder / f"r{rank}.snapshot.arrow", world.snapshot())
        write_sequences(folder / f"r{rank}.sequences.arrow", world.sequences())
    path = folder / "r1.snapshot.arrow"
    data = bytearray(path.read_bytes())
    if corrupt:
        data[data.index(_stamped().kv[corrupt][7].tobytes())] ^= 1
    else:
        del data[-30:]
    path.write_bytes(bytes(data))
    return folder


@pytest.mark.parametrize("corrupt", ["kv.v.1", ""], ids=["corrupt", "truncated"])
def test_a_pool_that_cannot_be_used_is_left_out_and_the_other_is_audited(
    tmp_path: Path, corrupt: str
) -> None:
    folder = _two_ranks(tmp_path / "set", damaged=_stamped(), corrupt=corrupt)
    report = api.audit(api.open([folder]), backend="cpu")
    assert (report.verdict, report.exit_code) == (Verdict.INCOMPLETE, 3)
    assert report.violations_total == 0
    assert report.coverage.families[Family.RECORDS].checked == 8 * 4
    (error,) = report.left_out
    path = str(folder / "r1.snapshot.arrow")
    assert error.path == path
    assert report.incomplete_reasons == (f"not audited: {error}",)
    (named,) = [file for file in report.inputs if file.path == path]
    assert named.notes[-1] == f"not audited: {error.message}"
    document = report.to_dict()
    assert (document["verdict"], document["exit_code"]) == ("incomplete", 3)


def test_violations_elsewhere_win_over_a_pool_left_out(tmp_path: Path) -> None:
    world = _stamped()
    corruptions.flip_bit(world, "kv.v.1", 9)
    folder = _two_ranks(tmp_path / "set", damaged=world, corrupt="kv.v.1")
    report = api.audit(api.open([folder]), backend="cpu")
    assert (report.verdict, report.exit_code) == (Verdict.VIOLATIONS, 1)
    assert report.left_out
    assert report.incomplete_reasons


def test_a_set_of_which_no_pool_can_be_used_is_an_input_error(tmp_path: Path) -> None:
    folder = _two_ranks(tmp_path / "set", damaged=_stamped(), corrupt="kv.v.1")
    (folder / "r0.snapshot.arrow").write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(FileCorrupt):
        api.audit(api.open([folder]), backend="cpu")


def test_a_set_with_a_file_that_cannot_be_used_is_not_stamped(tmp_path: Path) -> None:
    folder = _two_ranks(tmp_path / "set", damaged=fixture_f(canary=()))
    with pytest.raises(NotArrow):
        api.stamp(api.open([folder]), folder=tmp_path / "out", backend="cpu")
    assert not (tmp_path / "out").exists()


def test_a_request_of_a_pool_left_out_is_no_wrong_option(tmp_path: Path) -> None:
    folder = _two_ranks(tmp_path / "set", damaged=_stamped())
    options = AuditOptions(request_ids=("of rank 1",), layers=(99,))
    assert api.audit(api.open([folder]), backend="cpu", options=options).exit_code == 3


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_stamped_copies_read_clean_and_inputs_stay(tmp_path: Path, backend: str) -> None:
    world = fixture_f(canary=())
    folder = _written(world, tmp_path / "dump")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    watcher = Watcher()
    written = api.stamp(
        api.open([folder]), folder=tmp_path / "stamped", backend=backend, observer=watcher
    )
    assert [path.name for path in written] == ["pool.snapshot.arrow", "pool.sequences.arrow"]
    assert watcher.stages == {"stamp": (2, 2)}
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    report = api.audit(api.open([tmp_path / "stamped"]), backend=backend)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.families[Family.BYTES].planned == 8 * 4
    assert report.coverage.families[Family.RECORDS].checked == 16


def test_stamping_over_an_input_or_onto_one_name_is_refused(tmp_path: Path) -> None:
    first = _written(fixture_f(canary=()), tmp_path / "first")
    with pytest.raises(ConfigError):
        api.stamp(api.open([first]), folder=first, backend="cpu")
    both = [api.open([first]), api.open([_written(fixture_f(canary=()), tmp_path / "second")])]
    pools = [pool for dataset in both for pool in dataset.pools]
    with pytest.raises(ConfigError):
        api.stamp(Dataset(pools=pools), folder=tmp_path / "out", backend="cpu")
    assert not (tmp_path / "out").exists()


def test_a_backend_that_is_asked_for_and_missing_is_an_error() -> None:
    with pytest.raises(ConfigError):
        api.audit(fixture_f().dataset(), backend="fast")
    try:
        report = api.audit(fixture_f().dataset(), backend="cuda")
    except (NoDevice, BackendNotInstalled) as error:
        assert error.hint  # noqa: PT017 - either is right, and each must say what to do
    else:
        assert report.backend.name == "cuda"


def test_the_public_names_are_listed_in_order() -> None:
    assert api.__all__ == sorted(api.__all__)
    assert all(callable(getattr(api, name)) for name in api.__all__)


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_api_loads_nothing_heavy() -> None:
    assert not {"torch", "numba", "pyarrow"} & _modules_after("import kvaudit.api")


def test_an_audit_of_files_never_imports_torch(tmp_path: Path) -> None:
    folder = _written(_stamped(), tmp_path / "clean")
    code = f"from kvaudit import api\napi.audit(api.open([{str(folder)!r}]), backend='cpu')"
    modules = _modules_after(code)
    assert "torch" not in modules
    assert "pyarrow" in modules


def test_a_benchmark_audits_its_files_as_a_user_does() -> None:
    watcher = Watcher()
    options = bench_pools.options(ops=("file", "plan"), sizes=(1024,))
    report = api.bench(options, backend="cpu", observer=watcher)
    assert [row.op for row in report.rows] == ["file", "plan"]
    assert watcher.stages["bench"] == (2, 2)


def test_a_fault_goes_into_one_pool(tmp_path: Path) -> None:
    one = _written(_stamped(), tmp_path / "one")
    other = fixture_f(key=PoolKey(group="draft"))
    write_snapshot(one / "draft.snapshot.arrow", other.snapshot())
    write_sequences(one / "draft.sequences.arrow", other.sequences())
    with pytest.raises(ConfigError, match="into one pool, not into 2"):
        api.inject(api.open([one]), "late-writer", folder=tmp_path / "out")


@pytest.mark.parametrize("batch_rows", [None, 3])
def test_an_injected_fault_is_found_in_the_copy(tmp_path: Path, batch_rows: int | None) -> None:
    folder = _written(_stamped(), tmp_path / "clean", batch_rows=batch_rows)
    out = tmp_path / "out"
    injection = api.inject(api.open([folder]), "kv-bit-flip", folder=out, seed=3)
    report = api.audit(api.open([out]), backend="reference")
    assert [(found.rule, found.slots) for found in report.findings] == [
        ("KV304", injection.damage.slots)
    ]
    assert (out / api.INJECTION_RECORD).is_file()
    assert api.audit(api.open([folder]), backend="reference").verdict is Verdict.CLEAN
