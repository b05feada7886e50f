"""Recorded runs that tests replay, whole and damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kvaudit import api
from kvaudit.capture import Recorder
from kvaudit.capture.trace_switch import TraceSwitch
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.core.report import Report
from kvaudit.formats.trace_reader import open_trace
from kvaudit.formats.trace_writer import TraceWriter
from tests.helpers.toy_engine import ToyEngine

MAX_TOKENS, MAX_REQUESTS = 22, 3
SHARED_PREFIX = list(range(50, 58))
OnStep = Callable[[ToyEngine], None]


def record_toy(
    folder: Path,
    *,
    num_steps: int,
    digests_every: int = 0,
    on_step: OnStep | None = None,
    num_before: int = 0,
    content: str = "bytes",
) -> ToyEngine:
    """Requests join, most on a shared prefix, and leave when they are long.

    Args:
        folder: of the trace.
        num_steps: steps of it.
        digests_every: steps between its dumps of digests.
        on_step: called after a step's forward, before its dump.
        num_before: steps before the trace begins.
        content: of the first and last snapshot.
    """
    engine = ToyEngine(Recorder(content=content))
    engine.recorder._trace = switch = _TellingSwitch()
    traffic = _Traffic(engine)
    for _ in range(num_before):
        traffic.step()
    engine.recorder.start_trace(folder, digests_every=digests_every)
    switch.tell = None if on_step is None else lambda: on_step(engine)
    for _ in range(num_steps):
        traffic.step()
    switch.tell = None
    engine.recorder.end_trace()
    return engine


class _TellingSwitch(TraceSwitch):
    """Calls somebody when a step was stamped, before a dump that is due."""

    tell: Callable[[], None] | None = None

    def after_forward(self, step: int) -> Path | None:
        if self.tell is not None:
            self.tell()
        return super().after_forward(step)


class _Traffic:
    """Who joins and leaves. The prefix of the first request stays in its pages."""

    def __init__(self, engine: ToyEngine) -> None:
        self.engine = engine
        self.prefix_pages: list[int] = []
        self.num_joined = 0

    def step(self) -> None:
        engine = self.engine
        if len(engine.tokens) < MAX_REQUESTS and engine.recorder.step % 3 == 0:
            self.num_joined += 1
            tail = [self.num_joined * 7 + place for place in range(1 + self.num_joined % 5)]
            shares = bool(self.prefix_pages) and self.num_joined % 4 > 0
            engine.join(
                f"r{self.num_joined}",
                SHARED_PREFIX + tail,
                shared_pages=self.prefix_pages if shares else [],
            )
        engine.step(chunk=5)
        for name in [name for name, tokens in engine.tokens.items() if len(tokens) > MAX_TOKENS]:
            self._leave(name)

    def _leave(self, name: str) -> None:
        engine = self.engine
        if not self.prefix_pages:
            self.prefix_pages = engine.leave(name, kept_pages=2)
            engine.prefix = self.prefix_pages
        elif engine.tables[name][:2] == self.prefix_pages:
            # Its own pages alone are free.
            engine.tables[name], pages = engine.tables[name][:2], engine.tables[name][2:]
            engine.leave(name, kept_pages=2)
            engine.free_pages.extend(reversed(pages))
        else:
            engine.leave(name)


def replayed(
    folder: Path,
    *,
    backend: str = "cpu",
    environ: dict[str, str] | None = None,
    start: Path | None = None,
    against: Path | None = None,
    until: int | None = None,
    **options: Any,
) -> Report:
    """The report of a replay; environ without the prefix of the canary's variables."""
    return api.replay(
        api.open_run(folder, start=start, against=against, until=until),
        backend=backend,
        options=AuditOptions(**options),
        environ={f"KVAUDIT_CANARY_{name}": value for name, value in (environ or {}).items()},
    )


def findings(report: Report) -> dict[str, str]:
    """Summaries by rule."""
    return {finding.rule: finding.summary for finding in report.findings}


def first_difference(report: Report) -> dict[str, Any]:
    """The first difference that a replay names."""
    [finding] = [each for each in report.findings if each.rule == "KV404"]
    return finding.evidence["examples"][0]


def said(report: Report) -> dict[str, Any]:
    """A report without what tells of the machine."""
    document = report.to_dict()
    del document["timing"], document["backend"]
    return document


def rewrite_trace(folder: Path, change: Callable[[RecordedStep], RecordedStep | None]) -> int:
    """Put other steps in the place of a trace's; None leaves one out. How many differ."""
    path = folder / "full.plan.arrow"
    trace = open_trace(path)
    before = list(trace.steps())
    after = [change(recorded) for recorded in before]
    write_steps(path, [recorded for recorded in after if recorded is not None])
    return sum(new is not old for old, new in zip(before, after, strict=True))


def write_steps(path: Path, steps: Iterable[RecordedStep]) -> None:
    """A trace of these steps."""
    writer = TraceWriter(path, key=open_trace(path).key)
    for recorded in steps:
        writer.append(recorded)
    writer.close()
