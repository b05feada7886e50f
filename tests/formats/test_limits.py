"""Caps that keep sums inside int64 and memory inside reason."""

from __future__ import annotations

from kvaudit.formats import limits

MAX_INT64 = 2**63 - 1


def test_no_sum_of_a_few_numbers_of_a_file_leaves_int64():
    assert limits.MAX_SLOTS * limits.MAX_PAGE_SIZE < MAX_INT64
    assert limits.MAX_POSITION * limits.MAX_OBJECT_ROWS * 4 < MAX_INT64
    assert limits.MAX_ROWS * 8 < limits.MAX_FILE_BYTES


def test_text_of_one_row_fits_into_its_column():
    assert limits.MAX_STRING_BYTES <= limits.MAX_COLUMN_STRING_BYTES
