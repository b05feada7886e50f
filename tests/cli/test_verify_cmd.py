"""`kvaudit verify` as a shell sees it: codes, streams, and messages that name what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvaudit.cli.exit_code import ExitCode
from kvaudit.render.progress import COMPILING_EACH_TIME
from tests.helpers import dumps
from tests.helpers.command_line import kvaudit, python
from tests.helpers.package_copy import blocked_cache
from tests.helpers.verify_command import ON_REFERENCE, verify


@pytest.mark.parametrize("backend", ["reference", "cpu", "auto"])
def test_a_clean_dump_leaves_with_0_and_says_how_much_was_covered(
    clean: Path, backend: str
) -> None:
    done = kvaudit("verify", clean, "--backend", backend)
    assert done.returncode == ExitCode.CLEAN
    assert done.stdout.startswith("CLEAN  index 100% · records 100% · bytes 100% · identity - (")


def test_a_flipped_bit_leaves_with_1_and_names_slot_page_request_position_and_layer(
    damaged: Path,
) -> None:
    done = kvaudit("verify", damaged, *ON_REFERENCE)
    assert done.returncode == ExitCode.VIOLATIONS
    assert done.stdout.startswith("VIOLATIONS  index 100%")
    assert "  slot 3 (page 1 +1)  request A  position 1\n" in done.stdout
    assert "    bytes  column_digest  layer 1  kv.v.1\n" in done.stdout
    assert done.stderr == ""


def test_a_snapshot_without_expectations_is_judged_by_its_chains_and_says_so(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clean / "target.sequences.arrow").unlink()
    code, out, _ = verify(capsys, clean)
    assert code == ExitCode.CLEAN
    assert out.startswith(
        "CLEAN  index - (no expectations) · records by chain (no expectations) · bytes 100% · "
    )
    assert "  no expectations: a chain that agrees with itself is taken for right" in out
    code, out, _ = verify(capsys, clean, "--require", "index")
    assert code == ExitCode.INCOMPLETE
    assert "pass --expect FILE" in out


def test_a_flipped_bit_without_expectations_leaves_with_1(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (damaged / "target.sequences.arrow").unlink()
    code, out, _ = verify(capsys, damaged)
    assert code == ExitCode.VIOLATIONS
    assert "  slot 3 (page 1 +1)  position 1\n" in out
    assert "    bytes  column_digest  layer 1  kv.v.1\n" in out


def test_a_required_family_that_is_not_covered_leaves_with_5(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = verify(capsys, clean, "--require", "identity")
    assert code == ExitCode.INCOMPLETE
    assert "identity is required" in out


def test_a_backend_that_cannot_run_leaves_with_4(clean: Path) -> None:
    done = kvaudit("verify", clean, "--backend", "cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == ExitCode.BACKEND
    assert done.stdout == ""
    assert "hint: " in done.stderr


def test_violations_win_over_missing_coverage(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(capsys, damaged, "--require", "identity")[0] == ExitCode.VIOLATIONS


def test_exit_zero_leaves_with_0_and_the_same_verdict(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = verify(capsys, damaged, "--exit-zero")
    assert code == ExitCode.CLEAN
    assert out.startswith("VIOLATIONS")
    _, out, _ = verify(capsys, damaged, "--exit-zero", "--format", "json")
    document = json.loads(out)
    assert (document["verdict"], document["exit_code"]) == ("violations", 0)


def test_json_is_one_document_with_the_code_of_the_process(damaged: Path) -> None:
    done = kvaudit("verify", damaged, *ON_REFERENCE, "--format", "json")
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode == ExitCode.VIOLATIONS
    assert document["violations"]["rows"][0]["columns"] == ["kv.v.1"]
    assert document["violations"]["rows"][0]["request_ids"] == ["A"]


def test_skipped_bytes_are_said_to_be_left_out(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = verify(capsys, damaged, "--skip-bytes")
    assert code == ExitCode.CLEAN
    assert "bytes - (left out)" in out


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        (("--slot", "3"), ExitCode.VIOLATIONS),
        (("--slot", "4-5"), ExitCode.CLEAN),
        (("--layer", "1"), ExitCode.VIOLATIONS),
        (("--layer", "0"), ExitCode.CLEAN),
        (("--request", "A"), ExitCode.VIOLATIONS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.name,
)
def test_the_audit_can_start_from_a_slot_a_layer_or_a_request(
    damaged: Path, capsys: pytest.CaptureFixture[str], scope: tuple[str, str], code: ExitCode
) -> None:
    assert verify(capsys, damaged, *scope)[0] == code


@pytest.mark.parametrize("name", ["KV102", "kv102", "KV1", "slot-out-of-range"])
def test_rules_are_chosen_by_id_beginning_or_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    dumps.write(tmp_path, owners=dumps.sequences(slots=(2, 3, 4, 400)))
    chosen = verify(capsys, tmp_path, "--select", name)[1]
    left_out = verify(capsys, tmp_path, "--ignore", name)[1]
    assert "KV102 slot-out-of-range" in chosen
    assert "KV102 slot-out-of-range" not in left_out


@pytest.mark.parametrize("option", ["--select", "--ignore"])
@pytest.mark.parametrize("name", ["alias", "KV1011", "101", "KV-1"])
def test_a_rule_that_is_none_is_a_usage_error_that_lists_the_rules(
    clean: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    code, out, err = verify(capsys, clean, option, name)
    assert (code, out) == (ExitCode.USAGE, "")
    assert f"{name!r} names no rule" in err
    assert "KV101" in err


def test_an_unknown_request_is_a_usage_error_that_names_the_known_ones(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = verify(capsys, clean, "--request", "B")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "'B'" in err
    assert "hint: the expectations name A" in err


def test_a_wrong_token_in_the_sequences_is_found_at_its_row_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps.write(tmp_path, owners=dumps.sequences(tokens=(11, 12, 99, 14)))
    code, out, _ = verify(capsys, tmp_path)
    assert code == ExitCode.VIOLATIONS
    assert "violations  1 of 1 shown\n  slot 4 (page 2 +0)  request A  position 2\n" in out
    assert "verify_token  stored 13  expected 99\n" in out


def test_rows_beyond_the_limit_are_counted_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps.write(tmp_path, owners=dumps.sequences(tokens=(91, 92, 93, 94)))
    code, out, _ = verify(capsys, tmp_path, "--max-violations", "1")
    assert code == ExitCode.VIOLATIONS
    assert "violations  1 of 4 shown" in out


def test_files_folders_and_expectations_may_be_given_apart(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, owners = clean / "target.snapshot.arrow", clean / "target.sequences.arrow"
    elsewhere = tmp_path / "elsewhere.arrow"
    shutil.move(owners, elsewhere)
    assert "index - (no expectations)" in verify(capsys, snapshot)[1]
    assert verify(capsys, snapshot, elsewhere)[0] == ExitCode.CLEAN
    assert verify(capsys, snapshot, "--expect", elsewhere)[0] == ExitCode.CLEAN


def test_quiet_prints_the_verdict_alone(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = verify(capsys, clean, "--quiet")
    assert (code, err) == (ExitCode.CLEAN, "")
    assert out.count("\n") == 1


def test_outputs_are_written_beside_stdout_and_never_over_an_input(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert verify(capsys, clean, "--output", f"json={report}")[0] == ExitCode.CLEAN
    assert json.loads(report.read_text())["verdict"] == "clean"
    snapshot = clean / "target.snapshot.arrow"
    before = snapshot.read_bytes()
    code, _, err = verify(capsys, clean, "--output", f"json={snapshot}")
    assert code == ExitCode.USAGE
    assert "is an input" in err
    assert snapshot.read_bytes() == before


def test_options_come_from_the_environment_and_the_command_line_wins(damaged: Path) -> None:
    variables = {"KVAUDIT_BACKEND": "reference", "KVAUDIT_FORMAT": "json", "KVAUDIT_LAYER": "0"}
    assert json.loads(kvaudit("verify", damaged, **variables).stdout)["verdict"] == "clean"
    done = kvaudit("verify", damaged, "--layer", "1", "--format", "text", **variables)
    assert done.stdout.startswith("VIOLATIONS")


def test_an_audit_never_imports_torch(clean: Path) -> None:
    code = (
        f"import sys\nfrom kvaudit.cli.entry import run\ncode = run(['verify', {str(clean)!r}, "
        "'--backend', 'cpu'])\nprint(code, 'torch' in sys.modules, file=sys.stderr)"
    )
    assert python("-c", code).stderr.splitlines()[-1] == "0 False"


def test_the_first_compilation_is_announced_on_stderr(clean: Path, tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = kvaudit("verify", clean, "--backend", "cpu", **cache)
    again = kvaudit("verify", clean, "--backend", "cpu", **cache)
    assert first.returncode == again.returncode == ExitCode.CLEAN
    assert first.stderr.count("compiling kernels") == 1
    assert again.stderr == ""


def test_kernels_that_cannot_be_cached_are_compiled_each_time_and_said_so(
    clean: Path, tmp_path: Path
) -> None:
    """A read-only installation without a home."""
    nowhere = {**blocked_cache(tmp_path), "PYTHONSAFEPATH": "1"}
    done = kvaudit("verify", clean, "--backend", "cpu", **nowhere)
    assert done.returncode == ExitCode.CLEAN
    assert done.stderr == f"kvaudit: {COMPILING_EACH_TIME}\n"
    facts = json.loads(
        kvaudit("doctor", "--backend", "reference", "--format=json", **nowhere).stdout
    )
    assert facts["kernel_cache"].startswith("none can be written to")
