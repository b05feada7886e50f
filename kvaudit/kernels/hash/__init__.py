"""Contract of `hash`: the slot hash of records.

`launch_hash(canary_records, slot_indices, slot_hashes)`

Decides per entry: a negative slot is a chain head and gives CHAIN_ANCHOR; any other slot s gives
splitmix64_mix3(prev_hash, token, position) of record s (DESIGN.md 3).

Inputs:
    canary_records: shape [num_slots, >= 4], uint64, words token, position, prev_hash, real_kv_hash
        first; rows may be strided.
    slot_indices: shape [n], int64, below num_slots. The caller guarantees the bound.
Outputs:
    slot_hashes: shape [n], uint64; every element is written.
"""
