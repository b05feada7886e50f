"""docs/launches.md runs as it stands, or a test fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "launches.md"
LAUNCHES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
            ],
        ),
    ],
)
def test_the_launches_page_checks_a_live_engine(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three positions are stamped, then a fourth; a bit flipped in between has one row."""
    allocate, step, look, capture = LAUNCHES
    pages = torch.arange(4 * 16 * 2 * 8).reshape(4, 16, 2, 8).to(torch.bfloat16).to(device)
    table = torch.zeros((2, 64), dtype=torch.int32, device=device)
    table[1, :4] = torch.tensor([40, 7, 8, 9])
    engine = {
        "device": device,
        "num_slots": 64,
        "k_caches": [pages, pages + 1],
        "req_to_token": table,
        "forward": lambda: None,
    }
    exec(allocate, engine)  # noqa: S102 - our own page
    exec(step, engine)  # noqa: S102 - our own page
    run = engine["checked_step"]
    if device == "cuda":
        exec(capture, engine)  # noqa: S102 - our own page
        run = engine["graph"].replay
        for tensor in (engine["context"].kernel_run_counter, engine["context"].slot_run_counter):
            tensor.zero_()
        engine["context"].canary_buf.zero_()
    engine["req_pool_indices"][0] = 1
    for prefix_len, extend_len, flipped in ((0, 3, 0), (3, 1, 0), (4, 0, 1)):
        engine["k_caches"][1].view(torch.int16)[0, 8, 1, 3] ^= flipped  # slot 8
        engine["prefix_lens"][0], engine["extend_seq_lens"][0] = prefix_len, extend_len
        written = slice(prefix_len, prefix_len + extend_len)
        engine["positions"][:extend_len] = torch.arange(4)[written]
        engine["out_cache_loc"].fill_(-1)
        engine["out_cache_loc"][:extend_len] = table[1, written]
        run()
        exec(look, engine)  # noqa: S102 - our own page
        expected = "slot 8: <FailReason.VERIFY_REAL_KV_HASH_MISMATCH: 4>\n" if flipped else ""
        assert capsys.readouterr().out == expected
    assert engine["context"].kernel_run_counter.tolist() == [6]
    assert engine["context"].slot_run_counter.tolist() == [3 + (3 + 1) + 4]
