// Counters that the threads of a launch share.
#pragma once

#include <cstdint>

#include "kvaudit/host_device.cuh"

namespace kvaudit {

// *counter += amount in one step, modulo its width; what it held before.
KVAUDIT_HD std::int32_t fetch_add(std::int32_t* counter, std::int32_t amount) {
#ifdef __CUDA_ARCH__
  return atomicAdd(counter, amount);
#else
  return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

KVAUDIT_HD std::int64_t fetch_add(std::int64_t* counter, std::int64_t amount) {
#ifdef __CUDA_ARCH__
  return static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(counter),
                                             static_cast<unsigned long long>(amount)));
#else
  return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

}  // namespace kvaudit
