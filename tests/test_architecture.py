"""Rules about the source that no linter of ours knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from kvaudit import __version__

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kvaudit"
MODULES = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))
MAX_LINES = 400
MAX_BODY_LINES = 50
MAX_KERNEL_BODY_LINES = 60
MAX_POSITIONAL = 3

# A module's test lies elsewhere than the mirror rule says, and why.
TESTED_ELSEWHERE = {
    "kvaudit/__main__.py": "tests/cli/test_entry.py",  # the forked tests start it
    "kvaudit/constants.py": "tests/cuda/test_constants_sync.py",  # against the C++ header
}


def _expected_test(module: Path) -> Path:
    """Where the mirror rule wants the test of a module."""
    inner = module.relative_to("kvaudit")
    if inner.parts[0] == "kernels" and len(inner.parts) == 3:
        return Path("tests/kernels", f"test_{inner.parts[1]}.py")
    return Path("tests", *inner.parts[:-1], f"test_{inner.name}")


def test_every_module_has_a_test_file() -> None:
    missing = []
    for module in MODULES:
        if module.name == "__init__.py":
            continue
        test = Path(TESTED_ELSEWHERE.get(module.as_posix(), _expected_test(module)))
        if not (ROOT / test).is_file():
            missing.append(f"{module} -> {test}")
    assert not missing, "modules without a test file:\n" + "\n".join(missing)


def test_every_exemption_from_the_mirror_names_files_that_exist() -> None:
    for module, test in TESTED_ELSEWHERE.items():
        assert (ROOT / module).is_file()
        assert (ROOT / test).is_file()
        assert not (ROOT / _expected_test(Path(module))).exists()


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_module_is_longer_than_the_limit(module: Path) -> None:
    assert len((ROOT / module).read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def _functions(module: Path) -> Iterator[ast.FunctionDef]:
    """Every function of a module, methods and inner ones included."""
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.AsyncFunctionDef)
        if isinstance(node, ast.FunctionDef):
            yield node


def _body_lines(function: ast.FunctionDef) -> int:
    """Lines from the first statement to the last; parameters and the docstring count for nothing."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_function_body_is_longer_than_the_limit(module: Path) -> None:
    limit = MAX_KERNEL_BODY_LINES if "kernels" in module.parts else MAX_BODY_LINES
    long = {function.name: _body_lines(function) for function in _functions(module)}
    assert not {name: lines for name, lines in long.items() if lines > limit}


@pytest.mark.parametrize(
    "module", [module for module in MODULES if "kernels" not in module.parts], ids=str
)
def test_no_function_takes_many_positional_parameters(module: Path) -> None:
    """The kernels' contracts are positional, since compiled calls are."""
    many = {}
    for function in _functions(module):
        named = [*function.args.posonlyargs, *function.args.args]
        names = [arg.arg for arg in named if arg.arg not in {"self", "cls"}]
        if len(names) > MAX_POSITIONAL:
            many[function.name] = names
    assert not many


def test_the_limits_of_functions_are_measured_and_not_only_stated() -> None:
    long = "\n".join(["def f(a, b, c, d):", *["    a"] * (MAX_BODY_LINES + 1)])
    [function] = ast.parse(long).body
    assert _body_lines(function) == MAX_BODY_LINES + 1
    assert len(function.args.args) > MAX_POSITIONAL


def _array_fields() -> Iterator[tuple[str, str, str]]:
    """(class, field, docstring) of every array field of a core dataclass."""
    for path in sorted((PACKAGE / "core").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and "NDArray" in ast.unparse(field.annotation):
                    owner = f"{path.stem}.{node.name}"
                    yield owner, ast.unparse(field.target), ast.get_docstring(node) or ""


def _documentation_of(field: str, docstring: str) -> str:
    """The text of one entry under `Fields:`, continuation lines included."""
    found = re.search(rf"^    {field}: (.*(?:\n     .*)*)", docstring, flags=re.MULTILINE)
    return found[1] if found else ""


def test_core_has_array_fields_to_document() -> None:
    assert len(list(_array_fields())) > 10


@pytest.mark.parametrize(
    ("owner", "field", "docstring"),
    [pytest.param(*item, id=f"{item[0]}.{item[1]}") for item in _array_fields()],
)
def test_every_array_field_is_documented_with_shape_and_dtype(
    owner: str, field: str, docstring: str
) -> None:
    text = _documentation_of(field, docstring)
    assert "shape [" in text, f"{owner}.{field} has no `shape [`"
    assert re.search(r"u?int\d+|float\d+|bool|object|dtype", text), f"{owner}.{field} has no dtype"


def _texts() -> list[Path]:
    folders = ("kvaudit", "tests", "cuda", "examples", "docs")
    found = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".cuh", ".cpp", ".cu", ".toml"}
    ]
    return [*found, *ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / ".ci").glob("*")]


def test_nothing_is_put_off() -> None:
    """A note to oneself is an issue, not a comment."""
    words = re.compile(
        r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b"
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _texts()
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if words.search(text)
    ]
    assert not found


def test_imports_point_downward() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "kvaudit/__init__.py"}
    assert metadata.version("kvaudit") == __version__
