"""The documentation says what the program does, or a test fails."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvaudit.cli.app import app
from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.snapshot import PoolKey
from kvaudit.diagnosis.registry import RULES as REGISTRY
from tests.helpers import dumps

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
CALLS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
REPORT = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
WRITTEN = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "cuda" / "README.md"]
RULES = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


def _update_screens():
    path = ROOT / "docs" / "update_screens.py"
    spec = importlib.util.spec_from_file_location("update_screens", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


screens = _update_screens()
SHOWN = [
    pytest.param(found["command"], found["text"], id=f"{path.name}: {found['command']}")
    for path in screens.PAGES
    for found in screens.SCREEN.finditer(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("command", "text"), SHOWN)
def test_every_screen_is_what_its_command_prints(command: str, text: str) -> None:
    assert screens.settled(screens.screen(command)) == screens.settled(text), (
        "run python docs/update_screens.py"
    )


def test_a_stale_screen_is_replaced_and_a_current_one_kept() -> None:
    stale = "<!-- screen: --version -->\n```text\nold\n```\n"
    fresh = screens.renewed(stale)
    assert "old" not in fresh
    assert screens.renewed(fresh) == fresh


def test_every_command_is_on_the_command_line_page() -> None:
    for command in app.registered_commands:
        assert f"<!-- screen: {command.callback.__name__} --help -->" in CLI


def test_the_readme_lists_every_exit_code() -> None:
    for code in ExitCode:
        assert f"| {int(code)} | {code.name} |" in README


def test_every_rule_of_the_program_is_described_and_no_other() -> None:
    described = re.findall(r"^\| (KV\d{3}) \| (\S+) \| (\w+) \|", RULES, flags=re.MULTILINE)
    assert sorted(described) == sorted(
        (rule.id, rule.name, str(rule.severity)) for rule in REGISTRY
    )


def test_the_package_carries_the_page_of_rules_as_it_stands() -> None:
    assert screens.RULES_COPY.read_bytes() == screens.RULES.read_bytes(), (
        "run python docs/update_screens.py"
    )


def _keys(value: object, path: str = "") -> Iterator[str]:
    """Every key of a JSON document, as `tags[].tag`; a rule's own evidence is one value."""
    if isinstance(value, dict) and not path.endswith("evidence"):
        for name, item in value.items():
            below = re.sub(
                r"^coverage\.(index|records|bytes|identity)(?=$|\.(planned|checked|ratio)$)",
                "coverage.*",
                f"{path}.{name}".removeprefix("."),
            )
            if not isinstance(item, dict) or below in {"coverage.*", "findings[].evidence"}:
                yield below
            yield from _keys(item, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from _keys(item, f"{path}[]")


def test_every_key_of_the_json_report_is_described_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The damaged capture has every kind of row, the bled one is judged by its tokens, a slot outside
    the pool gives a finding, and a snapshot alone is judged by its chains. A comparison has legs.
    """
    outside, alone = tmp_path / "outside", tmp_path / "alone"
    dumps.write(outside, owners=dumps.sequences(slots=(2, 3, 4, 400)))
    dumps.write(alone, pool=dumps.flipped("kv.v.1", slot=3))[1].unlink()
    found = {f"inputs[].{part.name}" for part in fields(PoolKey)}
    examples = [ROOT / "examples" / f"smollm2-{name}" for name in ("damaged", "bled")]
    for folder in map(str, (*examples, outside, alone)):
        assert run(["verify", folder, "--format", "json", "-q"]) == ExitCode.VIOLATIONS
        found |= set(_keys(json.loads(capsys.readouterr().out)))
    dumps_of_one_pool = [
        str(ROOT / "examples" / f"smollm2-{name}") for name in ("clean", "damaged")
    ]
    compare = ["diff", *dumps_of_one_pool, "--content", "digests", "--format", "json", "-q"]
    assert run(compare) == ExitCode.INCOMPLETE
    found |= set(_keys(json.loads(capsys.readouterr().out)))
    described = re.findall(r"^\| `([^`]+)` \|", REPORT, flags=re.MULTILINE)
    assert sorted(described) == sorted(found)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the README's calls use: an engine of two layers and two requests."""
    pages = torch.arange(8 * 16 * 2 * 4).reshape(8, 16, 2, 4).to(torch.bfloat16)
    layer = SimpleNamespace(k_cache=pages, v_cache=pages + 1)
    requests = [
        SimpleNamespace(
            block_table=table,
            prompt_ids=list(range(17)),
            output_ids=[5],
            num_computed_tokens=17,
            request_id=name,
        )
        for name, table in (("first", [3, 1]), ("second", [2, 6]))
    ]
    monkeypatch.chdir(tmp_path)
    return {
        "layers": [layer, layer],
        "kv_caches": [torch.stack([pages, pages + 1]) for _ in range(2)],
        "running": requests,
        "step": 120,
        "model_config": {
            "model_type": "llama",
            "hidden_size": 8,
            "num_attention_heads": 2,
            "rope_theta": 10_000.0,
        },
    }


def test_the_call_to_paste_dumps_a_pool_that_verify_reads(
    engine: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The code block runs as it stands; two steps of one folder tree are verified together."""
    [command] = re.findall(r"```sh\nkvaudit (verify dumps/.*?)\n```", README)
    exec(CALLS[0], engine)  # noqa: S102 - our own page
    assert run(command.split()) == ExitCode.CLEAN
    assert capsys.readouterr().out.startswith("CLEAN  index 100% · records - (no canary) · bytes -")
    exec(CALLS[0], {**engine, "step": 121})  # noqa: S102 - our own page
    assert run(["verify", "dumps"]) == ExitCode.CLEAN


@pytest.mark.parametrize(("late_write", "verdict"), [(0, ExitCode.CLEAN), (1, ExitCode.VIOLATIONS)])
def test_the_recorded_step_stamps_what_a_late_write_then_breaks(
    engine: dict[str, Any], late_write: int, verdict: ExitCode
) -> None:
    def forward(scheduled: list[tuple[SimpleNamespace, int, int]]) -> None:
        for number, (request, _, _) in enumerate(scheduled):
            for cache in engine["kv_caches"]:
                cache[:, request.block_table] = number + 1.0

    engine["forward"] = forward
    exec(CALLS[1], engine)  # noqa: S102 - our own page
    engine["recorded_step"]([(request, 0, 17) for request in engine["running"]])
    engine["kv_caches"][1][1, 6, 0] += late_write
    engine["recorder"].dump("dumps/step-000120")
    assert run(["verify", "dumps", "--require", "records,bytes"]) == verdict


def test_ci_runs_the_second_command_of_the_readme_with_the_tests_last() -> None:
    steps = [
        line.removeprefix("step ").replace("--quiet ", "")
        for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
        if line.startswith("step ")
    ]
    install, tests = "pip install -c constraints.txt -e '.[dev]'", "pytest"
    assert f"{install} && {tests}\n" in README
    assert steps[0] == install
    assert steps[-1] == tests


def test_the_readme_installs_from_a_checkout_as_nothing_is_released() -> None:
    installed = re.findall(r"pip install (?:-\S+(?: constraints\.txt)? )*'?([^' \n]+)", README)
    assert len(installed) >= 3
    assert {package.partition("[")[0] for package in installed} <= {".", "./kvaudit"}


def test_the_help_of_verify_and_the_readme_name_the_blind_spots() -> None:
    verify = screens.screen("verify --help")
    for word in ("without a stamp", "before it was stamped", "token ids", "slot 0", "freed slots"):
        assert word in verify
    for word in ("without a stamp", "before the stamp", "token ids", "slot 0", "prompts in clear"):
        assert word in README


def _anchor(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(_anchor, titles), target
