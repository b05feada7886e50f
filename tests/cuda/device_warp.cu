// The README's `fold_slots` behind a C call that brings its arrays to the device and back.

#include "fold_slots.cuh"

namespace {

template <typename T>
T* on_device(const T* values, std::int64_t size) {
  T* memory = nullptr;
  cudaMalloc(&memory, static_cast<std::size_t>(size) * sizeof(T));
  cudaMemcpy(memory, values, static_cast<std::size_t>(size) * sizeof(T), cudaMemcpyHostToDevice);
  return memory;
}

}  // namespace

// One source, whose bytes begin first_byte past where `memory` does. Returns a cudaError_t.
extern "C" int fold_on_device(kvaudit::RealKvSource source, const unsigned char* memory,
                              std::int64_t memory_bytes, std::int64_t first_byte,
                              const std::int64_t* slots, std::uint64_t* source_hashes,
                              std::int64_t num_slots) {
  unsigned char* device_memory = on_device(memory, memory_bytes);
  source.bytes = device_memory + first_byte;
  kvaudit::RealKvSource* device_source = on_device(&source, 1);
  std::int64_t* device_slots = on_device(slots, num_slots);
  std::uint64_t* device_hashes = on_device(source_hashes, num_slots);
  std::uint64_t* device_combined = on_device(source_hashes, num_slots);
  const auto num_blocks = static_cast<unsigned>((num_slots + 127) / 128);
  fold_slots<<<num_blocks, 128>>>(device_source, 1, device_slots, device_combined, device_hashes,
                                  num_slots);
  cudaMemcpy(source_hashes, device_hashes,
             static_cast<std::size_t>(num_slots) * sizeof(std::uint64_t), cudaMemcpyDeviceToHost);
  for (void* each : {static_cast<void*>(device_memory), static_cast<void*>(device_source),
                     static_cast<void*>(device_slots), static_cast<void*>(device_hashes),
                     static_cast<void*>(device_combined)}) {
    cudaFree(each);
  }
  return static_cast<int>(cudaGetLastError());
}
