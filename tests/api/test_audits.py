"""Audits, comparisons and one slot, on files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.blame_report import Relation
from kvaudit.core.comparison import CompareOptions
from kvaudit.core.comparison_choices import ComparedContent
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.errors import BackendNotInstalled, ConfigError, FileCorrupt, NoDevice
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers import corruptions
from tests.helpers.pool_files import modules_after, stamped, two_ranks, written
from tests.helpers.worlds import fixture_f


@pytest.mark.parametrize("batch_rows", [None, 3, 16])
@pytest.mark.parametrize("backend", ["reference", "cpu", "auto"])
def test_a_folder_is_audited_whatever_its_batches(
    tmp_path: Path, backend: str, batch_rows: int | None
) -> None:
    folder = written(stamped(), tmp_path / "clean", batch_rows=batch_rows)
    report = api.audit(api.open([folder]), backend=backend)
    assert report.verdict is Verdict.CLEAN
    for family in (Family.INDEX, Family.RECORDS, Family.BYTES):
        assert report.coverage.families[family].ratio == 1.0
    assert len(report.inputs) == 2


@pytest.mark.parametrize("batch_rows", [None, 3])
def test_files_give_the_rows_of_the_arrays(tmp_path: Path, batch_rows: int | None) -> None:
    world = stamped()
    corruptions.swap_pages(world, 1, 3)
    corruptions.flip_bit(world, "kv.v.1", 9)
    folder = written(world, tmp_path / "damaged", batch_rows=batch_rows)
    from_files = api.audit(api.open([folder]), backend="cpu").to_dict()
    from_arrays = api.audit(world.dataset(), backend="cpu").to_dict()
    for key in ("verdict", "coverage", "tags", "violations"):
        assert from_files[key] == from_arrays[key]


def test_a_plan_beside_the_snapshot_is_found(tmp_path: Path) -> None:
    world = stamped()
    write_snapshot(tmp_path / "pool.snapshot.arrow", world.snapshot())
    write_plan(tmp_path / "pool.plan.arrow", world.plan(step=4))
    report = api.audit(api.open([tmp_path]), backend="cpu")
    assert report.verdict is Verdict.CLEAN
    plan_file = next(file for file in report.inputs if file.kind == "plan")
    assert any("step 4" in note for note in plan_file.notes)


def test_a_corrupt_file_is_an_input_error_and_no_violation(tmp_path: Path) -> None:
    folder = written(stamped(), tmp_path / "corrupt")
    path = folder / "pool.snapshot.arrow"
    data = bytearray(path.read_bytes())
    at = data.index(stamped().kv["kv.v.1"][7].tobytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(FileCorrupt):
        api.audit(api.open([folder]), backend="cpu")


@pytest.mark.parametrize("corrupt", ["kv.v.1", ""], ids=["corrupt", "truncated"])
def test_a_pool_that_cannot_be_used_is_left_out_and_the_other_is_audited(
    tmp_path: Path, corrupt: str
) -> None:
    folder = two_ranks(tmp_path / "set", damaged=stamped(), corrupt=corrupt)
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
    world = stamped()
    corruptions.flip_bit(world, "kv.v.1", 9)
    folder = two_ranks(tmp_path / "set", damaged=world, corrupt="kv.v.1")
    report = api.audit(api.open([folder]), backend="cpu")
    assert (report.verdict, report.exit_code) == (Verdict.VIOLATIONS, 1)
    assert report.left_out
    assert report.incomplete_reasons


def test_a_set_of_which_no_pool_can_be_used_is_an_input_error(tmp_path: Path) -> None:
    folder = two_ranks(tmp_path / "set", damaged=stamped(), corrupt="kv.v.1")
    (folder / "r0.snapshot.arrow").write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(FileCorrupt):
        api.audit(api.open([folder]), backend="cpu")


def test_a_request_of_a_pool_left_out_is_no_wrong_option(tmp_path: Path) -> None:
    folder = two_ranks(tmp_path / "set", damaged=stamped())
    options = AuditOptions(request_ids=("of rank 1",), layers=(99,))
    assert api.audit(api.open([folder]), backend="cpu", options=options).exit_code == 3


def test_a_backend_that_is_asked_for_and_missing_is_an_error() -> None:
    with pytest.raises(ConfigError):
        api.audit(fixture_f().dataset(), backend="fast")
    try:
        report = api.audit(fixture_f().dataset(), backend="cuda")
    except (NoDevice, BackendNotInstalled) as error:
        assert error.hint  # noqa: PT017 - either is right, and each must say what to do
    else:
        assert report.backend.name == "cuda"


def test_an_audit_of_files_never_imports_torch(tmp_path: Path) -> None:
    folder = written(stamped(), tmp_path / "clean")
    code = f"from kvaudit import api\napi.audit(api.open([{str(folder)!r}]), backend='cpu')"
    modules = modules_after(code)
    assert "torch" not in modules
    assert "pyarrow" in modules


def test_two_dumps_of_one_pool_are_compared(tmp_path: Path) -> None:
    world = stamped()
    before = api.open([written(world, tmp_path / "before")])
    assert api.compare([before, before], backend="cpu").verdict is Verdict.CLEAN
    corruptions.flip_bit(world, "kv.v.1", 9)
    after = api.open([written(world, tmp_path / "after")])
    report = api.compare([before, after], backend="cpu")
    assert [(row.slot, row.columns) for row in report.violations] == [(9, ("kv.v.1",))]


def test_one_slot_is_told_of_by_its_number_or_by_a_request(tmp_path: Path) -> None:
    world = stamped()
    corruptions.flip_bit(world, "kv.v.1", 9)
    dataset = api.open([written(world, tmp_path / "damaged")])
    report = api.blame(dataset, "B@3", backend="cpu")
    assert (report.slot, [found.rule for found in report.related(Relation.NAMES)]) == (9, ["KV304"])
    skipped = api.blame(dataset, "9", backend="cpu", options=AuditOptions(skip_bytes=True))
    assert (skipped.findings, len(skipped.violations)) == ([], 2)
    with pytest.raises(ConfigError):
        api.blame(dataset, "B@4", backend="cpu")


def test_dumps_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    here, there = stamped(), stamped()
    corruptions.flip_bit(there, "kv.v.1", 9)
    files = [
        api.open([written(world, tmp_path / name)])
        for world, name in ((here, "here"), (there, "there"))
    ]
    assert api.compare([files[0], files[0]]).verdict is Verdict.CLEAN
    report = api.compare(files)
    assert [found.rule for found in report.findings] == ["KV402"]
    assert [row.slot for row in report.violations] == [9]
    digests = CompareOptions(content=ComparedContent.DIGESTS)
    assert api.compare(files, options=digests).verdict is Verdict.INCOMPLETE
