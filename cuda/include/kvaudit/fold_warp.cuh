// The fold by a warp: the bytes of 32 slots come in coalesced, whatever pages they lie in.
//
// A slot's words are a serial chain, so a lane folds one slot, as the fold by threads does. But
// lanes that each walk through a slot of their own touch 32 lines of memory a load. Here the warp
// loads a tile together, eight lanes to a slot, and each lane then folds its row of the tile:
//
//             pair 0  pair 1 ... pair 7        16-byte loads of the tile after this one are in
//   slot  0   lane 0  lane 1     lane 7        flight while this one is folded: lane l loads pair
//   slot  1   lane 8  lane 9     lane 15       l % 8 of slots l / 8, l / 8 + 4, ... l / 8 + 28
//
// Device code only: on a host this header is empty.
#pragma once

#include <cstdint>

#include "kvaudit/constants.cuh"
#include "kvaudit/fold.cuh"
#include "kvaudit/host_device.cuh"

#ifdef __CUDACC__

namespace kvaudit {

inline constexpr int kWarpLanes = 32;
inline constexpr unsigned kAllLanes = ~0U;
inline constexpr int kPairsPerRow = 8;
inline constexpr int kWordsPerRow = 2 * kPairsPerRow;
inline constexpr int kTileBytes = kPairsPerRow * static_cast<int>(kSourceAlignmentBytes);
inline constexpr int kSlotsPerLoad = kWarpLanes / kPairsPerRow;
inline constexpr int kLoadsPerTile = kWarpLanes / kSlotsPerLoad;

// Shared memory of one warp. The word behind each row puts a column's words into different banks.
struct FoldTile {
  std::uint64_t words[kWarpLanes][kWordsPerRow + 1];
};

// What one lane brings of a tile.
struct TileLoads {
  WordPair pairs[kLoadsPerTile];
};

__device__ inline int lane_idx() {
  const unsigned thread_idx = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return static_cast<int>(thread_idx % kWarpLanes);
}

// The lane's share of a tile; zero past the slots' whole pairs and for lanes without a slot.
//   slots       where the slots of this lane's loads begin, [kLoadsPerTile]; nullptr without one
//   first_byte  of the tile, within each slot
//   pair_bytes  the whole pairs of a slot, in bytes
__device__ inline TileLoads load_tile(const unsigned char* const* slots, std::int64_t first_byte,
                                      std::int64_t pair_bytes) {
  TileLoads loads = {};
  const std::int64_t byte_idx = first_byte + lane_idx() % kPairsPerRow * kSourceAlignmentBytes;
#pragma unroll
  for (int i = 0; i < kLoadsPerTile; ++i) {
    if (slots[i] != nullptr && byte_idx < pair_bytes) {
      loads.pairs[i] = load_pair(slots[i] + byte_idx);
    }
  }
  return loads;
}

__device__ inline void store_tile(FoldTile& tile, const TileLoads& loads) {
  const int first_word = lane_idx() % kPairsPerRow * 2;
#pragma unroll
  for (int i = 0; i < kLoadsPerTile; ++i) {
    std::uint64_t* row = tile.words[lane_idx() / kPairsPerRow + i * kSlotsPerLoad];
    row[first_word] = loads.pairs[i].words[0];
    row[first_word + 1] = loads.pairs[i].words[1];
  }
}

// The source hash of each lane's slot, equal to `source_hash`. All lanes of a warp call it together
// with the same source and mode, each with a slot of its own; a lane without one passes -1.
//   tile  shared memory of this warp alone
__device__ inline std::uint64_t source_hash_of_warp(const RealKvSource& source, RealKvHashMode mode,
                                                    std::int64_t slot, FoldTile& tile) {
  const unsigned char* bytes = slot_bytes(source, slot);
  if (!__all_sync(kAllLanes, is_aligned_for_pairs(bytes))) {
    return source_hash(source, mode, slot);
  }
  const unsigned char* slots[kLoadsPerTile];
#pragma unroll
  for (int i = 0; i < kLoadsPerTile; ++i) {
    const int lane = lane_idx() / kPairsPerRow + i * kSlotsPerLoad;
    slots[i] = reinterpret_cast<const unsigned char*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(bytes), lane));
  }
  const std::int64_t num_bytes = covered_bytes(source, mode);
  const std::int64_t pair_bytes = num_bytes / kSourceAlignmentBytes * kSourceAlignmentBytes;
  TileLoads loads = load_tile(slots, 0, pair_bytes);
  std::uint64_t hash = 0;
  for (std::int64_t byte_idx = 0; byte_idx < pair_bytes; byte_idx += kTileBytes) {
    store_tile(tile, loads);
    __syncwarp();
    loads = load_tile(slots, byte_idx + kTileBytes, pair_bytes);
    const std::uint64_t* row = tile.words[lane_idx()];
    if (byte_idx + kTileBytes <= pair_bytes) {
#pragma unroll
      for (int i = 0; i < kWordsPerRow; ++i) {
        hash = fold_word(hash, row[i]);
      }
    } else {
      for (std::int64_t i = 0; i * kWordBytes < pair_bytes - byte_idx; ++i) {
        hash = fold_word(hash, row[i]);
      }
    }
    __syncwarp();
  }
  return bytes == nullptr ? 0 : fold_bytes(hash, bytes + pair_bytes, num_bytes - pair_bytes);
}

// What the record of each lane's slot holds as its real_kv_hash, equal to `real_kv_hash`; called as
// `source_hash_of_warp`.
//   sources  [num_sources], in fold order
__device__ inline std::uint64_t real_kv_hash_of_warp(const RealKvSource* sources,
                                                     std::int64_t num_sources, RealKvHashMode mode,
                                                     std::int64_t slot, FoldTile& tile) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < num_sources; ++i) {
    hash = combine(hash, source_hash_of_warp(sources[i], mode, slot, tile));
  }
  return hash;
}

}  // namespace kvaudit

#endif
