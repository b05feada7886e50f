"""Contract of `fold`: the hash of each slot's KV bytes, and the combination of several.

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

`launch_combine(source_hashes, real_kv_hashes)`

Decides per entry: real_kv_hashes[i] = S(real_kv_hashes[i] ^ source_hashes[i]). Starting from 0 and
called once a source, in fold order, it yields real_kv_hash.

Inputs:
    source_hashes: shape [n], uint64.
In/out:
    real_kv_hashes: shape [n], uint64.
"""
