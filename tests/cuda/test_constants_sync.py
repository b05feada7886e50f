"""The C++ header says what `kvaudit/constants.py` says; no other file of either writes a number."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

from kvaudit import constants

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "cuda" / "include"
HEADER = INCLUDE / "kvaudit" / "constants.cuh"
LARGEST_LITERAL = 0xFFFF


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_constants", ROOT / "cuda" / "generate_constants.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rendering_gives_the_committed_bytes(generator):
    assert generator.render().encode() == HEADER.read_bytes()


def test_check_passes_on_the_committed_header_and_fails_on_another(
    generator, tmp_path, monkeypatch, capsys
):
    assert generator.main(["--check"]) == 0
    edited = tmp_path / "constants.cuh"
    edited.write_text(HEADER.read_text().replace("kRecordWords = 4", "kRecordWords = 5"))
    monkeypatch.setattr(generator, "HEADER", edited)
    assert generator.main(["--check"]) == 1
    assert "constants.cuh differs" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert edited.read_bytes() == HEADER.read_bytes()


def _camel(name: str) -> str:
    return "k" + "".join(word[0].upper() + word[1:].lower() for word in name.split("_"))


def _python_values() -> dict[str, int]:
    """Every public number of the module under its C++ name."""
    values: dict[str, int] = {}
    for name, value in vars(constants).items():
        if name.startswith("_"):
            continue
        if isinstance(value, int):
            values[_camel(name)] = value
        elif isinstance(value, type) and value.__module__ == constants.__name__:
            assert issubclass(value, Enum)
            values |= {f"{name}::{_camel(m.name)}": int(m.value) for m in value}
    return values


def _header_names() -> list[str]:
    """Every name that the header itself defines, read without the generator."""
    text = HEADER.read_text()
    names = re.findall(r"constexpr [\w:]+ (\w+) =", text)
    for enum_name, body in re.findall(r"enum class (\w+) : [\w:]+ \{(.*?)\};", text, re.DOTALL):
        names += [f"{enum_name}::{member}" for member in re.findall(r"(\w+) =", body)]
    return names


def test_a_compiler_reads_every_public_number_back(tmp_path):
    lines = [
        f'  std::printf("{name} %016llx\\n", static_cast<unsigned long long>(kvaudit::{name}));'
        for name in _header_names()
    ]
    program = tmp_path / "print_constants.cpp"
    program.write_text(
        '#include <cstdio>\n#include "kvaudit/constants.cuh"\nint main() {\n'
        + "\n".join(lines)
        + "\n}\n"
    )
    executable = tmp_path / "print_constants"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{INCLUDE}",
            program,
            "-o",
            executable,
        ],
        check=True,
    )
    printed = subprocess.run([executable], check=True, capture_output=True, text=True).stdout
    read_back = {name: int(value, 16) for name, value in map(str.split, printed.splitlines())}
    assert read_back == {name: value & constants.MASK64 for name, value in _python_values().items()}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "kvaudit" / "kernels").rglob("*.py")),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_kernel_writes_a_large_number(path):
    large = [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and node.value > LARGEST_LITERAL
    ]
    assert large == []


@pytest.mark.parametrize(
    "path",
    sorted(set(INCLUDE.rglob("*.cuh")) - {HEADER}),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_other_header_writes_a_large_number(path):
    literals = re.findall(r"\b(0[xX][0-9a-fA-F']+|[0-9][0-9']*)", path.read_text())
    assert [each for each in literals if int(each.replace("'", ""), 0) > LARGEST_LITERAL] == []
