from __future__ import annotations

import pytest
import torch

from kvaudit.runner.replay.slot_mask import SlotMask

ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_A_DEVICE)])
def test_slots_add_up_and_padding_is_counted(device: str) -> None:
    mask = SlotMask(6, device=torch.device(device))
    assert mask.mark(torch.tensor([0, 3, 3, 0], device=device)) == 2
    assert mask.mark(torch.tensor([4, 1 << 40], device=device)) == 0
    assert mask.mark(torch.tensor([], dtype=torch.int64, device=device)) == 0
    assert mask.read().tolist() == [True, False, False, True, True, True]
