"""Every number of the canary scheme, written once.

`cuda/generate_constants.py` renders the C++ header from this module. The values are those of
DESIGN.md 3; they are byte-compatible with SGLang's kv-canary 0.5.23.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF

# The splitmix64 finaliser without its increment: S(0) = 0, and S is a bijection.
SPLITMIX64_MULTIPLIER_1: Final = 0xBF58_476D_1CE4_E5B9
SPLITMIX64_MULTIPLIER_2: Final = 0x94D0_49BB_1331_11EB
SPLITMIX64_SHIFT_1: Final = 30
SPLITMIX64_SHIFT_2: Final = 27
SPLITMIX64_SHIFT_3: Final = 31

CHAIN_ANCHOR_INPUT: Final = 0xC0FF_EE12_3456_7890
# S(CHAIN_ANCHOR_INPUT): the slot hash that every chain starts from.
CHAIN_ANCHOR: Final = 0xDE7F_AE23_A9A1_B716

# A record: four 64-bit words at the start of a canary buffer's row.
RECORD_WORDS: Final = 4
RECORD_BYTES: Final = 32
RECORD_TOKEN: Final = 0
RECORD_POSITION: Final = 1
RECORD_PREV_HASH: Final = 2
RECORD_REAL_KV_HASH: Final = 3

# A row of the violation ring.
VIOLATION_FIELDS: Final = 8
VIOLATION_TAG: Final = 0
VIOLATION_SLOT: Final = 1
VIOLATION_STORED_POSITION: Final = 2
VIOLATION_STORED_TOKEN: Final = 3
VIOLATION_EXPECTED_TOKEN: Final = 4
VIOLATION_STORED_CHAIN_HASH: Final = 5
VIOLATION_EXPECTED_AUX: Final = 6
VIOLATION_REASON_BITS: Final = 7

WORD_BYTES: Final = 8
PARTIAL_READ_BYTES: Final = 16
# Strides and sizes of a launch's sources: engines read them with 16-byte loads.
SOURCE_ALIGNMENT_BYTES: Final = 16

PADDING_SLOT: Final = 0
PADDING_REQUEST: Final = 0
NO_PREDECESSOR: Final = -1
PREDECESSOR_UNREACHABLE: Final = 0
NO_EXPECTED_TOKEN: Final = -1
UNKNOWN_TOKEN: Final = -1
UNKNOWN_LENGTH: Final = -1
# The written_step or stamped_step of a slot that was never written, or stamped.
NO_STEP: Final = -1
NO_SEED: Final = -1
# A write entry of it is not stored: nothing of its chain advances.
SKIP_WRITE: Final = -1
# What a full-to-window map holds for a slot without a window slot.
SWA_TOMBSTONE: Final = 0
# What a device writes for an entry outside the request table or the SWA map.
OUT_OF_TABLE_SLOT: Final = 0x7FFF_FFFF_FFFF_FFFF

NUM_LAUNCH_TAGS: Final = 12


class LaunchTag(IntEnum):
    """Which launch wrote a row: phase x half x pool kind."""

    HEAD_K_FULL = 0
    HEAD_V_FULL = 1
    TAIL_K_FULL = 2
    TAIL_V_FULL = 3
    SWEEP_K_FULL = 4
    SWEEP_V_FULL = 5
    HEAD_K_SWA = 6
    HEAD_V_SWA = 7
    TAIL_K_SWA = 8
    TAIL_V_SWA = 9
    SWEEP_K_SWA = 10
    SWEEP_V_SWA = 11


class FailReason(IntFlag):
    """What differed. Bits 0-5 are the engine's, bits 16-18 kvaudit's own."""

    VERIFY_CHAIN_HASH_MISMATCH = 1
    VERIFY_POSITION_MISMATCH = 2
    VERIFY_REAL_KV_HASH_MISMATCH = 4
    WRITE_TOKEN_MISMATCH = 8
    WRITE_POSITION_MISMATCH = 16
    VERIFY_TOKEN_MISMATCH = 32
    SLOT_OUT_OF_RANGE = 1 << 16
    PREV_SLOT_OUT_OF_RANGE = 1 << 17
    COLUMN_DIGEST_MISMATCH = 1 << 18


class RealKvHashMode(IntEnum):
    """How much of a slot's KV bytes its real_kv_hash covers."""

    NONE = 0
    PARTIAL = 1
    ALL = 2
