from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from kvaudit.errors import BackendNotInstalled
try:
    import {module}
except BackendNotInstalled as error:
    print(error.hint)
"""


@pytest.mark.parametrize("module", ["kvaudit.backends.launch", "kvaudit.backends.torch_module"])
def test_a_missing_torch_is_told_with_the_extra(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "kvaudit[torch]" in done.stdout


def test_the_torch_it_hands_out_is_torch() -> None:
    import torch

    from kvaudit.backends import torch_module

    assert torch_module.torch is torch
