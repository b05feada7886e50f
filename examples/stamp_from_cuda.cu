// A toy paged engine that checks and stamps its KV pool with kvaudit's headers, and dumps it raw.
//
//   nvcc -std=c++17 -arch=native -Icuda/include examples/stamp_from_cuda.cu -o stamp_from_cuda
//   ./stamp_from_cuda raw           # or ./stamp_from_cuda raw kv.v.1 77, which flips a bit there
//   python examples/snapshot_from_raw.py raw dumps && kvaudit verify dumps
//
// g++ -std=c++17 -x c++ takes it too: kernels are then loops, and the dump is the same.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host_or_device.cuh"
#include "kvaudit/fold.cuh"
#include "kvaudit/fold_warp.cuh"
#include "kvaudit/verify.cuh"
#include "kvaudit/write.cuh"

namespace {

namespace kv = kvaudit;

using Int64s = std::vector<std::int64_t>;
using Words = std::vector<std::uint64_t>;

constexpr std::int64_t kPageSize = 8;
constexpr std::int64_t kNumPages = 16;
constexpr std::int64_t kNumSlots = kNumPages * kPageSize;
constexpr std::int64_t kNumLayers = 3;
constexpr std::int64_t kNumHalves = 2;                         // K, V
constexpr std::int64_t kNumColumns = kNumLayers * kNumHalves;  // in the order of the pool
constexpr std::int64_t kTokenBytes = 4 * 40 * 2;               // heads x head_dim x bfloat16
constexpr std::int64_t kTokenWords = kTokenBytes / kv::kWordBytes;
// The highest bit of each bfloat16's exponent: without it no word is a NaN or an infinity.
constexpr std::uint64_t kFiniteBits = ~std::uint64_t{0x4000'4000'4000'4000};
constexpr std::int64_t kHalfBytes = kPageSize * kTokenBytes;
constexpr std::int64_t kRingCapacity = 32;
constexpr kv::LaunchTag kTags[kNumHalves] = {kv::LaunchTag::kTailKFull, kv::LaunchTag::kTailVFull};

// Stands for the model's forward: K and V of a token are words that token, position, layer and half
// decide.
struct Forward {
  kv::RealKvSource source;
  unsigned char* bytes;  // source.bytes, to be written
  std::uint64_t column_idx;
  const std::int64_t* slots;       // [num_tokens]
  const std::uint64_t* tokens;     // [num_tokens]
  const std::uint64_t* positions;  // [num_tokens]
  std::int64_t num_tokens;

  KVAUDIT_HD void operator()(std::int64_t thread_idx, std::int64_t num_threads) const {
    for (std::int64_t i = thread_idx; i < num_tokens; i += num_threads) {
      unsigned char* kv_bytes = bytes + (kv::slot_bytes(source, slots[i]) - source.bytes);
      for (std::uint64_t word_idx = 0; word_idx < kTokenWords; ++word_idx) {
        const std::uint64_t word =
            kFiniteBits &
            kv::splitmix64_mix3(tokens[i], positions[i], column_idx * kTokenWords + word_idx);
        std::memcpy(kv_bytes + word_idx * kv::kWordBytes, &word, sizeof word);
      }
    }
  }
};

// Adds a column's hash of each slot to the slot's real_kv_hash; a warp at a time on the device.
struct FoldColumn {
  kv::RealKvSource source;
  const std::int64_t* slots;      // [num_slots]
  std::uint64_t* real_kv_hashes;  // [num_slots]
  std::int64_t num_slots;
  std::uint64_t* stamps;  // [kNumSlots], the column's hash by slot; nullptr: not wanted

  KVAUDIT_HD void operator()(std::int64_t thread_idx, std::int64_t num_threads) const {
#ifdef __CUDA_ARCH__
    __shared__ kv::FoldTile tiles[kBlockThreads / kv::kWarpLanes];
    kv::FoldTile& tile = tiles[threadIdx.x / kv::kWarpLanes];
    for (std::int64_t first = thread_idx - kv::lane_idx(); first < num_slots;
         first += num_threads) {
      const std::int64_t i = first + kv::lane_idx();
      const std::int64_t slot = i < num_slots ? slots[i] : kv::kSkipWrite;
      const std::uint64_t hash =
          kv::source_hash_of_warp(source, kv::RealKvHashMode::kAll, slot, tile);
      if (i < num_slots) {
        keep(i, hash);
      }
    }
#else
    for (std::int64_t i = thread_idx; i < num_slots; i += num_threads) {
      keep(i, kv::source_hash(source, kv::RealKvHashMode::kAll, slots[i]));
    }
#endif
  }

  KVAUDIT_HD void keep(std::int64_t i, std::uint64_t hash) const {
    real_kv_hashes[i] = kv::combine(real_kv_hashes[i], hash);
    if (stamps != nullptr) {
      stamps[slots[i]] = hash;
    }
  }
};

struct Verify {
  kv::CanaryRecords records;
  kv::VerifyPlan plan;
  kv::Launch launch;

  KVAUDIT_HD void operator()(std::int64_t thread_idx, std::int64_t num_threads) const {
    kv::verify(records, plan, launch, nullptr, thread_idx, num_threads);
  }
};

struct Write {
  kv::CanaryRecords records;
  kv::WritePlan plan;
  kv::Launch launch;

  KVAUDIT_HD void operator()(std::int64_t thread_idx, std::int64_t num_threads) const {
    kv::write(records, plan, launch, thread_idx, num_threads);
  }
};

// Of 0 to kNumColumns - 1: kv.k.0, kv.v.0, kv.k.1, ...
std::string column_name(std::int64_t column) {
  return (column % kNumHalves == 0 ? "kv.k." : "kv.v.") + std::to_string(column / kNumHalves);
}

struct Request {
  std::string id;
  Words tokens;  // the last one is sampled and has no KV yet
  Int64s slots;  // of the tokens that have
};

class Engine {
 public:
  Engine() {
    for (std::int64_t layer = 0; layer < kNumLayers; ++layer) {
      pool_.emplace_back(std::vector<unsigned char>(kNumPages * kNumHalves * kHalfBytes));
    }
    for (std::int64_t column = 0; column < kNumColumns; ++column) {
      stamps_.emplace_back(Words(kNumSlots));
    }
    for (std::int64_t half = 0; half < kNumHalves; ++half) {
      records_.emplace_back(Words(kNumSlots * kv::kRecordWords));
      run_counters_.emplace_back(Int64s(2));
    }
    // Page 0 is never given away; the others are, in an order that no allocator would choose.
    for (std::int64_t page = 1; page < kNumPages; ++page) {
      free_pages_.push_back(page * 7 % kNumPages);
    }
  }

  // Compute the KV of all tokens that have none, then sample the next token of each request.
  void step(std::vector<Request>& requests) {
    check_prefixes(requests);
    Int64s offsets = {0}, seeds, slots;
    Words tokens, positions;
    for (Request& request : requests) {
      seeds.push_back(request.slots.empty() ? kv::kNoSeed : request.slots.back());
      while (request.slots.size() < request.tokens.size()) {
        positions.push_back(request.slots.size());
        tokens.push_back(request.tokens[request.slots.size()]);
        request.slots.push_back(next_slot(request));
        slots.push_back(request.slots.back());
      }
      offsets.push_back(static_cast<std::int64_t>(slots.size()));
      request.tokens.push_back(1000 + kv::splitmix64(request.tokens.back()) % 1000);
    }
    const auto num_tokens = static_cast<std::int64_t>(slots.size());
    Array<std::int64_t> device_offsets(offsets), device_seeds(seeds), device_slots(slots);
    Array<std::uint64_t> device_tokens(tokens), device_positions(positions);
    Array<std::int32_t> num_reqs({static_cast<std::int32_t>(seeds.size())}), asserts({1});
    for (std::int64_t column = 0; column < kNumColumns; ++column) {
      share(num_tokens, Forward{source(column), column_bytes(column),
                                static_cast<std::uint64_t>(column), device_slots.data(),
                                device_tokens.data(), device_positions.data(), num_tokens});
    }
    for (std::int64_t half = 0; half < kNumHalves; ++half) {
      Array<std::uint64_t> hashes = folded(half, device_slots.data(), num_tokens, true);
      const kv::WritePlan plan = {device_offsets.data(),
                                  device_seeds.data(),
                                  num_reqs.data(),
                                  static_cast<std::int64_t>(seeds.size()),
                                  device_slots.data(),
                                  device_tokens.data(),
                                  device_positions.data(),
                                  nullptr,
                                  nullptr,
                                  hashes.data(),
                                  num_tokens,
                                  asserts.data()};
      share(plan.req_capacity, Write{records(half), plan, launch(half)});
    }
  }

  // Verify all KV that the requests are about to read, shared prefixes once a reader.
  void check_prefixes(const std::vector<Request>& requests) {
    Int64s slots, prevs;
    Words tokens, positions;
    for (const Request& request : requests) {
      for (std::size_t i = 0; i < request.slots.size(); ++i) {
        slots.push_back(request.slots[i]);
        prevs.push_back(i == 0 ? kv::kNoPredecessor : request.slots[i - 1]);
        tokens.push_back(request.tokens[i]);
        positions.push_back(i);
      }
    }
    const auto capacity = static_cast<std::int64_t>(slots.size());
    Array<std::int64_t> device_slots(slots), device_prevs(prevs);
    Array<std::uint64_t> device_tokens(tokens), device_positions(positions);
    Array<std::int32_t> num_valid({static_cast<std::int32_t>(capacity)}), enable({1});
    for (std::int64_t half = 0; half < kNumHalves; ++half) {
      Array<std::uint64_t> hashes = folded(half, device_slots.data(), capacity, false);
      const kv::VerifyPlan plan = {device_slots.data(),
                                   device_prevs.data(),
                                   device_tokens.data(),
                                   device_positions.data(),
                                   hashes.data(),
                                   num_valid.data(),
                                   enable.data(),
                                   capacity,
                                   true};
      share(capacity, Verify{records(half), plan, launch(half)});
    }
  }

  // What nobody should do: change a bit of one slot behind the engine's back.
  void flip_bit(std::int64_t column, std::int64_t slot) {
    Array<unsigned char>& layer = pool_[column / kNumHalves];
    std::vector<unsigned char> bytes = layer.values();
    bytes[kv::slot_bytes(source(column), slot) - layer.data() + kTokenBytes / 2] ^= 16;
    layer = Array<unsigned char>(bytes);
  }

  std::int64_t num_checked_or_stamped() const { return run_counters_[0].values()[0]; }
  std::int32_t num_violations() const { return write_index_.values()[0]; }

  // Every array as it lies in memory, a file each.
  void dump(const std::filesystem::path& folder) const {
    for (std::int64_t layer = 0; layer < kNumLayers; ++layer) {
      write_file(folder / ("layer-" + std::to_string(layer) + ".raw"), pool_[layer]);
    }
    for (std::int64_t column = 0; column < kNumColumns; ++column) {
      write_file(folder / ("stamped." + column_name(column) + ".raw"), stamps_[column]);
    }
    write_file(folder / "canary.k.raw", records_[0]);
    write_file(folder / "canary.v.raw", records_[1]);
  }

 private:
  template <typename T>
  static void write_file(const std::filesystem::path& path, const Array<T>& array) {
    const std::vector<T> values = array.values();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
    if (!file) {
      throw std::runtime_error(path.string() + " cannot be written");
    }
  }

  // A page holds its slots' K, then their V.
  unsigned char* column_bytes(std::int64_t column) {
    return pool_[column / kNumHalves].data() + column % kNumHalves * kHalfBytes;
  }
  kv::RealKvSource source(std::int64_t column) {
    return {column_bytes(column), kNumPages,  kNumHalves * kHalfBytes, kPageSize,
            kTokenBytes,          kTokenBytes};
  }
  kv::CanaryRecords records(std::int64_t half) {
    return {records_[half].data(), kNumSlots, kv::kRecordWords};
  }
  kv::Launch launch(std::int64_t half) {
    std::int64_t* counters = run_counters_[half].data();
    return {kTags[half], ring_.data(), kRingCapacity, write_index_.data(), counters, counters + 1};
  }

  // real_kv_hash of each slot over the half's layers.
  Array<std::uint64_t> folded(std::int64_t half, const std::int64_t* slots, std::int64_t num_slots,
                              bool is_stamp) {
    Array<std::uint64_t> hashes{Words(num_slots)};
    for (std::int64_t column = half; column < kNumColumns; column += kNumHalves) {
      share(num_slots, FoldColumn{source(column), slots, hashes.data(), num_slots,
                                  is_stamp ? stamps_[column].data() : nullptr});
    }
    return hashes;
  }

  std::int64_t next_slot(const Request& request) {
    if (request.slots.size() % kPageSize != 0) {
      return request.slots.back() + 1;
    }
    if (free_pages_.empty()) {
      throw std::runtime_error("there is no free page");
    }
    const std::int64_t page = free_pages_.back();
    free_pages_.pop_back();
    return page * kPageSize;
  }

  std::vector<Array<unsigned char>> pool_;         // a layer each: [kNumPages, K | V, kHalfBytes]
  std::vector<Array<std::uint64_t>> stamps_;       // a column each: [kNumSlots]
  std::vector<Array<std::uint64_t>> records_;      // a half each: [kNumSlots, kRecordWords]
  std::vector<Array<std::int64_t>> run_counters_;  // a half each: slots, kernels
  Array<std::uint64_t> ring_{Words(kRingCapacity * kv::kViolationFields)};
  Array<std::int32_t> write_index_{std::vector<std::int32_t>(1)};
  Int64s free_pages_;
};

template <typename T>
std::string json_list(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

// What the raw files are, and what the pool should hold.
void write_manifest(const std::filesystem::path& path, const std::vector<Request>& requests) {
  std::ofstream file(path);
  file << "{\n  \"num_pages\": " << kNumPages << ",\n  \"page_size\": " << kPageSize
       << ",\n  \"num_layers\": " << kNumLayers << ",\n  \"token_bytes\": " << kTokenBytes
       << ",\n  \"requests\": [";
  for (const Request& request : requests) {
    file << (&request == &requests.front() ? "\n" : ",\n") << "    {\"request_id\": \""
         << request.id << "\",\n     \"tokens\": " << json_list(request.tokens)
         << ",\n     \"slots\": " << json_list(request.slots) << "}";
  }
  file << "\n  ]\n}\n";
  if (!file) {
    throw std::runtime_error(path.string() + " cannot be written");
  }
}

// Flip a bit of a column, given by its name, at a slot that holds a token.
void damage(Engine& engine, const std::vector<Request>& requests, const std::string& name,
            const std::string& slot_text) {
  for (const Request& request : requests) {
    for (const std::int64_t slot : request.slots) {
      for (std::int64_t column = 0; column < kNumColumns; ++column) {
        if (std::to_string(slot) == slot_text && column_name(column) == name) {
          return engine.flip_bit(column, slot);
        }
      }
    }
  }
  throw std::runtime_error("no column " + name + " holds a token at slot " + slot_text);
}

void run(const std::filesystem::path& folder, const std::vector<std::string>& flip) {
  Engine engine;
  std::vector<Request> requests = {{"system", {}, {}}};
  for (std::uint64_t token = 0; token < 2 * kPageSize; ++token) {
    requests[0].tokens.push_back(100 + token);
  }
  const Words prefix = requests[0].tokens;
  engine.step(requests);
  // The others start behind the two pages of the system prompt, which they share.
  for (const char* id : {"alpha", "beta", "gamma"}) {
    Request request = {id, prefix, requests[0].slots};
    for (std::uint64_t i = 0; i < 3 + 4 * requests.size(); ++i) {
      request.tokens.push_back(200 * requests.size() + i);
    }
    requests.push_back(request);
  }
  for (int i = 0; i < 5; ++i) {
    engine.step(requests);
  }
  if (!flip.empty()) {
    damage(engine, requests, flip[0], flip[1]);
  }
  engine.check_prefixes(requests);
  std::filesystem::create_directories(folder);
  engine.dump(folder);
  write_manifest(folder / "manifest.json", requests);
  std::cout << folder.string() << ": " << requests.size() << " requests, "
            << engine.num_checked_or_stamped()
            << " entries checked or stamped, violations: " << engine.num_violations() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 1 && arguments.size() != 3) {
    std::cerr << "usage: stamp_from_cuda FOLDER [COLUMN SLOT]\n";
    return 2;
  }
  try {
    run(arguments[0], {arguments.begin() + 1, arguments.end()});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
