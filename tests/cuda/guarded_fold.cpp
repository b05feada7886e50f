// Folds slots of every size whose last byte is the last one before an unmapped page.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "host_warp.cpp"

int main() {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages =
      mmap(nullptr, 8 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return 1;
  }
  auto* bytes = static_cast<unsigned char*>(pages);
  unsigned char* guard = bytes + 7 * page_bytes;
  std::memset(bytes, 5, 7 * page_bytes);
  if (mprotect(guard, page_bytes, PROT_NONE) != 0) {
    return 1;
  }
  constexpr std::int64_t kNumSlots = 2;
  std::int64_t slots[kLanes];
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    slots[lane] = lane % kNumSlots;
  }
  int num_sizes = 0;
  for (std::int64_t size = 1; size <= 400; ++size) {
    const kvaudit::RealKvSource source = {guard - kNumSlots * size, kNumSlots, size, 1, size, size};
    std::uint64_t by_warp[kLanes];
    fold_by_warp(&source, 1, static_cast<std::int32_t>(kvaudit::RealKvHashMode::kAll), slots,
                 by_warp);
    const std::uint64_t by_thread =
        kvaudit::real_kv_hash(&source, 1, kvaudit::RealKvHashMode::kAll, kNumSlots - 1);
    num_sizes += by_warp[0] == by_thread && by_warp[kLanes - 1] == by_thread ? 1 : 0;
  }
  std::printf("%d sizes\n", num_sizes);
  return 0;
}
