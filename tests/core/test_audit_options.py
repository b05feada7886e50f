"""The defaults of an audit: those of the library and of the command are one."""

from __future__ import annotations

import pytest

from kvaudit import api
from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.report import Report
from tests.helpers.worlds import fixture_f


def test_the_command_without_options_asks_for_what_the_library_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    audit = api.audit

    def noted(_dataset: object, *, backend: str, options: AuditOptions, **_: object) -> Report:
        asked.append((backend, options))
        return audit(fixture_f().dataset(), backend="reference", options=options)

    monkeypatch.setattr(api, "audit", noted)
    assert run(["verify", "examples/smollm2-clean", "-q"]) == ExitCode.CLEAN
    assert asked == [("auto", AuditOptions())]
