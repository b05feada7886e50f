// Memory of the device and a loop over its threads; under a host's compiler, of the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef __CUDACC__

inline constexpr int kBlockThreads = 128;

inline void check(cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(error));
  }
}

// An array of the device.
template <typename T>
class Array {
 public:
  explicit Array(const std::vector<T>& values) : size_(values.size()) {
    T* memory = nullptr;
    check(cudaMalloc(&memory, std::max<std::size_t>(size_, 1) * sizeof(T)));
    memory_.reset(memory);
    check(cudaMemcpy(data(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  T* data() const { return memory_.get(); }
  std::vector<T> values() const {
    std::vector<T> copy(size_);
    check(cudaMemcpy(copy.data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  struct Free {
    void operator()(T* memory) const { cudaFree(memory); }
  };
  std::size_t size_;
  std::unique_ptr<T, Free> memory_;
};

template <typename Work>
__global__ void share_kernel(Work work) {
  work(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

// work(thread_idx, num_threads) in threads enough for num_items, whole warps of them.
template <typename Work>
void share(std::int64_t num_items, const Work& work) {
  const auto num_blocks = static_cast<unsigned>(num_items / kBlockThreads + 1);
  share_kernel<<<num_blocks, kBlockThreads>>>(work);
  check(cudaGetLastError());
}

#else

template <typename T>
class Array {
 public:
  explicit Array(std::vector<T> values) : values_(std::move(values)) {}
  T* data() { return values_.data(); }
  std::vector<T> values() const { return values_; }

 private:
  std::vector<T> values_;
};

template <typename Work>
void share(std::int64_t, const Work& work) {
  work(0, 1);
}

#endif
