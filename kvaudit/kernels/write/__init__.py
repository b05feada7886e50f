"""Contract of `write`: stamp the slots of a step, each request a chain.

`launch_write(write_offsets, write_seed_slot_indices, write_num_valid_reqs, input_ids, positions,
out_cache_loc, expected_input_tokens, expected_input_positions, real_kv_hashes,
enable_chain_position_assert, canary_records, violation_ring, violation_write_index,
slot_run_counter, kernel_run_counter, launch_tag)`

kernel_run_counter += 1. Requests r < clamp(num_valid_reqs, 0, request capacity); on a device they
are unordered among themselves, elsewhere they run in order. Entries of r are
[write_offsets[r], write_offsets[r + 1]) clamped to the token arrays; a decreasing pair is empty,
and a request without entries does nothing. Decides per request:

    seed >= num_slots   one row (slot = seed, bits PREV_SLOT_OUT_OF_RANGE, all else 0), then a head
    running             slot_hash(seed), any negative seed being CHAIN_ANCHOR
    chain assert        iff seed >= 0 (0 counts), in range, and the flag is not 0;
                        previous = the seed's stored position

and per entry, in order:

    slot < 0            skipped: nothing advances
    slot >= num_slots   no fold, no asserts, no store, no count; one row (position, token, expected
                        token = token, chain hash = running, aux = position, SLOT_OUT_OF_RANGE);
                        running and previous advance
    input assert        token and position against the expected pair: one row with both bits
                        (expected token = the expected one, aux = expected position)
    chain assert        position != previous + 1: a row of its own, WRITE_POSITION_MISMATCH
                        (expected token = token, aux = previous + 1)
    store               (token, position, running, real_kv_hashes[entry]); slot_run_counter += 1
    advance             previous = position; running = splitmix64_mix3(running, token, position)

Rows carry the written position, token and running as stored position, token and chain hash. The
ring is `verify`'s.

Inputs:
    write_offsets: shape [request capacity + 1], int64. write_seed_slot_indices: shape
        [request capacity], int64. write_num_valid_reqs: shape [1], int32.
    input_ids, positions: shape [num_tokens], uint64. out_cache_loc: shape [num_tokens], int64.
    expected_input_tokens, expected_input_positions: shape [num_tokens], uint64; shape [0]: the
        input assert is off.
    real_kv_hashes: combined hash of each entry, shape [num_tokens], uint64; shape [0] stores 0.
    enable_chain_position_assert: shape [1], int32.
In/out:
    canary_records: shape [num_slots, >= 4], uint64; words past the fourth are untouched. Slot 0 is
        written like any other.
    violation_ring, violation_write_index, slot_run_counter, kernel_run_counter: as in `verify`.
Scalars:
    launch_tag: int.

Unspecified: the outcome of two requests naming one slot on a device (in order elsewhere, the last
one stays), and of a seed that another request of the launch writes.
"""
