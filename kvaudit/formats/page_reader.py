"""A file of page digests, of which a row is a page, as columns of which a row is a slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.kv_column import PageColumn, RowColumn
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.columns import ColumnBatch, FileColumn
from kvaudit.formats.digests import value_bytes
from kvaudit.formats.page_grain import (
    PAGE_SLOTS_COLUMN,
    check_page_columns,
    page_slots_type,
    slots_of_pages,
)


def page_columns(file: ArrowFile, names: Sequence[str], *, page_size: int) -> list[str]:
    """The columns that such a file has besides the known ones.

    Args:
        file: the file.
        names: its known columns.
        page_size: slots a page.

    Raises:
        SchemaMismatch: `page_slots` is missing or of another type, or a known column's values are
            of slots.
    """
    own = [name for name in file.schema.names if name == PAGE_SLOTS_COLUMN]
    check_page_columns([*names, *own], file.path)
    file.check_type(PAGE_SLOTS_COLUMN, page_slots_type(page_size))
    return own


def by_slot(
    file: ArrowFile,
    first_slots: NDArray[np.int64],
    families: Mapping[str, Mapping[str, RowColumn]],
    *,
    batches: Mapping[str, list[ColumnBatch]],
    page_size: int,
) -> tuple[NDArray[np.int64], dict[str, dict[str, Any]]]:
    """The slots that the rows speak of, and the columns with a value a slot.

    Args:
        file: the file.
        first_slots: its column `slot`, shape [pages], int64.
        families: its columns, by family and name.
        batches: its columns as they were read.
        page_size: slots a page.

    Raises:
        ValuesInvalid: `page_slots` contradicts `slot` or the page size.
        LimitExceeded: it names too many slots.
        FileCorrupt: its digest differs.
    """
    width = page_slots_type(page_size).byte_width
    page_slots = FileColumn(
        source=file.source,
        name=PAGE_SLOTS_COLUMN,
        batches=batches[PAGE_SLOTS_COLUMN],
        convert=lambda array, _: value_bytes(array).reshape(-1, width),
        empty=np.empty((0, width), dtype=np.uint8),
    ).read()
    slots, counts = slots_of_pages(first_slots, page_slots, page_size=page_size, path=file.path)
    return slots, {
        family: {
            name: PageColumn(pages=pages, rows_per_page=counts) for name, pages in columns.items()
        }
        for family, columns in families.items()
    }
