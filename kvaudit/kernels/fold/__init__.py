"""Contract of `fold`: the hash of each slot's KV bytes, and the combination of several sources.

`launch_fold(source_bytes, slot_indices, source_hashes, page_size, num_bytes_per_token, read_bytes)`

Decides per entry, for slot s: acc = 0; per 8-byte little-endian word of the first read_bytes bytes
of the slot, acc = S(acc ^ word). The last word is zero-padded when read_bytes is no multiple of 8.
The slot's bytes start in row s // page_size at column (s % page_size) * num_bytes_per_token.

Inputs:
    source_bytes: shape [num_rows, row_bytes], uint8; stride(1) = 1, any stride(0), any alignment.
    slot_indices: shape [n], int64. A slot outside [0, num_rows * page_size) hashes to 0: its entry
        is reported by `verify` or `write`, which never look at its hash.
Outputs:
    source_hashes: shape [n], uint64; every element is written.
Scalars:
    page_size, num_bytes_per_token, read_bytes: ints; 0 <= read_bytes <= num_bytes_per_token and
        page_size * num_bytes_per_token <= row_bytes. The caller guarantees them.

`launch_fold_pieces(source_bytes, slot_indices, source_hashes, num_pieces, piece_stride, piece_bytes)`

The same where a slot's bytes lie in pieces, as with heads outside of slots: those of slot s are, one
after another, the columns [p * piece_stride, p * piece_stride + piece_bytes) of row s, for p = 0, 1,
.., num_pieces - 1.

Inputs:
    source_bytes: shape [num_rows, row_bytes], uint8; stride(1) = 1, stride(0) not negative: rows may
        overlap. Its address and stride(0) are multiples of 8. The caller guarantees them.
    slot_indices: shape [n], int64. A slot outside [0, num_rows) hashes to 0.
Outputs:
    source_hashes: shape [n], uint64; every element is written.
Scalars:
    num_pieces, piece_stride, piece_bytes: ints, not negative; piece_stride and piece_bytes are
        multiples of 8, and the last piece ends in the row. The caller guarantees them.

`launch_combine(source_hashes, real_kv_hashes)`

Decides per entry: real_kv_hashes[i] = S(real_kv_hashes[i] ^ source_hashes[i]). Starting from 0 and
called once a source, in fold order, it yields real_kv_hash.

Inputs:
    source_hashes: shape [n], uint64.
In/out:
    real_kv_hashes: shape [n], uint64.

`launch_fold_source(source_bytes, slot_indices, num_valid, enable, real_kv_hashes, page_size,
num_bytes_per_token, read_bytes, is_first_source)`

Both at once, for the entries of a launch that are in use. active = clamp(num_valid, 0, n); enable
== 0: active = 0. Decides per active entry: real_kv_hashes[i] = S(real_kv_hashes[i] ^ source hash),
the source hash being that of `launch_fold`, and real_kv_hashes[i] 0 if this is the first source.

Inputs:
    source_bytes, slot_indices: as above.
    num_valid, enable: shape [1], int32. num_valid of shape [0] is n; enable of shape [0] is 1.
In/out:
    real_kv_hashes: shape [n], uint64; written for active entries, all others untouched.
Scalars:
    page_size, num_bytes_per_token, read_bytes: as above. is_first_source: bool.

`launch_count_written(write_offsets, write_num_valid_reqs, num_valid, num_tokens)`

How many leading entries `write` looks at: num_valid[0] = the largest write_offsets[r + 1] of the
requests r < clamp(num_valid_reqs, 0, request capacity), clamped to [0, num_tokens]; 0 without a
request.

Inputs:
    write_offsets: shape [request capacity + 1], int64. write_num_valid_reqs: shape [1], int32.
Outputs:
    num_valid: shape [1], int32.
Scalars:
    num_tokens: int, below 2^31; the caller guarantees it.
"""
