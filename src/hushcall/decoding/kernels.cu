// The three loops that a graphics card runs: spread reports, transform, pick what reaches a threshold.
//
// A cell is an int32 of the Walsh spectrum, and after `transform` of 2^b times a support count. All positions are
// 64-bit: the spectrum of every number of a numbering plan has 2^33 cells.

typedef unsigned long long u64;

// Add weight (-1)^parity(u & y) at u'A for every report and every u in {0,1}^b. One warp a report: the lane is the low five
// bits of u, and a Gray code walks through the others, one XOR a step. A position p and its sign s travel as 2p + s.
extern "C" __global__ void spread(int *cells, const u64 *rows, const unsigned *values, const long long reports,
                                  const int b, const int weight) {
    const int lane = threadIdx.x & 31;
    const unsigned steps = b > 5 ? 1u << (b - 5) : 1u;
    const long long warps = (long long)gridDim.x * (blockDim.x >> 5);
    if (lane >> (b < 5 ? b : 5)) return;
    for (long long j = (long long)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); j < reports; j += warps) {
        const u64 *mine = rows + j * b;
        const unsigned y = values[j];
        u64 word = 0;
        for (int i = 0; i < b && i < 5; ++i)
            if (lane >> i & 1) word ^= mine[i] << 1 | (y >> i & 1);
        for (unsigned step = 1;; ++step) {
            atomicAdd(cells + (word >> 1), word & 1 ? -weight : weight);
            if (step == steps) break;
            const int i = 4 + __ffs(step);
            word ^= mine[i] << 1 | (y >> i & 1);
        }
    }
}

// ROWS levels of the Walsh-Hadamard transform in one pass over memory: a block takes 2^ROWS runs of 2^COLUMNS
// neighbours, a stride apart, and 2^VALUES cells to a thread. Levels go VALUES at a time in registers, exchanged
// through shared memory in between; neighbours in memory are neighbours in a warp throughout, so every access is
// whole. With LANES the five lowest levels are done too, between the lanes of a warp (COLUMNS and the stride are 5).
#ifdef ROWS
#define CELLS (1 << VALUES)
#define THREADS (1 << (ROWS + COLUMNS - VALUES))

// The place in the tile of register r of thread t, where the register's bits stand at bit K.
template <int K> __device__ __forceinline__ int place(const int t, const int r) {
    return (t & ((1 << K) - 1)) | r << K | t >> K << (K + VALUES);
}

template <int LEVELS> __device__ __forceinline__ void butterflies(int (&v)[CELLS]) {
#pragma unroll
    for (int level = 0; level < LEVELS; ++level)
#pragma unroll
        for (int r = 0; r < CELLS; ++r)
            if (!(r >> level & 1)) {
                const int a = v[r], c = v[r | 1 << level];
                v[r] = a + c;
                v[r | 1 << level] = a - c;
            }
}

// The levels that are left, below bit K of the tile: at the end the registers' bits stand at bit COLUMNS.
template <int K, int LEFT> struct Rest {
    static __device__ __forceinline__ void run(int (&v)[CELLS], int *tile) {
        constexpr int LEVELS = LEFT < VALUES ? LEFT : VALUES, NEXT = COLUMNS + LEFT - LEVELS;
#pragma unroll
        for (int r = 0; r < CELLS; ++r) tile[place<K>(threadIdx.x, r)] = v[r];
        __syncthreads();
#pragma unroll
        for (int r = 0; r < CELLS; ++r) v[r] = tile[place<NEXT>(threadIdx.x, r)];
        if (LEFT > LEVELS) __syncthreads();
        butterflies<LEVELS>(v);
        Rest<NEXT, LEFT - LEVELS>::run(v, tile);
    }
};
template <int K> struct Rest<K, 0> {
    static __device__ __forceinline__ void run(int (&)[CELLS], int *) {}
};

extern "C" __global__ void __launch_bounds__(THREADS) transform(int *cells, const int stride) {
    extern __shared__ int tile[];
    const long long block = blockIdx.x, strip = block & ((1LL << (stride - COLUMNS)) - 1);
    const long long high = block >> (stride - COLUMNS);
    int *const mine = cells + (high << (stride + ROWS)) + (strip << COLUMNS) + (threadIdx.x & ((1 << COLUMNS) - 1));
    constexpr int TOP = ROWS + COLUMNS - VALUES;
    int v[CELLS];
#pragma unroll
    for (int r = 0; r < CELLS; ++r) v[r] = mine[(long long)(place<TOP>(threadIdx.x, r) >> COLUMNS) << stride];
    butterflies<VALUES>(v);
#ifdef LANES
#pragma unroll
    for (int level = 1; level < 32; level <<= 1)
#pragma unroll
        for (int r = 0; r < CELLS; ++r) {
            const int other = __shfl_xor_sync(0xffffffffu, v[r], level);
            v[r] = threadIdx.x & level ? other - v[r] : v[r] + other;
        }
#endif
    Rest<TOP, ROWS - VALUES>::run(v, tile);
#pragma unroll
    for (int r = 0; r < CELLS; ++r) mine[(long long)(place<COLUMNS>(threadIdx.x, r) >> COLUMNS) << stride] = v[r];
}
#endif

// Every cell of [start, stop) of every block of 2^bits cells that reaches the block's own threshold. `found` counts
// them all, also those for which there is no room.
extern "C" __global__ void at_least(const int *cells, const int *least, const int bits, const int start, const int stop,
                                    unsigned *found, long long *places, int *sums, const unsigned room) {
    const int limit = least[blockIdx.y];
    const long long first = (long long)blockIdx.y << bits;
    const int step = gridDim.x * blockDim.x;
#pragma unroll 8
    for (int i = start + blockIdx.x * blockDim.x + threadIdx.x; i < stop; i += step) {
        const int sum = cells[first + i];
        if (sum >= limit) {
            const unsigned at = atomicAdd(found, 1u);
            if (at < room) {
                places[at] = first + i;
                sums[at] = sum;
            }
        }
    }
}

// What one pass costs if it does nothing: every cell is read and written once. For benchmarks.
extern "C" __global__ void touch(int4 *cells, const long long quads) {
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 4
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
        int4 four = cells[i];
        four.x = -four.x;
        four.y = -four.y;
        four.z = -four.z;
        four.w = -four.w;
        cells[i] = four;
    }
}
