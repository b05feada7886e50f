"""Contract of `digest`: xxh3_64 of whole chunks, as files carry it of their own columns.

`launch_digest(content_words, digests, block_sums, chunk_bytes)`

Decides per chunk: digests[i] = xxh3_64, seed 0, of the chunk_bytes bytes that begin at byte
i * chunk_bytes of the content. A file's digests are defined by the public library; where the bytes
are on a device anyway, they are hashed there. The last, shorter chunk of a column is not its matter.

Inputs:
    content_words: the bytes as little-endian words, shape [at least n * chunk_bytes / 8], uint64.
Outputs:
    digests: shape [n], uint64; every element is written.
    block_sums: scratch, shape [at least n * chunk_bytes / 128], uint64; its content is unspecified.
Scalars:
    chunk_bytes: int, a positive multiple of 1024.
"""
