"""Sizes for people."""

from __future__ import annotations

import pytest

from kvaudit.core.size_label import bytes_label


@pytest.mark.parametrize(
    ("num_bytes", "label"),
    [
        (512, "512 B"),
        (1536, "1.5 kB"),
        (999_999, "1,000.0 kB"),
        (10**9, "1.0 GB"),
        (10**13, "10,000.0 GB"),
    ],
)
def test_sizes_are_powers_of_a_thousand(num_bytes: int, label: str) -> None:
    assert bytes_label(num_bytes) == label
