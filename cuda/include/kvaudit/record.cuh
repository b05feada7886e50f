// A slot's record: the token, its position and its place in the chain, with the hash of its KV.
#pragma once

#include <cstdint>

#include "kvaudit/constants.cuh"
#include "kvaudit/hash.cuh"
#include "kvaudit/host_device.cuh"

namespace kvaudit {

struct Record {
  std::uint64_t token;
  std::uint64_t position;
  std::uint64_t prev_hash;     // slot hash of the predecessor; kChainAnchor at the head of a chain
  std::uint64_t real_kv_hash;  // outside the chain; 0 where no KV bytes are covered
};

// The canary buffer of one pool and half.
struct CanaryRecords {
  std::uint64_t* words;    // [num_slots, row_words], a record first in each row
  std::int64_t num_slots;  // of the pool
  std::int64_t row_words;  // from one record to the next, at least kRecordWords
};

KVAUDIT_HD bool has_slot(const CanaryRecords& records, std::int64_t slot) {
  return slot >= 0 && slot < records.num_slots;
}

// The record of a slot that the pool has.
KVAUDIT_HD Record load_record(const CanaryRecords& records, std::int64_t slot) {
  const std::uint64_t* words = records.words + slot * records.row_words;
  return {words[kRecordToken], words[kRecordPosition], words[kRecordPrevHash],
          words[kRecordRealKvHash]};
}

// Stamp a slot that the pool has; words behind the record keep what they hold.
KVAUDIT_HD void store_record(const CanaryRecords& records, std::int64_t slot,
                             const Record& record) {
  std::uint64_t* words = records.words + slot * records.row_words;
  words[kRecordToken] = record.token;
  words[kRecordPosition] = record.position;
  words[kRecordPrevHash] = record.prev_hash;
  words[kRecordRealKvHash] = record.real_kv_hash;
}

// `slot_hash` of hash.cuh for a predecessor that the pool has, or for the head of a chain.
KVAUDIT_HD std::uint64_t slot_hash(const CanaryRecords& records, std::int64_t slot) {
  return slot_hash(records.words, records.row_words, slot);
}

}  // namespace kvaudit
