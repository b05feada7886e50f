from __future__ import annotations

import pytest

from kvaudit.importers.log_blocks import LogBlock, log_blocks
from tests.helpers.engine_logs import OTHER_LINES, T02


def _blocks(text: str) -> list[LogBlock]:
    return list(log_blocks([text.encode()]))


def test_a_violation_is_one_block_with_what_the_logger_wrote_before_it() -> None:
    [block] = _blocks(f"noise\n[2026-05-02 05:55:41 TP1] {T02}noise\n")
    assert block.prefix == "[2026-05-02 05:55:41 TP1] "
    assert (block.is_violation, block.has_first_line) == (True, True)
    assert block.squeezed.startswith("kv_canaryviolation:launch_tag=HEAD_K_FULL")
    assert block.squeezed.endswith("step_when_pumped=7")


def test_a_block_without_its_first_line_begins_at_the_second_or_the_third() -> None:
    for skipped in (1, 2):
        [block] = _blocks("\n".join(T02.splitlines()[skipped:]))
        assert not block.has_first_line
        assert block.has_second_line == (skipped == 1)


def test_lines_between_blocks_are_in_none_and_each_other_line_is_its_own() -> None:
    noise = "noise of canary birds\n" * 3
    blocks = _blocks(noise + T02 + noise + OTHER_LINES + noise)
    assert [block.is_violation for block in blocks] == [True] + [False] * 9
    assert not any("birds" in block.squeezed for block in blocks)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(T02.replace("\n", "\r\n"), id="crlf"),
        pytest.param(T02.replace("\n", "\\n"), id="escaped line ends"),
        pytest.param("".join(f"> {line}\n" for line in T02.splitlines()), id="quoted"),
        pytest.param("".join(f"\x1b[33m{line}\x1b[0m\n" for line in T02.splitlines()), id="ansi"),
    ],
)
def test_what_a_terminal_or_a_mail_adds_is_left_out(text: str) -> None:
    [plain], [block] = _blocks(T02), _blocks(text)
    assert block.squeezed == plain.squeezed


def test_a_block_that_never_ends_is_given_up() -> None:
    blocks = _blocks("kv_canary violation: launch_tag=HEAD_K_FULL\n" + "noise\n" * 10_000 + T02)
    assert len(blocks) == 2
    assert len(blocks[0].lines) <= 64


def test_a_line_of_any_length_is_cut_around_the_word() -> None:
    [block] = _blocks("x" * 1_000_000 + T02)
    assert block.squeezed.endswith("step_when_pumped=7")
    assert len(block.prefix) < 100_000
