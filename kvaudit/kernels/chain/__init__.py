"""Contract of `chain`: which record does each record follow, by their hashes alone?

`launch_chain(canary_records, slot_indices, prev_slot_indices, duplicate_counter)`

All records of slot_indices are indexed by their slot hash, and each one's prev_hash is looked up.
Decides per entry, in this order:

    prev_hash == CHAIN_ANCHOR          a head: NO_PREDECESSOR
    no indexed record has that hash    an orphan: PREDECESSOR_UNREACHABLE
    else                               the slot of the record that has

Records that share a slot hash hold one token at one position after one chain: a content that was
stored twice, or a copy in a foreign place. All are kept. Of several predecessors the one on the
highest slot below the entry's own counts, or where none is below, the one on the lowest slot: a
sequence mostly lies in ascending slots, so twins that begin alike are told apart. A record may
name itself. Prefixes that sequences share have several successors: a chain forks there.

duplicate_counter += entries less the different slot hashes among them.

Inputs:
    canary_records: shape [num_slots, >= 4], uint64; rows may be strided.
    slot_indices: shape [n], int64, strictly ascending, all above 0 and below num_slots. None of
        these records is zero throughout: such a one hashes to 0, which is no link. The caller
        guarantees all of it.
Outputs:
    prev_slot_indices: shape [n], int64; every element is written.
In/out:
    duplicate_counter: shape [1], int64.

Whether a record's position is its predecessor's plus one is for the caller to judge: `verify` does.
Time is linear in n. Memory beside the arrays above: 16 bytes an entry, and in each thread at most 72
bytes an entry of the share that it joins, a sixteenth of all. There is no device implementation: the
one of the CPU serves every backend.
"""
