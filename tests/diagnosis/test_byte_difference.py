from __future__ import annotations

import numpy as np

from kvaudit.diagnosis.byte_difference import byte_difference

ROW = np.arange(16, dtype=np.uint8)


def test_the_first_byte_that_differs_is_named_and_the_others_are_counted() -> None:
    other = ROW.copy()
    other[[9, 15]] ^= np.uint8(0x41)
    found = byte_difference(ROW, other)
    assert (found.byte, found.num_bytes, found.num_bits, found.row_bytes) == (9, 2, 4, 16)
    assert (found.left, found.right) == ("090a0b0c0d0e0f", "480a0b0c0d0e4e")
    assert found.words() == "byte 9 of 16 is 48, and not 09, and 1 more differ"


def test_equal_rows_have_no_difference() -> None:
    assert byte_difference(ROW, ROW.copy()) is None
