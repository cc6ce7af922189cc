// The card's kernels on the CPU: one thread a CUDA thread, blocks one after the other. For small sizes, in tests.

#include <barrier>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

struct Three { unsigned x, y; };
struct int4 { int x, y, z, w; };
static thread_local Three threadIdx, blockIdx;
static Three gridDim, blockDim;
static std::unique_ptr<std::barrier<>> whole;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static int passed[1024];
int tile[1 << 15];

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
#define __launch_bounds__(n)
static void __syncthreads() { whole->arrive_and_wait(); }
static int __ffs(unsigned v) { return __builtin_ffs(v); }
template <typename T> static T atomicAdd(T *at, T by) { return __atomic_fetch_add(at, by, __ATOMIC_RELAXED); }
static int __shfl_xor_sync(unsigned, int mine, int level) {
    auto &warp = *warps[threadIdx.x / 32];
    passed[threadIdx.x] = mine;
    warp.arrive_and_wait();
    const int other = passed[threadIdx.x ^ level];
    warp.arrive_and_wait();
    return other;
}

#include "kernels.cu"

template <typename F> static void launch(unsigned x, unsigned y, unsigned threads, F work) {
    gridDim = {x, y}, blockDim = {threads, 1};
    whole = std::make_unique<std::barrier<>>(threads);
    warps.clear();
    for (unsigned w = 0; w < threads / 32; ++w) warps.push_back(std::make_unique<std::barrier<>>(32));
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
        all.emplace_back([=] {
            threadIdx = {t, 0};
            for (unsigned b = 0; b < x * y; ++b) {
                blockIdx = {b % x, b / x};
                whole->arrive_and_wait();
                work();
                whole->arrive_and_wait();
            }
        });
    for (auto &one : all) one.join();
}

extern "C" void run_spread(unsigned grid, int *c, const u64 *r, const unsigned *v, long long n, int b,
                           int weight) {
    launch(grid, 1, 64, [=] { spread(c, r, v, n, b, weight); });
}
extern "C" void run_at_least(unsigned x, unsigned y, const int *c, const int *least, int bits, int start, int stop,
                             unsigned *found, long long *places, int *sums, unsigned room) {
    launch(x, y, 64, [=] { at_least(c, least, bits, start, stop, found, places, sums, room); });
}
#ifdef ROWS
extern "C" void run_transform(unsigned grid, int *c, int stride) { launch(grid, 1, THREADS, [=] { transform(c, stride); }); }
#endif
