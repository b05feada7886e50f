// How a function is made callable from host and device code alike.
#pragma once

#ifdef __CUDACC__
#define KVAUDIT_HD __host__ __device__ inline
#else
#define KVAUDIT_HD inline
#endif
