// The headers behind C calls, for ctypes: `tests/helpers/cpp_headers.py`.

#include <atomic>
#include <thread>
#include <vector>

#include "kvaudit/fold.cuh"
#include "kvaudit/verify.cuh"
#include "kvaudit/write.cuh"

namespace kv = kvaudit;

namespace {

// work(thread_idx, num_threads) on threads that all begin at once.
template <typename Work>
void share(std::int64_t num_threads, const Work& work) {
  std::atomic<std::int64_t> num_ready = 0;
  std::vector<std::thread> threads;
  for (std::int64_t thread_idx = 0; thread_idx < num_threads; ++thread_idx) {
    threads.emplace_back([&, thread_idx] {
      ++num_ready;
      while (num_ready < num_threads) {
        std::this_thread::yield();
      }
      work(thread_idx, num_threads);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

extern "C" {

void launch_hash(const kv::CanaryRecords* records, const std::int64_t* slot_indices,
                 std::uint64_t* slot_hashes, std::int64_t num_entries) {
  for (std::int64_t i = 0; i < num_entries; ++i) {
    slot_hashes[i] = kv::slot_hash(*records, slot_indices[i]);
  }
}

void launch_fold(const kv::RealKvSource* source, const std::int64_t* slot_indices,
                 std::uint64_t* source_hashes, std::int64_t num_entries) {
  for (std::int64_t i = 0; i < num_entries; ++i) {
    source_hashes[i] = kv::source_hash(*source, kv::RealKvHashMode::kAll, slot_indices[i]);
  }
}

void launch_combine(const std::uint64_t* source_hashes, std::uint64_t* real_kv_hashes,
                    std::int64_t num_entries) {
  for (std::int64_t i = 0; i < num_entries; ++i) {
    real_kv_hashes[i] = kv::combine(real_kv_hashes[i], source_hashes[i]);
  }
}

std::uint64_t real_kv_hash(const kv::RealKvSource* sources, std::int64_t num_sources,
                           std::int32_t mode, std::int64_t slot) {
  return kv::real_kv_hash(sources, num_sources, static_cast<kv::RealKvHashMode>(mode), slot);
}

void append_violation(const kv::Launch* launch, const kv::Violation* violation) {
  kv::append_violation(*launch, *violation);
}

void launch_verify(const kv::CanaryRecords* records, const kv::VerifyPlan* plan,
                   const kv::Launch* launch, std::uint32_t* reason_bits, std::int64_t num_threads) {
  share(num_threads, [=](std::int64_t thread_idx, std::int64_t of_threads) {
    kv::verify(*records, *plan, *launch, reason_bits, thread_idx, of_threads);
  });
}

void launch_write(const kv::CanaryRecords* records, const kv::WritePlan* plan,
                  const kv::Launch* launch, std::int64_t num_threads) {
  share(num_threads, [=](std::int64_t thread_idx, std::int64_t of_threads) {
    kv::write(*records, *plan, *launch, thread_idx, of_threads);
  });
}
}
