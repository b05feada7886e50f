// The warp of `fold_warp.cuh` on a host: a thread a lane, and a barrier for whatever lanes do
// together.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#define __CUDACC__
#define __host__
#define __device__

namespace {

struct Index {
  unsigned x, y, z;
};
thread_local Index threadIdx = {0, 0, 0};
constexpr Index blockDim = {16, 4, 1};

constexpr int kLanes = 32;

class Barrier {
 public:
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t round = round_;
    if (++num_waiting_ == kLanes) {
      num_waiting_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round != round_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int num_waiting_ = 0;
  std::uint64_t round_ = 0;
};

Barrier barrier;
std::array<unsigned long long, kLanes> exchanged;

unsigned this_lane() { return (threadIdx.x + blockDim.x * threadIdx.y) % kLanes; }

// Every lane's value, seen by every lane.
std::array<unsigned long long, kLanes> exchange(unsigned long long value) {
  exchanged[this_lane()] = value;
  barrier.wait();
  const std::array<unsigned long long, kLanes> values = exchanged;
  barrier.wait();
  return values;
}

void __syncwarp() { barrier.wait(); }

unsigned long long __shfl_sync(unsigned, unsigned long long value, int lane) {
  return exchange(value)[static_cast<unsigned>(lane)];
}

bool __all_sync(unsigned, bool holds) {
  for (const unsigned long long value : exchange(holds)) {
    if (value == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

#include "kvaudit/fold_warp.cuh"

extern "C" {

// The second warp of a block of 16 x 4 threads folds 32 slots over all sources.
void fold_by_warp(const kvaudit::RealKvSource* sources, std::int64_t num_sources, std::int32_t mode,
                  const std::int64_t* slots, std::uint64_t* real_kv_hashes) {
  kvaudit::FoldTile tile;
  std::vector<std::thread> lanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([=, &tile] {
      threadIdx = {lane % blockDim.x, 2 + lane / blockDim.x, 0};
      real_kv_hashes[lane] = kvaudit::real_kv_hash_of_warp(
          sources, num_sources, static_cast<kvaudit::RealKvHashMode>(mode), slots[lane], tile);
    });
  }
  for (std::thread& lane : lanes) {
    lane.join();
  }
}
}
