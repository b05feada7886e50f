"""Contract of `verify`: does every planned slot hold the record it should?

`launch_verify(canary_records, verify_slot_indices, verify_expected_tokens,
verify_expected_positions, verify_prev_slot_indices, verify_num_valid, enable, real_kv_hashes,
reason_bits, violation_ring, violation_write_index, slot_run_counter, kernel_run_counter,
launch_tag, check_verify_expected_token)`

kernel_run_counter += 1 always. enable == 0: stop there. active = clamp(num_valid, 0, capacity);
slot_run_counter += active, padding included. Decides per active entry, in this order:

    slot == 0                    skipped: bits 0, no row
    slot < 0 or >= num_slots     SLOT_OUT_OF_RANGE alone; stored fields and aux are 0
    prev == 0                    predecessor unreachable: no chain check, aux = stored chain hash
    prev >= num_slots            PREV_SLOT_OUT_OF_RANGE is or-ed in, aux = stored chain hash
    else                         aux = slot_hash(prev), any negative prev being CHAIN_ANCHOR;
                                 chain check: stored prev_hash == aux
    token                        if the flag is set and expected_token != -1
    position                     always
    real_kv_hash                 always: stored == real_kv_hashes[entry]

An entry with any bit is a row of the ring: tag, slot, stored position, stored token, expected
token (-1 = unchecked, also when the flag is not set), stored chain hash, aux, bits. Fill-once:
seq = violation_write_index++; the row is stored only if 0 <= seq < ring capacity.

Inputs:
    canary_records: shape [num_slots, >= 4], uint64; rows may be strided.
    verify_slot_indices, verify_prev_slot_indices: shape [capacity], int64.
    verify_expected_tokens, verify_expected_positions: shape [capacity], uint64.
    verify_num_valid, enable: shape [1], int32.
    real_kv_hashes: expected combined hash of each entry, shape [capacity], uint64; shape [0]
        expects 0 everywhere (mode NONE, or no source).
In/out:
    reason_bits: shape [capacity], uint32; written for active entries (0 = judged or skipped and
        found right), all others untouched. Shape [0]: not wanted.
    violation_ring: shape [ring_capacity, 8], uint64; ring_capacity may be 0.
    violation_write_index: shape [1], int32.
    slot_run_counter, kernel_run_counter: shape [1], int64.
Scalars:
    launch_tag: int. check_verify_expected_token: bool.

Unspecified: the order of the rows on a device (entry order elsewhere), and which rows an
overflowing ring keeps there. Malformed indices are clamped or reported as above; nothing is read
outside an array.

`launch_verify_source(canary_records, verify_slot_indices, verify_expected_tokens,
verify_expected_positions, verify_prev_slot_indices, verify_num_valid, enable, real_kv_hashes,
source_bytes, reason_bits, violation_ring, violation_write_index, slot_run_counter,
kernel_run_counter, launch_tag, check_verify_expected_token, page_size, num_bytes_per_token,
read_bytes)`

The same, but for the last source of the slots, which is folded here: an entry's combined hash is
S(h ^ source hash), where h is real_kv_hashes[entry], that of the sources before it, or 0 where
real_kv_hashes has shape [0] and there are none. The source hash is that of `launch_fold`; any
read_bytes is right, and few are read faster here than by a launch of their own.

Inputs:
    source_bytes: as in `launch_fold`.
Scalars:
    page_size, num_bytes_per_token, read_bytes: as in `launch_fold`.
"""
