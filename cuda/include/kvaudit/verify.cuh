// Does every planned slot hold the record it should? `docs/DESIGN.md` 3, Verify.
#pragma once

#include <cstdint>

#include "kvaudit/atomic.cuh"
#include "kvaudit/constants.cuh"
#include "kvaudit/hash.cuh"
#include "kvaudit/host_device.cuh"
#include "kvaudit/record.cuh"
#include "kvaudit/violation.cuh"

namespace kvaudit {

// A token that is not judged: kNoExpectedToken as records hold it.
inline constexpr std::uint64_t kUncheckedToken = static_cast<std::uint64_t>(kNoExpectedToken);

// What one slot should hold.
struct VerifyEntry {
  std::int64_t slot;           // kPaddingSlot is skipped
  std::int64_t prev_slot;      // negative at a head; kPredecessorUnreachable: no chain check
  std::uint64_t token;         // kUncheckedToken: no token check
  std::uint64_t position;      // in tokens
  std::uint64_t real_kv_hash;  // 0 where no KV bytes are covered, which is checked too
};

// The chain check of a record: its bit if it fails, and the expected chain hash. Where the chain
// cannot be checked the stored hash is the expected one.
KVAUDIT_HD std::uint32_t check_chain(const CanaryRecords& records, std::int64_t prev_slot,
                                     std::uint64_t stored_chain_hash,
                                     std::uint64_t& expected_chain_hash) {
  expected_chain_hash = stored_chain_hash;
  if (prev_slot == kPredecessorUnreachable) {
    return 0;
  }
  if (prev_slot >= records.num_slots) {
    return bits(FailReason::kPrevSlotOutOfRange);
  }
  expected_chain_hash = slot_hash(records, prev_slot);
  return stored_chain_hash == expected_chain_hash ? 0 : bits(FailReason::kVerifyChainHashMismatch);
}

// Judge one entry; reason_bits is 0 for one that is right, or padding. expected_aux is the expected
// chain hash; of a slot outside the pool stored fields and aux are 0.
KVAUDIT_HD Violation check_entry(const CanaryRecords& records, const VerifyEntry& entry) {
  Violation found = {};
  found.slot = entry.slot;
  found.expected_token = entry.token;
  if (entry.slot == kPaddingSlot) {
    return found;
  }
  if (!has_slot(records, entry.slot)) {
    found.reason_bits = bits(FailReason::kSlotOutOfRange);
    return found;
  }
  const Record stored = load_record(records, entry.slot);
  found.stored_position = stored.position;
  found.stored_token = stored.token;
  found.stored_chain_hash = stored.prev_hash;
  found.reason_bits = check_chain(records, entry.prev_slot, stored.prev_hash, found.expected_aux);
  if (entry.token != kUncheckedToken && stored.token != entry.token) {
    found.reason_bits |= bits(FailReason::kVerifyTokenMismatch);
  }
  if (stored.position != entry.position) {
    found.reason_bits |= bits(FailReason::kVerifyPositionMismatch);
  }
  if (stored.real_kv_hash != entry.real_kv_hash) {
    found.reason_bits |= bits(FailReason::kVerifyRealKvHashMismatch);
  }
  return found;
}

// What a launch checks. Entries past num_valid are never read.
struct VerifyPlan {
  const std::int64_t* slot_indices;         // [capacity]
  const std::int64_t* prev_slot_indices;    // [capacity]
  const std::uint64_t* expected_tokens;     // [capacity]
  const std::uint64_t* expected_positions;  // [capacity]
  const std::uint64_t* real_kv_hashes;      // [capacity], folded; nullptr: 0 is expected everywhere
  const std::int32_t* num_valid;            // [1], clamped to [0, capacity]
  const std::int32_t* enable;               // [1], 0: the launch is counted and checks nothing
  std::int64_t capacity;
  bool checks_tokens;
};

KVAUDIT_HD VerifyEntry entry_of(const VerifyPlan& plan, std::int64_t entry_idx) {
  return {plan.slot_indices[entry_idx], plan.prev_slot_indices[entry_idx],
          plan.checks_tokens ? plan.expected_tokens[entry_idx] : kUncheckedToken,
          plan.expected_positions[entry_idx],
          plan.real_kv_hashes == nullptr ? 0 : plan.real_kv_hashes[entry_idx]};
}

// The active entries of a plan.
KVAUDIT_HD std::int64_t num_active(const VerifyPlan& plan) {
  if (*plan.enable == 0 || *plan.num_valid < 0) {
    return 0;
  }
  return *plan.num_valid < plan.capacity ? *plan.num_valid : plan.capacity;
}

// What thread thread_idx of num_threads does of a verify launch; a host is thread 0 of 1, and then
// rows come in entry order.
//   reason_bits  [capacity], written for active entries; nullptr: not wanted
KVAUDIT_HD void verify(const CanaryRecords& records, const VerifyPlan& plan, const Launch& launch,
                       std::uint32_t* reason_bits, std::int64_t thread_idx,
                       std::int64_t num_threads) {
  const std::int64_t num_entries = num_active(plan);
  if (thread_idx == 0) {
    fetch_add(launch.kernel_run_counter, std::int64_t{1});
    fetch_add(launch.slot_run_counter, num_entries);
  }
  for (std::int64_t entry_idx = thread_idx; entry_idx < num_entries; entry_idx += num_threads) {
    const Violation found = check_entry(records, entry_of(plan, entry_idx));
    if (reason_bits != nullptr) {
      reason_bits[entry_idx] = found.reason_bits;
    }
    if (found.reason_bits != 0) {
      append_violation(launch, found);
    }
  }
}

}  // namespace kvaudit
