"""`fold` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.hash.reference import splitmix64


def source_hash(slot_bytes: bytes) -> int:
    """`acc = 0; per 8-byte little-endian word acc = S(acc ^ word)`, the last word zero-padded."""
    acc = 0
    for start in range(0, len(slot_bytes), WORD_BYTES):
        acc = splitmix64(acc ^ int.from_bytes(slot_bytes[start : start + WORD_BYTES], "little"))
    return acc


def launch_fold(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    source_hashes: NDArray[np.uint64],
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`."""
    num_slots = source_bytes.shape[0] * page_size
    for entry in range(slot_indices.shape[0]):
        slot = int(slot_indices[entry])
        if not 0 <= slot < num_slots:
            source_hashes[entry] = 0
            continue
        row = slot // page_size
        column = (slot % page_size) * num_bytes_per_token
        source_hashes[entry] = source_hash(
            source_bytes[row, column : column + read_bytes].tobytes()
        )


def launch_fold_pieces(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    source_hashes: NDArray[np.uint64],
    num_pieces: int,
    piece_stride: int,
    piece_bytes: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`, slots in pieces."""
    for entry in range(slot_indices.shape[0]):
        slot = int(slot_indices[entry])
        if not 0 <= slot < source_bytes.shape[0]:
            source_hashes[entry] = 0
            continue
        row = source_bytes[slot]
        firsts = [piece * piece_stride for piece in range(num_pieces)]
        source_hashes[entry] = source_hash(
            b"".join(row[first : first + piece_bytes].tobytes() for first in firsts)
        )


def launch_combine(source_hashes: NDArray[np.uint64], real_kv_hashes: NDArray[np.uint64]) -> None:
    """The contract of `kvaudit.kernels.fold`, one source."""
    for entry in range(source_hashes.shape[0]):
        real_kv_hashes[entry] = splitmix64(int(real_kv_hashes[entry]) ^ int(source_hashes[entry]))


def launch_fold_source(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    real_kv_hashes: NDArray[np.uint64],
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int,
    is_first_source: bool,
) -> None:
    """The contract of `kvaudit.kernels.fold`, the entries of a launch."""
    active = slot_indices.shape[0]
    if num_valid.shape[0]:
        active = max(0, min(int(num_valid[0]), active))
    if enable.shape[0] and enable[0] == 0:
        active = 0
    source_hashes = np.zeros(active, dtype=np.uint64)
    geometry = (page_size, num_bytes_per_token, read_bytes)
    launch_fold(source_bytes, slot_indices[:active], source_hashes, *geometry)
    for entry in range(active):
        before = 0 if is_first_source else int(real_kv_hashes[entry])
        real_kv_hashes[entry] = splitmix64(before ^ int(source_hashes[entry]))


def launch_count_written(
    write_offsets: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    num_valid: NDArray[np.int32],
    num_tokens: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`, the entries of a write."""
    largest = 0
    for request in range(max(0, min(int(write_num_valid_reqs[0]), write_offsets.shape[0] - 1))):
        largest = max(largest, int(write_offsets[request + 1]))
    num_valid[0] = min(largest, num_tokens)
