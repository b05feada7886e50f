"""Names of columns and metadata keys, and their types. FORMAT.md says the same in words."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from kvaudit.constants import PADDING_REQUEST, RECORD_WORDS, UNKNOWN_LENGTH
from kvaudit.formats.limits import (
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_PAGE_SIZE,
    MAX_POSITION,
    MAX_REQUEST_LEN,
    MAX_REQUEST_ROWS,
    MAX_RING_CAPACITY,
    MAX_SLOTS,
    MAX_WRITE_INDEX,
)

FORMAT_VERSION: Final = "1"
KEY_PREFIX: Final = "kvaudit."
KIND_KEY: Final = "kvaudit.kind"
FORMAT_KEY: Final = "kvaudit.format"
DIGESTS_KEY: Final = "kvaudit.digests"


class FileKind(StrEnum):
    """What a file holds."""

    SNAPSHOT = "snapshot"
    SEQUENCES = "sequences"
    PLAN = "plan"
    STATE = "state"
    TABLE = "table"


# What a snapshot is judged by.
EXPECTATIONS: Final = (FileKind.SEQUENCES, FileKind.PLAN)
FILE_SUFFIX: Final = ".arrow"

INT64: Final = pa.int64()
INT32: Final = pa.int32()
BOOL: Final = pa.bool_()
STRING: Final = pa.string()
INT64_LIST: Final = pa.list_(pa.int64())
STRING_LIST: Final = pa.list_(pa.string())
RECORD: Final = pa.list_(pa.field("item", pa.int64(), nullable=False), RECORD_WORDS)

# The numbers in metadata, by their keys without the prefix: the least and the most of each.
NUMBER_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "rank": (0, MAX_POSITION),
    "step": (-MAX_POSITION, MAX_POSITION),
    "page_size": (1, MAX_PAGE_SIZE),
    "num_slots": (0, MAX_SLOTS),
    "token_offset": (-MAX_POSITION, MAX_POSITION),
    "position_offset": (-MAX_POSITION, MAX_POSITION),
    "window": (1, MAX_POSITION),
    "violation_write_index": (0, MAX_WRITE_INDEX),
    "ring_capacity": (0, MAX_RING_CAPACITY),
    "num_heads": (1, MAX_HEADS),
    "head_dim": (1, MAX_HEAD_DIM),
    "v_head_dim": (1, MAX_HEAD_DIM),
}

SLOT_COLUMN: Final = "slot"
# Optional columns of a snapshot beside the families of `column_family`; text may be null.
EVIDENCE_TYPES: Final[dict[str, Any]] = {
    "swa_slot": INT64,
    "alloc.ref": INT32,
    "alloc.state": STRING,
    "alloc.owner": STRING,
    "written_step": INT64,
    "stamped_step": INT64,
}
_LAYER = r"(0|[1-9][0-9]{0,5})"
_SIDE = r"side\.[^\s.]+"
_FAMILIES: Final = {
    "canary": re.compile(r"canary\.[kv]\.(head|tail)"),
    "kv": re.compile(rf"kv\.((k|v|kv)\.{_LAYER}|{_SIDE})"),
    "stamped": re.compile(rf"stamped\.((k|v|kv)\.{_LAYER}|{_SIDE})"),
    "digest": re.compile(rf"digest\.((k|v|kv)\.{_LAYER}|{_SIDE})"),
}
COLUMN_FAMILIES: Final = tuple(_FAMILIES)
_PREFIXES: Final = tuple(f"{family}." for family in (*_FAMILIES, "alloc"))

SEQUENCES_REQUIRED: Final[dict[str, Any]] = {
    "request_id": STRING,
    "tokens": INT64_LIST,
    "slots": INT64_LIST,
}
SEQUENCES_OPTIONAL: Final[dict[str, Any]] = {
    "kv_len": INT64,
    "start_position": INT64,
    "prompt_len": INT64,
    "state": STRING,
    "extra_key": STRING,
}
SEQUENCES_NULLABLE: Final = frozenset({"state", "extra_key"})
# Of the numbers of a sequence: the least and the most of each.
LENGTH_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "kv_len": (0, MAX_POSITION),
    "start_position": (0, MAX_POSITION),
    "prompt_len": (UNKNOWN_LENGTH, MAX_POSITION),
}

VERIFY_LISTS: Final = (
    "verify_slot_indices",
    "verify_expected_tokens",
    "verify_expected_positions",
    "verify_prev_slot_indices",
)
PLAN_REQUIRED: Final[dict[str, Any]] = {
    "step": INT64,
    **dict.fromkeys(VERIFY_LISTS, INT64_LIST),
    "verify_num_valid": INT32,
    "enable": INT32,
    "check_verify_expected_token": BOOL,
}
PLAN_OPTIONAL: Final[dict[str, Any]] = {
    "tags": STRING_LIST,
    "tag": STRING,
    "verify_request_ids": STRING_LIST,
}
# The verify half of a row is null as a whole, or not at all.
VERIFY_COLUMNS: Final = tuple(name for name in PLAN_REQUIRED if name != "step")
# So is the write half, ...
WRITE_COLUMNS: Final[dict[str, Any]] = {
    "write_offsets": INT64_LIST,
    "write_seed_slot_indices": INT64_LIST,
    "write_num_valid_reqs": INT32,
    "input_ids": INT64_LIST,
    "positions": INT64_LIST,
    "out_cache_loc": INT64_LIST,
    "enable_write_input_assert": BOOL,
    "enable_chain_position_assert": INT32,
}
WRITE_LISTS: Final = ("input_ids", "positions", "out_cache_loc")
EXPECTED_LISTS: Final = ("expected_input_tokens", "expected_input_positions")
WRITE_OPTIONAL: Final[dict[str, Any]] = {
    **dict.fromkeys(EXPECTED_LISTS, INT64_LIST),
    "write_request_ids": STRING_LIST,
}
# ... and the batch; the rest of a trace's columns are empty where they are null.
BATCH_LISTS: Final = ("request_index", "prefix_lens", "extend_seq_lens")
EDIT_LISTS: Final = ("table_request_index", "table_positions", "table_lens")
EDIT_SLOTS: Final = "table_slots"
FREED_LISTS: Final = ("freed_request_index", "freed_lens")
COPY_LISTS: Final = ("copy_src_slots", "copy_dst_slots")
TRACE_LISTS: Final = (*BATCH_LISTS, *EDIT_LISTS, EDIT_SLOTS, *FREED_LISTS, *COPY_LISTS)
TRACE_COLUMNS: Final[dict[str, Any]] = {
    **WRITE_COLUMNS,
    **WRITE_OPTIONAL,
    **dict.fromkeys(TRACE_LISTS, INT64_LIST),
}
PLAN_NULLABLE: Final = frozenset({*PLAN_OPTIONAL, *VERIFY_COLUMNS})
# Of the numbers of a trace: the least and the most of each. Row 0 of the table is padding.
TRACE_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "request_index": (PADDING_REQUEST, MAX_REQUEST_ROWS - 1),
    "prefix_lens": (0, MAX_REQUEST_LEN),
    "extend_seq_lens": (0, MAX_REQUEST_LEN),
    "table_request_index": (PADDING_REQUEST + 1, MAX_REQUEST_ROWS - 1),
    "table_positions": (0, MAX_REQUEST_LEN),
    "table_lens": (0, MAX_REQUEST_LEN),
    "freed_request_index": (PADDING_REQUEST + 1, MAX_REQUEST_ROWS - 1),
    "freed_lens": (0, MAX_REQUEST_LEN),
}

# A row of the violation ring, in the ring's order.
RING_COLUMNS: Final[dict[str, Any]] = dict.fromkeys(
    (
        "launch_tag",
        "slot_idx",
        "position",
        "stored_token",
        "expected_token",
        "stored_chain_hash",
        "expected_aux",
        "fail_reason",
    ),
    INT64,
)
# Counts by launch tag in the metadata of a state file: JSON objects.
TAG_COUNTS: Final = ("kernel_run_counters", "slot_run_counters", "sweep_passes")

# A row of a table: the rows of a token in layer 0, and how many rows of a dump they rest on.
TABLE_REQUIRED: Final[dict[str, Any]] = {"token": INT64}
TABLE_ROWS: Final = ("k0", "v0")
TABLE_COUNTS: Final[dict[str, Any]] = {"rows_seen": INT64, "rows_agreeing": INT64}


def column_family(name: str) -> str | None:
    """`canary`, `kv`, `stamped` or `digest` for a well-formed name of that family, else None."""
    family = name.split(".", maxsplit=1)[0]
    pattern = _FAMILIES.get(family)
    return family if pattern is not None and pattern.fullmatch(name) else None


def claims_family(name: str) -> bool:
    """Whether a name starts like one of ours, so that a misspelt one is not passed over."""
    return name.startswith(_PREFIXES)


def kv_name(name: str) -> str:
    """The KV column that `stamped.k.0` or `digest.k.0` speaks of: `kv.k.0`."""
    return "kv." + name.split(".", 1)[1]


def type_word(arrow_type: pa.DataType) -> str:
    """The name of a column type in messages and in the schema's digest; variants keep theirs."""
    if pa.types.is_fixed_size_list(arrow_type):
        return f"fixed_size_list<{type_word(arrow_type.value_type)}>[{arrow_type.list_size}]"
    for is_variant, word in (
        (pa.types.is_list, "list"),
        (pa.types.is_large_list, "large_list"),
    ):
        if is_variant(arrow_type):
            return f"{word}<{type_word(arrow_type.value_type)}>"
    return str(arrow_type)


def is_string(arrow_type: pa.DataType) -> bool:
    """Whether a type is string in any of its variants."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return is_string(arrow_type.value_type)
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_string_view(arrow_type)
    )


def is_list(arrow_type: pa.DataType) -> bool:
    """Whether a type is a list of variable length in any of its variants."""
    types = pa.types
    return bool(
        types.is_list(arrow_type)
        or types.is_large_list(arrow_type)
        or types.is_list_view(arrow_type)
        or types.is_large_list_view(arrow_type)
    )


def accepts(wanted: pa.DataType, found: pa.DataType) -> bool:
    """Whether a column of type `found` may stand where FORMAT.md says `wanted`.

    Text and lists may be any variant of theirs; everything else is exact.
    """
    if wanted == STRING:
        return is_string(found)
    if pa.types.is_list(wanted):
        return is_list(found) and accepts(wanted.value_type, found.value_type)
    if pa.types.is_fixed_size_list(wanted):
        return bool(
            pa.types.is_fixed_size_list(found)
            and found.list_size == wanted.list_size
            and found.value_type == wanted.value_type
        )
    return bool(found == wanted)
