"""A snapshot file as a `Snapshot`: names, types, metadata and slots checked, KV bytes mapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.constants import RECORD_WORDS, RealKvHashMode
from kvaudit.core.layout import SlotRanges
from kvaudit.core.snapshot import AllocState, DigestGrain, DumpMoment, Snapshot
from kvaudit.errors import ConfigError, LimitExceeded, SchemaMismatch, ValuesInvalid
from kvaudit.formats.arrow_file import ArrowFile
from kvaudit.formats.columns import ColumnBatch, FileColumn, FileKvColumn
from kvaudit.formats.digests import value_bytes
from kvaudit.formats.limits import MAX_SLOTS
from kvaudit.formats.metadata_values import MetadataValues
from kvaudit.formats.page_reader import by_slot, page_columns
from kvaudit.formats.ragged import strings
from kvaudit.formats.schema import (
    COLUMN_FAMILIES,
    EVIDENCE_TYPES,
    INT32,
    INT64,
    RECORD,
    SLOT_COLUMN,
    STRING,
    claims_family,
    column_family,
    kv_name,
    type_word,
)

# A row is at most 2^31 - 1 bytes wide.
_MAX_WIDTH_DIGITS: Final = 10


def read_snapshot(file: ArrowFile) -> tuple[Snapshot, dict[str, str | int], list[str]]:
    """The snapshot, the given parts of its pairing key, and notes for the reader of the report.

    Raises:
        SchemaMismatch: a column or key is missing, malformed or of another type.
        ValuesInvalid: a null, or slots that are not ascending.
        LimitExceeded: a slot is too large.
        NotArrow: a buffer contradicts its offsets, lengths or encoding.
        FileCorrupt: the digest of the slots differs, or digests are missing.
    """
    values = MetadataValues(file.metadata, file.path)
    values.rope()
    grain = values.word("digest_grain", DigestGrain.SLOT)
    page_size = _page_size(values, file.path)
    names = _known_columns(file)
    if grain is DigestGrain.PAGE:
        names += page_columns(file, names, page_size=page_size)
    text_columns = {name for name in names if EVIDENCE_TYPES.get(name) == STRING}
    batches = file.read_columns(names, nullable=text_columns)
    slots = _slots(file, batches[SLOT_COLUMN])
    key, given = values.pool_key()
    num_slots = values.number("num_slots")
    families = _families(file, batches)
    if grain is DigestGrain.PAGE:
        slots, families = by_slot(file, slots, families, batches=batches, page_size=page_size)
    snapshot = Snapshot(
        path=file.path,
        slots=slots,
        num_slots=(int(slots[-1]) + 1 if slots.size else 0) if num_slots is None else num_slots,
        page_size=page_size,
        reserved_slots=_reserved_slots(values),
        key=key,
        at=values.word("at", DumpMoment.UNKNOWN),
        real_kv_hash_mode=_hash_mode(values),
        stamped_columns=_stamped_columns(values),
        token_offset=values.number("token_offset") or 0,
        position_offset=values.number("position_offset") or 0,
        digest_grain=grain,
        window=values.number("window"),
        canary=families["canary"],
        kv=families["kv"],
        stamped=families["stamped"],
        digests=families["digest"],
        evidence=families["evidence"],
        metadata=values.rest(),
        checksummed=file.checksummed,
    )
    notes = file.ignored_notes(names)
    if grain is DigestGrain.PAGE:
        notes.append(
            "digests are of pages: one that differs is a row at its page's first judged slot"
        )
    return snapshot, given, notes


def _slots(file: ArrowFile, batches: list[ColumnBatch]) -> NDArray[np.int64]:
    slots: NDArray[np.int64] = _column(file, SLOT_COLUMN, batches).read()
    if slots.size and int(slots.max()) >= MAX_SLOTS:
        raise LimitExceeded(
            f"slot {slots.max()}; slots below {MAX_SLOTS} are read",
            path=file.path,
            column=SLOT_COLUMN,
            row=int(slots.argmax()),
            hint="give slots as the engine numbers them: page x page_size + offset",
        )
    return slots


def _page_size(values: MetadataValues, path: str) -> int:
    page_size = values.number("page_size")
    if page_size is None:
        raise SchemaMismatch(
            "it has no metadata key kvaudit.page_size",
            path=path,
            hint="add the engine's page (block) size",
        )
    return page_size


def _families(
    file: ArrowFile, batches: Mapping[str, list[ColumnBatch]]
) -> dict[str, dict[str, Any]]:
    """The columns but `slot`, by family and by the name that `Snapshot` gives them there."""
    families: dict[str, dict[str, Any]] = {family: {} for family in (*COLUMN_FAMILIES, "evidence")}
    for name, column in batches.items():
        match column_family(name):
            case "canary":
                families["canary"][name.removeprefix("canary.")] = _column(file, name, column)
            case "kv":
                families["kv"][name] = _kv_column(file, name, column)
            case "stamped" | "digest" as family:
                families[family][kv_name(name)] = _column(file, name, column)
            case _ if name in EVIDENCE_TYPES:
                families["evidence"][name] = _column(file, name, column)
    return families


def _known_columns(file: ArrowFile) -> list[str]:
    """The columns to read, slot first, their types checked."""
    file.check_types({SLOT_COLUMN: INT64}, EVIDENCE_TYPES)
    names = [SLOT_COLUMN]
    for name in file.schema.names:
        family = column_family(name)
        if family == "kv":
            _check_kv_type(file, name)
        elif family is not None:
            file.check_type(name, RECORD if family == "canary" else INT64)
        elif name not in EVIDENCE_TYPES:
            if claims_family(name):
                raise SchemaMismatch(
                    "the column's name is not one of the format",
                    path=file.path,
                    column=name,
                    hint="write canary.<k|v>.<head|tail>, kv.<k|v|kv>.<layer>, kv.side.<name>, "
                    "stamped. or digest. and the same, or another prefix",
                )
            continue
        names.append(name)
    return names


def _check_kv_type(file: ArrowFile, name: str) -> None:
    found = file.schema.field(name).type
    if pa.types.is_fixed_size_binary(found) and found.byte_width > 0:
        return
    raise SchemaMismatch(
        f"its type is {type_word(found)}, not fixed_size_binary",
        path=file.path,
        column=name,
        hint="write the column as fixed_size_binary of one token's bytes",
    )


def _kv_column(file: ArrowFile, name: str, batches: list[ColumnBatch]) -> FileKvColumn:
    field = file.schema.field(name)
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (field.metadata or {}).items()
    }
    row_bytes = field.type.byte_width
    text = metadata.get("read_bytes", str(row_bytes))
    if not (
        text.isascii()
        and text.isdigit()
        and len(text) <= _MAX_WIDTH_DIGITS
        and int(text) <= row_bytes
    ):
        raise SchemaMismatch(
            f"its read_bytes is {text[:80]!r}, not between 0 and its {row_bytes} bytes",
            path=file.path,
            column=name,
            hint="correct the field's metadata, or leave it out to read all bytes",
        )
    return FileKvColumn(
        source=file.source,
        name=name,
        batches=batches,
        num_rows=file.num_rows,
        row_bytes=row_bytes,
        read_bytes=int(text),
        dtype=metadata.get("dtype", ""),
    )


def _column(file: ArrowFile, name: str, batches: list[ColumnBatch]) -> FileColumn:
    convert: Callable[[pa.Array, int], NDArray[Any]]
    empty: NDArray[Any]
    if column_family(name) == "canary":
        convert, empty = _records, np.empty((0, RECORD_WORDS), dtype=np.int64)
    elif EVIDENCE_TYPES.get(name) == STRING:
        convert, empty = partial(_texts, path=file.path, name=name), np.empty(0, dtype=object)
    else:
        dtype = np.dtype(np.int32 if EVIDENCE_TYPES.get(name) == INT32 else np.int64)
        convert, empty = partial(_integers, dtype), np.empty(0, dtype=dtype)
    return FileColumn(source=file.source, name=name, batches=batches, convert=convert, empty=empty)


def _records(array: pa.Array, _first_row: int) -> NDArray[Any]:
    return value_bytes(array.flatten()).view(np.int64).reshape(-1, RECORD_WORDS)


def _integers(dtype: np.dtype[Any], array: pa.Array, _first_row: int) -> NDArray[Any]:
    return value_bytes(array).view(dtype)


def _texts(array: pa.Array, first_row: int, *, path: str, name: str) -> NDArray[Any]:
    texts = np.array(strings(array, path=path, column=name), dtype=object)
    if name == "alloc.state":
        known = {None, *AllocState}
        for row, text in enumerate(texts):
            if text not in known:
                raise ValuesInvalid(
                    f"the state {text!r} is not {', '.join(AllocState)}",
                    path=path,
                    column=name,
                    row=first_row + row,
                    hint="write one of these, or null where the allocator says nothing",
                )
    texts.setflags(write=False)
    return texts


def _reserved_slots(values: MetadataValues) -> SlotRanges:
    text = values.text("reserved_slots")
    if text is None:
        return SlotRanges(((0, 0),))
    try:
        reserved = SlotRanges.parse(text)
    except ConfigError:
        reserved = None
    if reserved is None or any(last >= MAX_SLOTS for _, last in reserved.ranges):
        raise values.refuse("reserved_slots", text, "0, 0-15, 0,4-7 or none")
    return reserved


def _hash_mode(values: MetadataValues) -> RealKvHashMode:
    text = values.text("real_kv_hash_mode")
    words = {mode.name.lower(): mode for mode in RealKvHashMode}
    if text is None:
        return RealKvHashMode.NONE
    if text not in words:
        raise values.refuse("real_kv_hash_mode", text, " or ".join(words))
    return words[text]


def _stamped_columns(values: MetadataValues) -> tuple[str, ...]:
    names = values.names("stamped_columns")
    for name, count in Counter(names).items():
        if column_family(name) != "kv" or count > 1:
            raise values.refuse("stamped_columns", name, "the name of a KV column, once")
    return names
