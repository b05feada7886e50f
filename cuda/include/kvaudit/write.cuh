// Stamp the slots of a step, each request a chain. `docs/DESIGN.md` 3, Write.
#pragma once

#include <cstdint>

#include "kvaudit/atomic.cuh"
#include "kvaudit/constants.cuh"
#include "kvaudit/hash.cuh"
#include "kvaudit/host_device.cuh"
#include "kvaudit/record.cuh"
#include "kvaudit/violation.cuh"

namespace kvaudit {

// How far a request's chain has come.
struct Chain {
  std::uint64_t running;            // what the next record stores as its prev_hash
  std::uint64_t previous_position;  // of the entry before; unspecified without the assert
  bool asserts_positions;           // a position must be the one before it + 1
};

// One token to stamp.
struct WriteEntry {
  std::int64_t slot;  // negative: skipped, nothing of the chain advances
  std::uint64_t token;
  std::uint64_t position;
  std::uint64_t expected_token;     // token itself where the input is not asserted
  std::uint64_t expected_position;  // position itself where the input is not asserted
  std::uint64_t real_kv_hash;       // 0 where no KV bytes are covered
};

// Start a chain behind the slot that a request continues from. A negative seed is the head of a
// chain; a seed past the pool is reported, in a row of zeros but for slot and bits, and then a
// head.
KVAUDIT_HD Chain begin_chain(const CanaryRecords& records, std::int64_t seed_slot,
                             bool asserts_positions, const Launch& launch) {
  if (seed_slot >= records.num_slots) {
    Violation outside = {};
    outside.slot = seed_slot;
    outside.reason_bits = bits(FailReason::kPrevSlotOutOfRange);
    append_violation(launch, outside);
    seed_slot = kNoSeed;
  }
  const bool has_seed = seed_slot >= 0;
  return {slot_hash(records, seed_slot), has_seed ? load_record(records, seed_slot).position : 0,
          asserts_positions && has_seed};
}

// The row of an entry: what was written, with the running hash as its chain hash.
KVAUDIT_HD Violation written_row(const WriteEntry& entry, const Chain& chain,
                                 std::uint32_t reason_bits) {
  return {entry.slot,    entry.position,          entry.token, entry.expected_token,
          chain.running, entry.expected_position, reason_bits};
}

// The input assert, both bits in one row, then the chain assert in a row of its own.
KVAUDIT_HD void assert_entry(const WriteEntry& entry, const Chain& chain, const Launch& launch) {
  std::uint32_t reason_bits = 0;
  if (entry.token != entry.expected_token) {
    reason_bits |= bits(FailReason::kWriteTokenMismatch);
  }
  if (entry.position != entry.expected_position) {
    reason_bits |= bits(FailReason::kWritePositionMismatch);
  }
  if (reason_bits != 0) {
    append_violation(launch, written_row(entry, chain, reason_bits));
  }
  if (chain.asserts_positions && entry.position != chain.previous_position + 1) {
    Violation gap = written_row(entry, chain, bits(FailReason::kWritePositionMismatch));
    gap.expected_token = entry.token;
    gap.expected_aux = chain.previous_position + 1;
    append_violation(launch, gap);
  }
}

// Stamp one entry and advance its chain; whether a record was stored. A slot past the pool is
// reported and stored nowhere, and the chain goes on. Slot 0 is written like any other.
KVAUDIT_HD bool write_entry(const CanaryRecords& records, const WriteEntry& entry, Chain& chain,
                            const Launch& launch) {
  if (entry.slot < 0) {
    return false;
  }
  const bool is_stored = has_slot(records, entry.slot);
  if (is_stored) {
    assert_entry(entry, chain, launch);
    store_record(records, entry.slot,
                 {entry.token, entry.position, chain.running, entry.real_kv_hash});
  } else {
    Violation outside = written_row(entry, chain, bits(FailReason::kSlotOutOfRange));
    outside.expected_token = entry.token;
    outside.expected_aux = entry.position;
    append_violation(launch, outside);
  }
  chain.previous_position = entry.position;
  chain.running = splitmix64_mix3(chain.running, entry.token, entry.position);
  return is_stored;
}

// What a launch stamps: entries [offsets[r], offsets[r + 1]) are request r, in position order.
struct WritePlan {
  const std::int64_t* offsets;            // [req_capacity + 1], clamped to num_tokens
  const std::int64_t* seed_slot_indices;  // [req_capacity], kNoSeed at a head
  const std::int32_t* num_valid_reqs;     // [1], clamped to [0, req_capacity]
  std::int64_t req_capacity;
  const std::int64_t* out_cache_loc;              // [num_tokens], slots; kSkipWrite: none
  const std::uint64_t* input_ids;                 // [num_tokens]
  const std::uint64_t* positions;                 // [num_tokens]
  const std::uint64_t* expected_input_tokens;     // [num_tokens]; nullptr: no input assert
  const std::uint64_t* expected_input_positions;  // [num_tokens]; nullptr: no input assert
  const std::uint64_t* real_kv_hashes;            // [num_tokens], folded; nullptr: stores 0
  std::int64_t num_tokens;
  const std::int32_t* enable_chain_position_assert;  // [1]
};

KVAUDIT_HD WriteEntry entry_of(const WritePlan& plan, std::int64_t entry_idx) {
  const std::uint64_t token = plan.input_ids[entry_idx];
  const std::uint64_t position = plan.positions[entry_idx];
  const bool asserts_input = plan.expected_input_tokens != nullptr;
  return {plan.out_cache_loc[entry_idx],
          token,
          position,
          asserts_input ? plan.expected_input_tokens[entry_idx] : token,
          asserts_input ? plan.expected_input_positions[entry_idx] : position,
          plan.real_kv_hashes == nullptr ? 0 : plan.real_kv_hashes[entry_idx]};
}

// An offset of the plan, clamped to the token arrays.
KVAUDIT_HD std::int64_t offset_of(const WritePlan& plan, std::int64_t offset_idx) {
  const std::int64_t offset = plan.offsets[offset_idx];
  return offset < 0 ? 0 : offset < plan.num_tokens ? offset : plan.num_tokens;
}

// Stamp one request, a serial chain; how many records were stored. One without entries, as a
// decreasing pair of offsets is, does nothing.
KVAUDIT_HD std::int64_t write_request(const CanaryRecords& records, const WritePlan& plan,
                                      const Launch& launch, std::int64_t req_idx) {
  const std::int64_t first = offset_of(plan, req_idx);
  const std::int64_t last = offset_of(plan, req_idx + 1);
  if (first >= last) {
    return 0;
  }
  Chain chain = begin_chain(records, plan.seed_slot_indices[req_idx],
                            *plan.enable_chain_position_assert != 0, launch);
  std::int64_t num_stored = 0;
  for (std::int64_t entry_idx = first; entry_idx < last; ++entry_idx) {
    num_stored += write_entry(records, entry_of(plan, entry_idx), chain, launch) ? 1 : 0;
  }
  return num_stored;
}

// What thread thread_idx of num_threads does of a write launch: whole requests, which are unordered
// among themselves. A host is thread 0 of 1, and then they run in order.
KVAUDIT_HD void write(const CanaryRecords& records, const WritePlan& plan, const Launch& launch,
                      std::int64_t thread_idx, std::int64_t num_threads) {
  if (thread_idx == 0) {
    fetch_add(launch.kernel_run_counter, std::int64_t{1});
  }
  const std::int64_t num_valid = *plan.num_valid_reqs;
  const std::int64_t num_reqs = num_valid < plan.req_capacity ? num_valid : plan.req_capacity;
  for (std::int64_t req_idx = thread_idx; req_idx < num_reqs; req_idx += num_threads) {
    fetch_add(launch.slot_run_counter, write_request(records, plan, launch, req_idx));
  }
}

}  // namespace kvaudit
