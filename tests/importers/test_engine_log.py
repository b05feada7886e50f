"""Texts as people paste them: wrapped, headless, prefixed, coloured, quoted, mixed, damaged."""

from __future__ import annotations

import gc
import random
import textwrap
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.core.engine_log import LogEvent, LoggedViolation
from kvaudit.importers.engine_log import read_engine_log
from tests.helpers.engine_logs import OTHER_LINES, RECORDS, T02, chain, log_of, rows

OTHER = chain((31, 32, 33, 34), (2, 3, 4, 5))
LATE = rows({**RECORDS, 7: (99, 1, RECORDS[7][2] ^ 5)})
SHIFTED = rows({**RECORDS, 8: (23, 3, RECORDS[8][2])})


def _read(text: str, *, size: int = 1 << 20) -> list[LogEvent]:
    data = text.encode(errors="surrogateescape")
    return list(read_engine_log(data[at : at + size] for at in range(0, len(data), size)))


def _violations(text: str, **options: int) -> list[LoggedViolation]:
    return [event for event in _read(text, **options) if isinstance(event, LoggedViolation)]


def test_the_engines_own_example_is_one_violation() -> None:
    [found] = _read(f"[2026-05-02 05:55:41 DP0 TP1] {T02}")
    assert found == LoggedViolation(
        tag="HEAD_K_FULL",
        slot=4,
        position=1,
        reasons=found.reasons,
        token=22,
        chain_hash=0x37FCA5A47DCA7665,
        expected_hash=0x13F5BAAFE6EF85D6,
        rank="DP0 TP1",
        step=7,
        total=2,
        ring_overflow=False,
    )


def test_mode_raise_is_one_error_with_all_pending_violations() -> None:
    ring = [*LATE, *SHIFTED]
    text = f"Traceback (most recent call last):\n  ...\nRuntimeError: {log_of(ring)}more\n"
    assert [(row.slot, row.step) for row in _violations(text)] == [(row.slot, 7) for row in ring]


def test_other_lines_keep_their_place_among_violations() -> None:
    events = _read(T02 + OTHER_LINES + T02)
    assert [isinstance(event, LoggedViolation) for event in events] == [True, *[False] * 9, True]


@given(
    width=st.integers(30, 200),
    indent=st.sampled_from(["", "    ", "> ", "  | "]),
    colour=st.sampled_from(["", "\x1b[33m", "\x1b[1;31m"]),
    end=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 400),
)
def test_a_wrapped_quoted_and_coloured_text_says_the_same(
    width: int, *, indent: str, colour: str, end: str, size: int
) -> None:
    text = log_of(LATE, prefix="[05:55:41 TP1] ")
    wrapped = [
        f"{indent}{colour}{part}{colour and chr(27) + '[0m'}{end}"
        for line in text.splitlines()
        for part in textwrap.wrap(line, width, drop_whitespace=True)
    ]
    found = _violations("".join(wrapped), size=size)
    assert [row.slot for row in found] == [row.slot for row in LATE]
    for row, plain in zip(found, _violations(text), strict=True):
        assert (row.reasons, row.token, row.chain_hash, row.expected_hash, row.total) == (
            plain.reasons,
            plain.token,
            plain.chain_hash,
            plain.expected_hash,
            plain.total,
        )


@given(st.data())
def test_ranks_whose_lines_are_mixed_are_told_apart(data: st.DataObject) -> None:
    """Each process's lines stay in order; those of one may stand between those of another."""
    queues = [
        log_of(LATE[:1], prefix="[TP0] ").splitlines(),
        log_of(SHIFTED[:1], prefix="[TP1] ").splitlines(),
    ]
    mixed = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
    found = _violations("\n".join(mixed))
    assert sorted((row.rank, row.slot) for row in found) == [
        ("TP0", LATE[0].slot),
        ("TP1", SHIFTED[0].slot),
    ]


def test_a_first_line_that_gets_no_body_is_still_a_violation() -> None:
    first = T02.splitlines()[0]
    found = _violations(f"{first}\n" * 3)
    assert [(row.slot, row.step) for row in found] == [(4, None)] * 3


def test_a_pasted_body_is_a_violation_of_its_own() -> None:
    [found] = _violations("\n".join(T02.splitlines()[1:]))
    assert (found.slot, found.token, found.total) == (4, 22, 2)


def test_the_memory_that_a_log_takes_does_not_grow_with_it() -> None:
    """Ten times as long, a log of 1% canary lines takes as much at its peak."""
    noise = b"[05:55:41 TP1] Decode batch. #running-req: 3, token usage: 0.42\n" * 2_000
    piece = noise + log_of(LATE, prefix="[TP1] ").encode()

    def peak(repeats: int) -> int:
        gc.collect()
        tracemalloc.start()
        count = sum(1 for _ in read_engine_log(piece for _ in range(repeats)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == repeats * len(LATE)
        return most

    # 24 MB more of log take less than a piece more of memory.
    assert peak(200) < peak(20) + len(piece)


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_no_bytes_are_a_crash(pieces: list[bytes]) -> None:
    marked = [b"canary_kind: kv_canary violation: " + piece for piece in pieces]
    list(read_engine_log(pieces))
    list(read_engine_log(marked))


MIXED = (log_of([*LATE, *SHIFTED], prefix="[TP1] ") + OTHER_LINES).encode()


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_damaged_texts_are_read_without_a_crash(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - damage, no secret
    for _ in range(100):
        text = bytearray(MIXED)
        for _ in range(generator.randrange(1, 30)):
            at = generator.randrange(len(text))
            if generator.random() < 0.5:
                text[at] = generator.randrange(256)
            else:
                del text[at : at + generator.randrange(1, 40)]
        for event in read_engine_log([bytes(text)]):
            assert event.rank in {"", "TP1"} or event.rank.startswith(("TP", "DP", "PP", "EP"))
