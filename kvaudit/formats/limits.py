"""What a reader accepts at most. Every cap is checked before the memory it guards is taken.

A mapped file costs no memory, so the caps on it only stop nonsense; those on text and lists, which
become Python objects and copies, are tighter.
"""

from __future__ import annotations

from typing import Final

LIMIT_HINT: Final = "dump less into one file: live slots alone, or one rank or step a file"

MAX_FILE_BYTES: Final = 1 << 44
# A remote file is read whole into memory.
MAX_REMOTE_BYTES: Final = 1 << 34
# The footer and each message header: schema, metadata and digests.
MAX_HEADER_BYTES: Final = 1 << 26
MAX_COLUMNS: Final = 1 << 13
MAX_BATCHES: Final = 1 << 16
MAX_ROWS: Final = 1 << 31
# Slots that a file of page digests names by single bits: of each, a number is made.
MAX_PAGE_SLOTS: Final = 1 << 28
# Sequences and plan rows become Python objects.
MAX_OBJECT_ROWS: Final = 1 << 22
MAX_STRING_BYTES: Final = 1 << 16
MAX_COLUMN_STRING_BYTES: Final = 1 << 28
MAX_LIST_VALUES: Final = 1 << 31
# Numbers that the audit adds up: no sum of a few can leave int64, nor can one over the sequences
# of a few files.
MAX_SLOTS: Final = 1 << 32
MAX_PAGE_SIZE: Final = 1 << 24
MAX_POSITION: Final = 1 << 38
# The table that a replay keeps: requests, and positions of one.
MAX_REQUEST_ROWS: Final = 1 << 20
MAX_REQUEST_LEN: Final = 1 << 30
# The ring's write index is an int32 that goes on past its largest number: it is read as unsigned.
MAX_WRITE_INDEX: Final = (1 << 32) - 1
MAX_RING_CAPACITY: Final = (1 << 31) - 1
# A row of a layer-0 table.
MAX_HEADS: Final = 1 << 12
MAX_HEAD_DIM: Final = 1 << 16
# Files of one run, folders expanded.
MAX_FILES: Final = 1 << 14
