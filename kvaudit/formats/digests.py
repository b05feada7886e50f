"""The digests that a file carries of itself: Arrow IPC has no checksum.

Each record batch's custom metadata holds `kvaudit.digests`, a JSON object from column name to the
digests of its chunks; the schema's metadata holds one of the schema and the number of rows.
FORMAT.md, Integrity, is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from kvaudit.formats.ragged import raw_offsets
from kvaudit.formats.schema import DIGESTS_KEY, type_word
from kvaudit.kernels.row_threads import drain

CHUNK_BYTES: Final = 4 << 20


def new_hasher() -> xxhash.xxh3_64:
    """xxh3_64 of what `update` takes in; `hexdigest` gives 16 hex digits.

    The streaming form releases the GIL in every xxhash that we support, the one-shot form only in
    the newer ones.
    """
    return xxhash.xxh3_64()


def digest(content: memoryview | bytes) -> str:
    """xxh3_64 of bytes, as 16 hex digits."""
    hasher = new_hasher()
    hasher.update(content)
    return str(hasher.hexdigest())


def chunk_digests(content: NDArray[np.uint8]) -> list[str]:
    """Digests of each CHUNK_BYTES of a contiguous array, shape [num_bytes], uint8; on all cores."""
    firsts = range(0, content.size, CHUNK_BYTES)
    words = [""] * len(firsts)

    def hash_chunk(number: int) -> None:
        first = firsts[number]
        words[number] = digest(content[first : first + CHUNK_BYTES].data)

    drain(iter(range(len(firsts))), hash_chunk, max_threads=len(firsts))
    return words


def value_bytes(array: pa.Array) -> NDArray[np.uint8]:
    """The bytes of an int or fixed-size-binary array, shape [num_bytes], uint8; no copy."""
    width = array.type.bit_width // 8
    values = array.buffers()[1]
    if values is None or len(array) == 0:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(
        values, dtype=np.uint8, count=len(array) * width, offset=array.offset * width
    )


def _streams(array: pa.Array) -> Iterator[NDArray[np.uint8]]:
    """The byte streams that a column's digests cover, each cut into chunks of its own."""
    types = pa.types
    if array.null_count:
        yield array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    if types.is_fixed_size_list(array.type):
        yield from _streams(array.flatten())
    elif types.is_list(array.type) or types.is_large_list(array.type):
        offsets = raw_offsets(array)
        yield (offsets - offsets[0]).view(np.uint8)
        yield from _streams(array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
    elif types.is_string(array.type) or types.is_large_string(array.type):
        offsets = raw_offsets(array)
        yield (offsets - offsets[0]).view(np.uint8)
        text = array.buffers()[2]
        if text is not None:
            yield np.frombuffer(text, dtype=np.uint8)[int(offsets[0]) : int(offsets[-1])]
    elif types.is_boolean(array.type):
        known = array.fill_null(False) if array.null_count else array
        yield known.to_numpy(zero_copy_only=False).view(np.uint8)
    elif types.is_integer(array.type) or types.is_fixed_size_binary(array.type):
        yield value_bytes(array)
    else:
        raise TypeError(f"a column of type {array.type} has no digest")


def has_digest(arrow_type: pa.DataType) -> bool:
    """Whether digests are defined for a column type: views and dictionaries have none."""
    types = pa.types
    if types.is_fixed_size_list(arrow_type) or types.is_list(arrow_type):
        return has_digest(arrow_type.value_type)
    if types.is_large_list(arrow_type):
        return has_digest(arrow_type.value_type)
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_boolean(arrow_type)
        or types.is_integer(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
    )


def column_digests(array: pa.Array) -> list[str]:
    """Digests of all chunks of one column of one batch, stream after stream."""
    return [word for stream in _streams(array) for word in chunk_digests(stream)]


def batch_digests(batch: pa.RecordBatch) -> dict[str, list[str]]:
    """Digests of every column of a record batch, by column name."""
    return {
        name: column_digests(batch.column(column_idx))
        for column_idx, name in enumerate(batch.schema.names)
    }


def schema_digest(schema: pa.Schema, metadata: Mapping[str, str]) -> str:
    """The digest of a schema: names, types and metadata, whatever library wrote it.

    Args:
        schema: the Arrow schema.
        metadata: the schema's metadata; `kvaudit.digests` is left out.
    """
    columns = [
        [field.name, type_word(field.type), _sorted_pairs(field.metadata)] for field in schema
    ]
    pairs = sorted([key, value] for key, value in metadata.items() if key != DIGESTS_KEY)
    text = json.dumps([columns, pairs], ensure_ascii=True, separators=(",", ":"))
    return digest(text.encode())


def _sorted_pairs(metadata: Mapping[bytes, bytes] | None) -> list[list[str]]:
    return sorted(
        [key.decode(errors="backslashreplace"), value.decode(errors="backslashreplace")]
        for key, value in (metadata or {}).items()
    )


def encode_digests(digests: Mapping[str, Any]) -> str:
    """The text that stands under `kvaudit.digests`."""
    return json.dumps(digests, separators=(",", ":"))
