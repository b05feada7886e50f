from __future__ import annotations

import io

from kvaudit.core.bench_report import BenchReport
from kvaudit.core.report import BackendChoice
from kvaudit.render.bench_text import write_bench_rows, write_bench_text
from tests.helpers.bench_pools import report, row


def _written(result: BenchReport) -> str:
    stream = io.StringIO()
    write_bench_text(result, stream)
    return stream.getvalue()


EXPECTED = """\
bench cuda (<b>GPU</b> & co)
  1,000 B a slot, pages of 16 in random order, requests of 32,768 tokens

  op      real-kv    entries     ms   GB/s  entries/s  of bandwidth        engine  reference  proved equal to
  verify  all      1,000,000  1.000  1,000     1.00 G  0.50 of 2,000 read   12.5x     2,000x  reference 23,424 · cpu all · engine all

time: median of 3, CUDA events
engine: how many times faster than a launch in an engine's own shape: 64 blocks of 512 threads, one thread an entry (write: a request), 16-byte loads, the fold in line
reference: how many times faster than the plain Python kernels, by the entry
backend cuda: the best that runs here
machine system Linux x86_64, numba 0.68.1
command kvaudit bench --sizes 1m
"""


def test_one_screen_has_the_table_and_what_it_takes_to_repeat_it() -> None:
    assert _written(report()) == EXPECTED


def test_notes_speak_only_of_what_was_measured() -> None:
    alone = row(engine_seconds=None, reference_seconds_per_entry=None)
    text = _written(report(alone, left_out=("fold: nothing to read",)))
    assert "engine:" not in text
    assert "reference:" not in text
    assert "left out: fold: nothing to read\n" in text


def test_a_name_cannot_command_the_terminal() -> None:
    device = BackendChoice(name="cuda", device="GPU\x1b[2J", reason="\x1b]0;x\x07")
    assert "\x1b" not in _written(report(backend=device))


def test_quiet_leaves_the_table() -> None:
    stream = io.StringIO()
    write_bench_rows(report(), stream)
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["op", "verify"]
