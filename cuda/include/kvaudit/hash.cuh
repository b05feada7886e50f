// The mixer, the slot hash of a record, and one step of the fold. All arithmetic is uint64 modulo
// 2^64; a record's words are tokens, positions and hashes seen as uint64.
#pragma once

#include <cstdint>

#include "kvaudit/constants.cuh"
#include "kvaudit/host_device.cuh"

namespace kvaudit {

// S(value): the splitmix64 finaliser without its increment, so S(0) = 0. S is a bijection.
KVAUDIT_HD constexpr std::uint64_t splitmix64(std::uint64_t value) {
  value = (value ^ (value >> kSplitmix64Shift1)) * kSplitmix64Multiplier1;
  value = (value ^ (value >> kSplitmix64Shift2)) * kSplitmix64Multiplier2;
  return value ^ (value >> kSplitmix64Shift3);
}

// S(S(S(a) ^ b) ^ c).
KVAUDIT_HD constexpr std::uint64_t splitmix64_mix3(std::uint64_t a, std::uint64_t b,
                                                   std::uint64_t c) {
  return splitmix64(splitmix64(splitmix64(a) ^ b) ^ c);
}

// The hash that the successor of a slot stores as its prev_hash; of any negative slot: the chain
// head's. The caller guarantees slot < num_slots.
//   canary_records  [num_slots, row_words], words token, position, prev_hash, real_kv_hash first
//   row_words       words from one record to the next, at least kRecordWords
KVAUDIT_HD constexpr std::uint64_t slot_hash(const std::uint64_t* canary_records,
                                             std::int64_t row_words, std::int64_t slot) {
  if (slot < 0) {
    return kChainAnchor;
  }
  const std::uint64_t* record = canary_records + slot * row_words;
  return splitmix64_mix3(record[kRecordPrevHash], record[kRecordToken], record[kRecordPosition]);
}

// One step of a fold, from 0: over the 8-byte little-endian words of a slot it gives the source
// hash, over the source hashes in order it gives real_kv_hash.
KVAUDIT_HD constexpr std::uint64_t fold_word(std::uint64_t accumulator, std::uint64_t word) {
  return splitmix64(accumulator ^ word);
}

static_assert(splitmix64(0) == 0, "the mixer has no increment: zero bytes hash to 0");
static_assert(splitmix64(kChainAnchorInput) == kChainAnchor, "the chain starts at the anchor");

}  // namespace kvaudit
