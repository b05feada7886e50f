// The hash of a slot's KV bytes, source by source, and real_kv_hash, which combines them.
#pragma once

#include <cstdint>
#include <cstring>

#include "kvaudit/constants.cuh"
#include "kvaudit/hash.cuh"
#include "kvaudit/host_device.cuh"

namespace kvaudit {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they lie in memory");

// The KV bytes of one layer and half. Slot s lies in row s / page_size, num_bytes_per_token bytes
// behind slot s - 1 of that row.
struct RealKvSource {
  const unsigned char* bytes;        // [num_rows, row_stride_bytes]
  std::int64_t num_rows;             // pages
  std::int64_t row_stride_bytes;     // from one row to the next; the halves may be interleaved
  std::int64_t page_size;            // slots a row
  std::int64_t num_bytes_per_token;  // from one slot to the next
  std::int64_t read_bytes;           // what ALL covers of a slot; any number up to its bytes
};

// How far a byte moves the ones before it in a little-endian word.
inline constexpr int kByteBits = 8;

// Two words as one 16-byte load brings them.
struct WordPair {
  std::uint64_t words[2];
};

static_assert(sizeof(WordPair) == kSourceAlignmentBytes, "a source is aligned for pairs");

KVAUDIT_HD bool is_aligned_for_pairs(const unsigned char* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % sizeof(WordPair) == 0;
}

// The pair at `bytes`, which is aligned for it.
KVAUDIT_HD WordPair load_pair(const unsigned char* bytes) {
  WordPair pair;
  std::memcpy(&pair, __builtin_assume_aligned(bytes, sizeof(WordPair)), sizeof(WordPair));
  return pair;
}

// The whole word at `bytes`, of any alignment.
KVAUDIT_HD std::uint64_t load_word(const unsigned char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The little-endian word of the last bytes of a slot, shape [num_bytes], fewer than kWordBytes:
// zero-padded.
KVAUDIT_HD std::uint64_t load_ragged_word(const unsigned char* bytes, std::int64_t num_bytes) {
  std::uint64_t word = 0;
  for (std::int64_t i = num_bytes - 1; i >= 0; --i) {
    word = word << kByteBits | bytes[i];
  }
  return word;
}

// Goes on folding from `hash` over bytes, shape [num_bytes], of any alignment; the last word is
// zero-padded. Only the last call of a slot may bring bytes that fill no word.
KVAUDIT_HD std::uint64_t fold_bytes(std::uint64_t hash, const unsigned char* bytes,
                                    std::int64_t num_bytes) {
  std::int64_t byte_idx = 0;
  if (is_aligned_for_pairs(bytes)) {
    for (; byte_idx + kSourceAlignmentBytes <= num_bytes; byte_idx += kSourceAlignmentBytes) {
      const WordPair pair = load_pair(bytes + byte_idx);
      hash = fold_word(fold_word(hash, pair.words[0]), pair.words[1]);
    }
  }
  for (; byte_idx + kWordBytes <= num_bytes; byte_idx += kWordBytes) {
    hash = fold_word(hash, load_word(bytes + byte_idx));
  }
  if (byte_idx < num_bytes) {
    hash = fold_word(hash, load_ragged_word(bytes + byte_idx, num_bytes - byte_idx));
  }
  return hash;
}

// How many leading bytes of a slot a mode covers. PARTIAL asks for kPartialReadBytes of every slot,
// whatever read_bytes says: a slot has at least as many.
KVAUDIT_HD std::int64_t covered_bytes(const RealKvSource& source, RealKvHashMode mode) {
  return mode == RealKvHashMode::kAll       ? source.read_bytes
         : mode == RealKvHashMode::kPartial ? kPartialReadBytes
                                            : 0;
}

// Where a slot's bytes begin; nullptr for a slot outside the source.
KVAUDIT_HD const unsigned char* slot_bytes(const RealKvSource& source, std::int64_t slot) {
  if (slot < 0 || slot >= source.num_rows * source.page_size) {
    return nullptr;
  }
  return source.bytes + slot / source.page_size * source.row_stride_bytes +
         slot % source.page_size * source.num_bytes_per_token;
}

// The source hash of a slot, by one thread; 0 in mode NONE, and for a slot outside the source,
// which the checks report and never compare.
KVAUDIT_HD std::uint64_t source_hash(const RealKvSource& source, RealKvHashMode mode,
                                     std::int64_t slot) {
  const unsigned char* bytes = slot_bytes(source, slot);
  return bytes == nullptr ? 0 : fold_bytes(0, bytes, covered_bytes(source, mode));
}

// One step of real_kv_hash, from 0, once a source in fold order.
KVAUDIT_HD std::uint64_t combine(std::uint64_t real_kv_hash, std::uint64_t source_hash) {
  return fold_word(real_kv_hash, source_hash);
}

// What the record of a slot holds as its real_kv_hash, by one thread; 0 in mode NONE, without a
// source, and for a slot outside the pool.
//   sources  [num_sources], in fold order
KVAUDIT_HD std::uint64_t real_kv_hash(const RealKvSource* sources, std::int64_t num_sources,
                                      RealKvHashMode mode, std::int64_t slot) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < num_sources; ++i) {
    hash = combine(hash, source_hash(sources[i], mode, slot));
  }
  return hash;
}

}  // namespace kvaudit
