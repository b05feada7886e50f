"""One folder an operation: contract, reference, scalar bodies, numba CPU, numba.cuda.

Arrays only: no object, no torch, no file. The dtypes of every contract:

    int64   slots, seeds, offsets, lengths, request indices: they are compared with signs
    uint64  tokens, positions, records, hashes, ring rows: int64 arrays viewed as uint64
    int32   num_valid, enable, violation_write_index, request tables, as the engine has them
    uint32  reason bits

All arithmetic is uint64 modulo 2^64. A launcher takes read-only inputs, then in/out arrays, then
scalars, the same names in the same order in all three implementations, and returns None.
"""
