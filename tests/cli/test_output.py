from __future__ import annotations

import io
import json
import stat
from enum import StrEnum
from pathlib import Path

import pytest

from kvaudit.cli.options import ColorMode, OutputFormat
from kvaudit.cli.output import OutputFile, output_files, write_report
from kvaudit.errors import ConfigError, FileUnwritable
from tests.helpers import reports


@pytest.mark.parametrize("text", ["report.json", "yaml=report", "json=", "=x", ""])
def test_an_output_is_a_format_and_a_file(text: str) -> None:
    with pytest.raises(ConfigError):
        OutputFile.parse(text)


def test_a_file_name_may_hold_an_equals_sign() -> None:
    assert OutputFile.parse("json=a=b") == OutputFile(form=OutputFormat.JSON, path="a=b")


def test_a_command_may_have_formats_of_its_own() -> None:
    class Form(StrEnum):
        SVG = "svg"

    [file] = output_files(["svg=a.svg"], inputs=[], forms=Form)
    assert file.form is Form.SVG
    with pytest.raises(ConfigError) as raised:
        output_files(["json=a.json"], inputs=[], forms=Form)
    assert "the formats are svg" in raised.value.hint


def test_an_input_is_never_written_to_under_any_of_its_names(tmp_path: Path) -> None:
    dump = tmp_path / "a.snapshot.arrow"
    dump.write_bytes(b"x")
    link = tmp_path / "link"
    link.symlink_to(dump)
    for name in (dump, link, tmp_path / "." / "a.snapshot.arrow"):
        with pytest.raises(ConfigError):
            output_files([f"json={name}"], inputs=[str(dump)])


def test_two_documents_never_go_to_one_file(tmp_path: Path) -> None:
    (tmp_path / "old.json").touch()
    (tmp_path / "link").symlink_to(tmp_path / "new.json")
    for first, second in (("old.json", "old.json"), ("new.json", "link")):
        with pytest.raises(ConfigError, match="twice"):
            output_files([f"json={tmp_path / first}", f"text={tmp_path / second}"], inputs=())
    assert len(output_files(["json=/dev/null", "text=/dev/null"], inputs=())) == 2


def test_a_missing_folder_is_found_before_the_audit(tmp_path: Path) -> None:
    with pytest.raises(FileUnwritable) as raised:
        output_files([f"json={tmp_path}/no/report.json"], inputs=[])
    assert raised.value.path.endswith("no/report.json")


def test_a_folder_is_refused_before_the_audit_with_a_file_to_name(tmp_path: Path) -> None:
    with pytest.raises(FileUnwritable) as raised:
        output_files([f"json={tmp_path}"], inputs=[])
    assert raised.value.path == str(tmp_path)
    assert f"{tmp_path}/report.json" in raised.value.hint


def test_a_path_that_the_system_refuses_is_an_error_of_that_file(tmp_path: Path) -> None:
    path = str(tmp_path / ("n" * 5000))
    with pytest.raises(FileUnwritable) as raised:
        output_files([f"json={path}"], inputs=[str(tmp_path)])
    assert raised.value.path == path


def test_a_device_that_is_full_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileUnwritable) as raised:
        write_report(
            reports.CLEAN,
            form=OutputFormat.TEXT,
            files=[OutputFile(form=OutputFormat.JSON, path="/dev/full")],
            color=ColorMode.NEVER,
            quiet=False,
        )
    assert raised.value.path == "/dev/full"
    assert capsys.readouterr().out.startswith("CLEAN")


class Full(io.StringIO):
    def write(self, _text: str) -> int:
        raise FileUnwritable("no space left on device", path="stdout")


def test_a_file_is_written_even_if_stdout_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(FileUnwritable) as raised:
        write_report(
            reports.CLEAN,
            form=OutputFormat.JSON,
            files=[OutputFile(form=OutputFormat.JSON, path=str(report))],
            color=ColorMode.NEVER,
            quiet=False,
        )
    assert raised.value.path == "stdout"
    assert json.loads(report.read_text())["verdict"] == "clean"


def test_a_report_goes_to_stdout_and_to_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = output_files([f"json={tmp_path}/report.json", f"text={tmp_path}/report.txt"], inputs=[])
    write_report(
        reports.VIOLATIONS,
        form=OutputFormat.TEXT,
        files=files,
        color=ColorMode.ALWAYS,
        quiet=True,
    )
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert "\x1b[1;31mVIOLATIONS" in shown
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert text.startswith("VIOLATIONS  index 100%")
    assert "kv.v.17" in text
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["verdict"] == "violations"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.txt"]
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o600


def test_json_on_stdout_is_whole_even_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    write_report(
        reports.CLEAN, form=OutputFormat.JSON, files=[], color=ColorMode.ALWAYS, quiet=True
    )
    assert json.loads(capsys.readouterr().out)["schema"] == "kvaudit.report/1"


def test_a_device_is_written_to_and_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    write_report(
        reports.CLEAN,
        form=OutputFormat.TEXT,
        files=[OutputFile(form=OutputFormat.JSON, path="/dev/null")],
        color=ColorMode.NEVER,
        quiet=False,
    )
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert capsys.readouterr().out.startswith("CLEAN")
