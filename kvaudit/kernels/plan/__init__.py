"""Contract of `plan`: flatten a batch into what the launches check and write.

`launch_plan(req_pool_indices, prefix_lens, extend_seq_lens, req_to_token,
full_to_swa_index_mapping, req_to_verify_expected_tokens, req_to_verify_expected_tokens_valid_lens,
verify_slot_indices, verify_expected_tokens, verify_expected_positions, verify_prev_slot_indices,
verify_num_valid, enable, write_offsets, write_seed_slot_indices, write_num_valid_reqs,
swa_window_size, kv_token_id_vs_position_offset)`

The rules are DESIGN.md 3, Plan, word for word. Entries stand in batch order, then position order.
Entries past num_valid, and all entries when more are requested than fit, keep their values.

Inputs:
    req_pool_indices, prefix_lens, extend_seq_lens: shape [bs], int64; request 0 is a padding row.
    req_to_token: slots by request row and position, shape [num_reqs, max_len], int32.
    full_to_swa_index_mapping: shape [num_full_slots], int64; shape [0]: none.
    req_to_verify_expected_tokens: shape [num_reqs, max_tokens], int32; shape [0, 0]: none.
    req_to_verify_expected_tokens_valid_lens: shape [bs], int64; shape [0]: none.
Outputs:
    verify_slot_indices, verify_prev_slot_indices: shape [capacity], int64.
    verify_expected_tokens, verify_expected_positions: shape [capacity], uint64.
    verify_num_valid, enable, write_num_valid_reqs: shape [1], int32.
    write_offsets: shape [request capacity + 1], int64. write_seed_slot_indices: shape
        [request capacity], int64.
Scalars:
    swa_window_size: int, 0 = no window. kv_token_id_vs_position_offset: int.

Malformed: an index outside the table, the token pool or the map gives slot OUT_OF_TABLE_SLOT; the
reference and the CPU then raise ValueError, leaving the outputs unspecified; a device does not.
Nothing is read outside an array. The caller guarantees bs <= request capacity.
"""
