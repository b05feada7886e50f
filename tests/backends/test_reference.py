from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from kvaudit.backends.reference import ReferenceBackend
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.errors import FileCorrupt
from tests.helpers.kv_columns import WindowedColumn, random_column


def test_the_fold_of_counting_bytes_is_the_designs() -> None:
    data = np.arange(16, dtype=np.uint8).reshape(1, 16)
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=16)
    assert ReferenceBackend().fold(column, np.array([0])).tolist() == [0x447F1B95028CE131]


def test_a_window_is_checked_before_it_is_folded() -> None:
    sound = random_column(num_rows=9, row_bytes=8, read_bytes=8, window_rows=3)
    corrupt = WindowedColumn(data=sound.data, read_bytes=8, window_rows=3, corrupt=1)
    backend = ReferenceBackend()
    assert (
        backend.fold(corrupt, np.array([0, 8])).tolist()
        == backend.fold(sound, np.array([0, 8])).tolist()
    )
    with pytest.raises(FileCorrupt):
        backend.fold(corrupt, np.array([4]))


def test_it_needs_numpy_alone() -> None:
    script = (
        "import sys, kvaudit.backends.reference\n"
        "print([name for name in ('numba', 'torch', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_it_has_nothing_to_compile() -> None:
    assert not ReferenceBackend().needs_compilation()
    ReferenceBackend().compile_kernels()
