"""Clean dumps audited for identity, by all three sources of what layer 0 should hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from examples.capture_smollm2 import GGUF_FILE, weights_folder
from kvaudit import api
from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions, Layer0
from kvaudit.core.coverage import Family
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import Report, Verdict
from kvaudit.importers.model_weights import model_table
from kvaudit.runner.learn import learnt_table

SOURCES = ("dump", "learnt", "model")


@dataclass(slots=True, kw_only=True)
class Judged:
    """What audits by one source said, all together.

    Fields:
        dumps: dumps audited.
        not_judged: those of them that hold too little to judge by.
        planned: slots with a known token and layer-0 bytes.
        checked: those that were judged.
        positions: those whose K told the position too.
        accusations: what was found, each of it false.
    """

    dumps: int = 0
    not_judged: int = 0
    planned: int = 0
    checked: int = 0
    positions: int = 0
    accusations: list[str] = field(default_factory=list)

    def add(self, folder: Path, report: Report) -> None:
        self.dumps += 1
        covered = report.coverage.families[Family.IDENTITY]
        if covered is None:
            assert "too few" in report.coverage.absent[Family.IDENTITY]
            self.not_judged += 1
            self.planned += report.coverage.slots_planned
        else:
            self.planned += covered.planned
            self.checked += covered.checked
            self.positions += covered.details["positions_checked"]
        self.accusations += [f"{folder}: {found.rule} {found.summary}" for found in report.findings]
        if report.verdict is not Verdict.CLEAN and not report.findings:
            self.accusations.append(f"{folder}: {report.verdict}")


def judged_by(source: Layer0 | Layer0Table, folders: Iterable[Path]) -> Judged:
    """Audit each dump by one source."""
    judged = Judged()
    for folder in folders:
        report = api.audit(api.open([folder]), backend="cpu", options=AuditOptions(layer0=source))
        judged.add(folder, report)
    return judged


def learnt_from(folders: Sequence[Path]) -> Layer0Table:
    """A table learnt from dumps."""
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    pools = [pool for folder in folders for pool in api.open([folder]).pools]
    return learnt_table(pools, backend=backend, observer=SilentObserver())


def model_rows(dtype: str) -> Layer0Table:
    """The table of the model's own weights."""
    return model_table(str(Path(weights_folder()) / GGUF_FILE), dtype=dtype)


def judged_by_all(runs: dict[str, list[Path]], *, dtype: str) -> dict[str, Judged]:
    """Every dump by itself, by what the other runs taught, and by the model.

    Args:
        runs: the dumps of each run, all of one element type.
        dtype: the type.
    """
    everything = [folder for folders in runs.values() for folder in folders]
    found = {
        "dump": judged_by(Layer0.AUTO, everything),
        "learnt": Judged(),
        "model": judged_by(model_rows(dtype), everything),
    }
    for name, folders in runs.items():
        others = [folder for other, its in runs.items() if other != name for folder in its]
        part = judged_by(learnt_from(others), folders)
        found["learnt"] = added(found["learnt"], part)
    return found


def added(one: Judged, other: Judged) -> Judged:
    """Both together."""
    return Judged(
        **{
            part.name: getattr(one, part.name) + getattr(other, part.name)
            for part in fields(Judged)
        }
    )
