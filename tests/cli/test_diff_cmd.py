"""`kvaudit diff` as a shell sees it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.command_line import kvaudit, python
from tests.helpers.comparing import HOST, THERE, change_byte, dumped
from tests.helpers.worlds import World

Diff = Callable[..., tuple[int, str, str]]


def _written(folder: Path, world: World) -> Path:
    folder.mkdir()
    write_snapshot(folder / "pool.snapshot.arrow", world.snapshot())
    write_sequences(folder / "pool.sequences.arrow", world.sequences())
    return folder


@pytest.fixture
def device(tmp_path: Path) -> Path:
    return _written(tmp_path / "device", dumped())


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return _written(tmp_path / "host", dumped(THERE, key=HOST))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    world = dumped(THERE, key=HOST)
    change_byte(world, 12)
    return _written(tmp_path / "damaged", world)


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Diff:
    def compare(*args: object) -> tuple[int, str, str]:
        code = run(["diff", *map(str, args), "--backend", "cpu", "-q"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return compare


def test_the_same_content_elsewhere_leaves_with_0(device: Path, host: Path) -> None:
    done = kvaudit("diff", device, host, "--backend", "reference")
    assert done.returncode == ExitCode.CLEAN
    assert done.stdout.startswith("CLEAN  index 100% · records 100% (by content) · bytes 100% · ")
    assert "  A->B (device -> host)        8  content" in done.stdout


def test_a_changed_byte_leaves_with_1_and_names_leg_slot_column_and_byte(
    device: Path, damaged: Path
) -> None:
    done = kvaudit("diff", device, damaged, "--backend", "reference")
    assert done.returncode == ExitCode.VIOLATIONS
    assert "error  KV402 transfer-divergence: the leg A->B (device -> host)" in done.stdout
    assert "kv.v.1 byte 9 of 16 is 3a, and not 3e" in done.stdout
    assert "  slot 12 (page 6 +0)  request A  position 2\n" in done.stdout


def test_json_is_one_document_with_the_legs(
    device: Path, host: Path, damaged: Path, diff: Diff
) -> None:
    code, out, _ = diff(device, host, damaged, "--format", "json")
    document = json.loads(out)
    assert document["exit_code"] == code == ExitCode.VIOLATIONS
    assert [leg["slots_differing"] for leg in document["legs"]] == [0, 1]
    assert document["findings"][0]["evidence"]["leg"].startswith("B->C")
    assert {file["kind"] for file in document["inputs"]} == {"snapshot", "sequences"}


def test_the_command_to_run_next_is_one_that_a_shell_takes(
    device: Path, tmp_path: Path, diff: Diff
) -> None:
    world = dumped(THERE, key=HOST)
    change_byte(world, 12)
    given = _written(tmp_path / "b c", world)
    _, out, _ = diff(device, given, "--format", "json")
    [finding] = json.loads(out)["findings"]
    words = shlex.split(finding["settled_by"].split(", ")[0])
    assert words == ["kvaudit", "verify", str(given / "pool.snapshot.arrow")]


def test_a_saved_report_is_explained(
    device: Path, damaged: Path, tmp_path: Path, diff: Diff, capsys
) -> None:
    saved = tmp_path / "report.json"
    assert diff(device, damaged, "--output", f"json={saved}")[0] == ExitCode.VIOLATIONS
    assert run(["explain", str(saved)]) == ExitCode.CLEAN
    assert "KV402" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--layer", "0"), ExitCode.CLEAN),
        (("--request", "B"), ExitCode.CLEAN),
        (("--request", "A"), ExitCode.VIOLATIONS),
        (("--skip-bytes",), ExitCode.CLEAN),
        (("--exit-zero",), ExitCode.CLEAN),
        (("--match", "request"), ExitCode.VIOLATIONS),
        (("--content", "bytes"), ExitCode.VIOLATIONS),
        (("--content", "digests"), ExitCode.INCOMPLETE),
        (("--ignore", "KV402"), ExitCode.VIOLATIONS),
        (("--require", "identity"), ExitCode.VIOLATIONS),
        (("--tolerance", "0.1"), ExitCode.INPUT),
        (("--tolerance", "2"), ExitCode.USAGE),
        (("--tolerance", "much"), ExitCode.USAGE),
        (("--tolerance", "nan"), ExitCode.USAGE),
        (("--layer", "9"), ExitCode.USAGE),
        (("--request", "nobody"), ExitCode.USAGE),
        (("--match", "name"), ExitCode.USAGE),
    ],
)
def test_options_narrow_or_refuse(
    args: tuple[str, ...], code: ExitCode, device: Path, damaged: Path, diff: Diff
) -> None:
    assert diff(device, damaged, *args)[0] == code


def test_a_corrupt_file_leaves_with_3_and_is_named(device: Path, host: Path, diff: Diff) -> None:
    path = host / "pool.snapshot.arrow"
    content = bytearray(path.read_bytes())
    kept = dumped(THERE, key=HOST).kv["kv.v.1"][12].tobytes()
    content[content.index(kept) + 3] ^= 1
    path.write_bytes(content)
    code, out, err = diff(device, host)
    assert code == ExitCode.INPUT
    assert str(path) in err
    assert "kv.v.1" in err
    assert out == ""


def test_another_geometry_leaves_with_3_and_both_files_are_named(
    device: Path, tmp_path: Path, diff: Diff
) -> None:
    other = _written(tmp_path / "wide", dumped(THERE, key=HOST, row_bytes=32))
    code, _, err = diff(device, other)
    assert code == ExitCode.INPUT
    assert str(device) in err
    assert str(other) in err


def test_one_file_alone_is_no_comparison(device: Path, diff: Diff) -> None:
    assert diff(device)[0] == ExitCode.USAGE


def test_a_file_is_not_compared_with_itself(
    device: Path, host: Path, tmp_path: Path, diff: Diff
) -> None:
    (tmp_path / "link").symlink_to(device)
    for given in ((device, device), (device, tmp_path / "link"), (device, host, device)):
        code, out, err = diff(*given)
        assert (code, out) == (ExitCode.USAGE, "")
        assert "pool.snapshot.arrow is in A and in" in err


def test_it_imports_no_torch(device: Path, host: Path) -> None:
    script = (
        "import sys; from kvaudit.cli.entry import run; "
        f"code = run(['diff', {str(device)!r}, {str(host)!r}, '-q']); "
        "sys.exit(code or 9 * ('torch' in sys.modules))"
    )
    assert python("-c", script).returncode == 0
