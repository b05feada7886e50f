// What a launch found, and where it leaves it: the violation ring and the run counters.
#pragma once

#include <cstdint>

#include "kvaudit/atomic.cuh"
#include "kvaudit/constants.cuh"
#include "kvaudit/host_device.cuh"

namespace kvaudit {

KVAUDIT_HD constexpr std::uint32_t bits(FailReason reason) {
  return static_cast<std::uint32_t>(reason);
}

// One run of the kernels for one tag at one step, and what it leaves. Launches of several tags
// share the ring and its index; counters are a tag's own.
struct Launch {
  LaunchTag tag;
  std::uint64_t* violation_ring;        // [ring_capacity, kViolationFields]
  std::int64_t ring_capacity;           // rows; 0: violations are counted and none is kept
  std::int32_t* violation_write_index;  // [1], rows there ever were
  std::int64_t* slot_run_counter;       // [1], entries that launches of this tag looked at
  std::int64_t* kernel_run_counter;     // [1], launches of this tag
};

// One failed entry. What it says of a field depends on who found it: verify.cuh and write.cuh.
struct Violation {
  std::int64_t slot;
  std::uint64_t stored_position;
  std::uint64_t stored_token;
  std::uint64_t expected_token;  // kNoExpectedToken where the token was not checked
  std::uint64_t stored_chain_hash;
  std::uint64_t expected_aux;
  std::uint32_t reason_bits;  // of FailReason; 0: the entry is right, and there is no violation
};

// Take the next row of the ring, and fill it if there is room: the ring keeps its first rows, never
// wraps, and its index counts on.
KVAUDIT_HD void append_violation(const Launch& launch, const Violation& violation) {
  const std::int64_t row_idx = fetch_add(launch.violation_write_index, std::int32_t{1});
  if (row_idx < 0 || row_idx >= launch.ring_capacity) {
    return;
  }
  std::uint64_t* row = launch.violation_ring + row_idx * kViolationFields;
  row[kViolationTag] = static_cast<std::uint64_t>(launch.tag);
  row[kViolationSlot] = static_cast<std::uint64_t>(violation.slot);
  row[kViolationStoredPosition] = violation.stored_position;
  row[kViolationStoredToken] = violation.stored_token;
  row[kViolationExpectedToken] = violation.expected_token;
  row[kViolationStoredChainHash] = violation.stored_chain_hash;
  row[kViolationExpectedAux] = violation.expected_aux;
  row[kViolationReasonBits] = violation.reason_bits;
}

}  // namespace kvaudit
