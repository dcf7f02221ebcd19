/* even_rows.cu - tiles of turned rows: their factors, their ranges and codes, and their numbers back. A block has the keys
 * or the values of one head of one tile in shared memory as floats. Everything but logarithms and their powers is rounded
 * as the reference does. */
#include "context.cuh"
#include "even.cuh"
#include "pack_ranges.cuh"

namespace sac::packed {

enum { THREADS = 256, ROUNDS = 16 };
#define LEAST_LOG (-8.0f)
#define MOST_LOG  10.0f

typedef struct even_job {
    even_run run;
    pack_source view;
    float by; /* 1 / sqrt(d) */
} even_job;

/* Rows are d + 1 apart, so that neither direction's neighbours share a bank. */
static int shared_bytes(int d) {
    return EVEN_ROWS * (d + 1) * (int)sizeof(float);
}

/* What a block has. */
typedef struct even_task {
    int64_t tile, row; /* row: of the view */
    int head, d, pitch;
    bool values;
} even_task;

__device__ __forceinline__ even_task task_of(const even_job &a) {
    int64_t of_head = blockIdx.x / 2, tile = of_head / a.run.n_heads;
    return even_task{tile, tile * EVEN_ROWS, (int)(of_head % a.run.n_heads), a.run.d, a.run.d + 1, blockIdx.x % 2 != 0};
}

template <typename T> __device__ __forceinline__ void load_turned(const even_job &a, const even_task &t, float *x) {
    const T *from = (const T *)(t.values ? a.view.v : a.view.k);
    for (int i = threadIdx.x; i < EVEN_ROWS * t.d; i += THREADS)
        x[i / t.d * t.pitch + i % t.d] = to_f32(from[source_at(a.view, t.head, t.row + i / t.d) + i % t.d]);
    __syncthreads();
    for (int row = threadIdx.x / 32; row < EVEN_ROWS; row += THREADS / 32) turn_row(x + row * t.pitch, t.d, a.by);
    __syncthreads();
}

/* ---------------------------------------------------------------- factors */

/* One direction of the matrix; a thread has line `threadIdx.x` of it. */
typedef struct even_side {
    int n, n_across, along, across; /* elements from a line to the next, and from number to number of a line */
    float log, deviation;
    float *inverse; /* [n], in shared memory */
} even_side;

__device__ __forceinline__ void measure(even_side &s, const float *x, const even_side &other) {
    float sum = 0, squares = 0;
    if (threadIdx.x >= s.n) return;
    x += threadIdx.x * s.along;
#pragma unroll 8
    for (int r = 0; r < s.n_across; r++) {
        float y = __fmul_rn(x[r * s.across], other.inverse[r]);
        sum = __fadd_rn(sum, y);
        squares = __fadd_rn(squares, __fmul_rn(y, y));
    }
    float n = (float)s.n_across;
    float variance = __fdiv_rn(__fsub_rn(squares, __fdiv_rn(__fmul_rn(sum, sum), n)), n - 1);
    s.deviation = fminf(1e3f, fmaxf(1e-3f, __fmul_rn(__fsqrt_rn(fmaxf(variance, 0)), s.inverse[threadIdx.x])));
}

/* The others read the inverses after the next barrier. */
__device__ __forceinline__ void divide(even_side &s) {
    if (threadIdx.x >= s.n) return;
    float old = s.log;
    s.log = fminf(MOST_LOG, fmaxf(LEAST_LOG, old + logf(s.deviation)));
    s.inverse[threadIdx.x] = expf(-s.log);
    s.deviation *= expf(old - s.log);
}

__device__ __forceinline__ float spread(const even_side &s, float *part) {
    bool has = threadIdx.x < s.n;
    float most = block_max(has ? s.deviation : 0, part);
    float least = -block_max(has ? -s.deviation : -CUDART_INF_F, part);
    return __fdiv_rn(most, least);
}

template <typename T> static __global__ void __launch_bounds__(THREADS) even_factors_kernel(even_job a) {
    extern __shared__ float x[];
    __shared__ float inverse[2][SAC_EVEN_MAX], part[32];
    const even_task t = task_of(a);
    load_turned<T>(a, t, x);
    inverse[0][threadIdx.x] = inverse[1][threadIdx.x] = 1;
    even_side columns = {t.d, EVEN_ROWS, 1, t.pitch, 0, 0, NULL}, rows = {EVEN_ROWS, t.d, t.pitch, 1, 0, 0, NULL};
    even_side first = t.values ? columns : rows, second = t.values ? rows : columns; /* first: whose factors are wanted */
    first.inverse = inverse[0], second.inverse = inverse[1];
    __syncthreads();
    measure(first, x, second);
    measure(second, x, first);
    float best = CUDART_INF_F, factor = 1;
    for (int round = 0; round <= ROUNDS; round++) {
        float now = __fadd_rn(spread(first, part), spread(second, part));
        if (now <= best) best = now, factor = expf(first.log);
        if (round == ROUNDS) break;
        divide(first);
        __syncthreads();
        measure(second, x, first);
        divide(second);
        __syncthreads();
        measure(first, x, second);
    }
    if (threadIdx.x < first.n)
        even_halves(a.run, t.tile, t.values ? a.run.v_channel : a.run.factor, t.head, first.n)[threadIdx.x] = bits_of(factor);
}

/* ---------------------------------------------------------------- codes */

__device__ __forceinline__ void pack_head_keys(const even_job &a, const even_task &t, const float *x, float *scale,
                                               float *least) {
    const even_run &r = a.run;
    const uint16_t *factor = even_halves(r, t.tile, r.factor, t.head, EVEN_ROWS);
    for (int c = threadIdx.x; c < t.d; c += THREADS) {
        float min = CUDART_INF_F, max = -CUDART_INF_F;
        for (int i = 0; i < EVEN_ROWS; i++) {
            float y = __fdiv_rn(x[i * t.pitch + c], number_of(factor[i]));
            min = fminf(min, y), max = fmaxf(max, y);
        }
        sac_packed_range range = range_of(min, max, r.k_bits);
        even_halves(r, t.tile, r.k_scale, t.head, t.d)[c] = range.scale;
        even_halves(r, t.tile, r.k_min, t.head, t.d)[c] = range.min;
        scale[c] = number_of(range.scale), least[c] = number_of(range.min);
    }
    __syncthreads();
    int per_word = 32 / r.k_bits, words = (t.d + per_word - 1) / per_word;
    for (int i = threadIdx.x; i < EVEN_ROWS * words; i += THREADS) {
        int row = i % EVEN_ROWS, w = i / EVEN_ROWS;
        float by = number_of(factor[row]);
        uint32_t word = 0;
        for (int j = 0; j < per_word && w * per_word + j < t.d; j++) {
            int c = w * per_word + j;
            word |= code_of(__fdiv_rn(x[row * t.pitch + c], by), scale[c], least[c], r.k_bits) << shift_of(j, r.k_bits);
        }
        *even_key_word(r, t.tile, t.head, row, w) = word;
    }
}

__device__ __forceinline__ void pack_head_values(const even_job &a, const even_task &t, const float *x, float *scale,
                                                 float *least) {
    const even_run &r = a.run;
    const uint16_t *channel = even_halves(r, t.tile, r.v_channel, t.head, t.d);
    for (int i = threadIdx.x; i < EVEN_ROWS; i += THREADS) {
        float min = CUDART_INF_F, max = -CUDART_INF_F;
        for (int c = 0; c < t.d; c++) {
            float y = __fdiv_rn(x[i * t.pitch + c], number_of(channel[c]));
            min = fminf(min, y), max = fmaxf(max, y);
        }
        sac_packed_range range = range_of(min, max, r.v_bits);
        even_halves(r, t.tile, r.v_scale, t.head, EVEN_ROWS)[i] = range.scale;
        even_halves(r, t.tile, r.v_min, t.head, EVEN_ROWS)[i] = range.min;
        scale[i] = number_of(range.scale), least[i] = number_of(range.min);
    }
    __syncthreads();
    int per_word = 32 / r.v_bits;
    for (int i = threadIdx.x; i < EVEN_ROWS / per_word * t.d; i += THREADS) {
        int c = i % t.d, w = i / t.d;
        float by = number_of(channel[c]);
        uint32_t word = 0;
        for (int j = 0; j < per_word; j++) {
            int row = w * per_word + j;
            word |= code_of(__fdiv_rn(x[row * t.pitch + c], by), scale[row], least[row], r.v_bits) << shift_of(j, r.v_bits);
        }
        *even_value_word(r, t.tile, t.head, w, c) = word;
    }
}

template <typename T> static __global__ void __launch_bounds__(THREADS) pack_even_kernel(even_job a) {
    extern __shared__ float x[];
    __shared__ float scale[SAC_EVEN_MAX], least[SAC_EVEN_MAX];
    const even_task t = task_of(a);
    load_turned<T>(a, t, x);
    if (t.values)
        pack_head_values(a, t, x, scale, least);
    else
        pack_head_keys(a, t, x, scale, least);
}

/* ---------------------------------------------------------------- and back */

template <typename T> static __global__ void __launch_bounds__(THREADS) unpack_even_kernel(even_job a) {
    extern __shared__ float x[];
    const even_task t = task_of(a);
    const even_run &r = a.run;
    T *to = (T *)(t.values ? a.view.v : a.view.k);
    for (int row = threadIdx.x / 32; row < EVEN_ROWS; row += THREADS / 32) {
        float *y = x + row * t.pitch;
        float factor = t.values ? 1 : number_of(even_halves(r, t.tile, r.factor, t.head, EVEN_ROWS)[row]);
        const uint16_t *channel = even_halves(r, t.tile, r.v_channel, t.head, t.d);
        for (int c = threadIdx.x % 32; c < t.d; c += 32)
            y[c] = t.values ? __fmul_rn(even_value(r, t.tile, t.head, row, c), number_of(channel[c]))
                            : __fmul_rn(even_key(r, t.tile, t.head, row, c), factor);
        turn_row(y, t.d, a.by);
        int64_t at = source_at(a.view, t.head, t.row + row);
        for (int c = threadIdx.x % 32; c < t.d; c += 32) to[at + c] = from_f32<T>(y[c]);
    }
}

/* ---------------------------------------------------------------- the host's side */

static even_job job_of(const sac_even_tiles &tiles, const sac_kv_view &kv, int64_t first) {
    const sac_pack_rows rows = {NULL, tiles.n * EVEN_ROWS, first, 1};
    return even_job{run_of(tiles), source_of(&kv, &rows), 1 / sqrtf((float)tiles.head_dim)};
}

/* Beside what kernels declare themselves. */
static int most_shared(const sac_stream *s) {
    return (int)min_of(shared_bytes(SAC_EVEN_MAX), block_shared_bytes(s->device) - 4096);
}

static launch_plan plan_of(const sac_stream *s, const even_job &j) {
    return launch_plan{(unsigned)(j.run.n * j.run.n_heads * 2), THREADS, (size_t)shared_bytes(j.run.d), most_shared(s)};
}

static bool is_known(const sac_stream *s, const sac_even_tiles &t, const sac_kv_view &kv) {
    return is_float(kv.dtype) && t.n * t.n_heads * 2 <= INT32_MAX && shared_bytes(t.head_dim) <= most_shared(s);
}

extern "C" sac_status sac_cuda_even_factors(const sac_stream *s, const sac_even_factors_args *a) {
    ops_of(s)->packs = true;
    if (!is_known(s, a->tiles, a->kv)) return SAC_UNSUPPORTED;
    if (a->tiles.n == 0) return SAC_OK;
    const even_job j = job_of(a->tiles, a->kv, a->first);
    BY_DTYPE(a->kv.dtype, return launch(s, plan_of(s, j), even_factors_kernel<T>, j));
    return SAC_OK;
}

extern "C" sac_status sac_cuda_pack_even(const sac_stream *s, const sac_pack_even_args *a) {
    ops_of(s)->packs = true;
    if (!is_known(s, a->tiles, a->kv)) return SAC_UNSUPPORTED;
    if (a->tiles.n == 0) return SAC_OK;
    const even_job j = job_of(a->tiles, a->kv, a->first);
    BY_DTYPE(a->kv.dtype, return launch(s, plan_of(s, j), pack_even_kernel<T>, j));
    return SAC_OK;
}

extern "C" sac_status sac_cuda_unpack_even(const sac_stream *s, const sac_unpack_even_args *a) {
    if (!is_known(s, a->tiles, a->kv)) return SAC_UNSUPPORTED;
    if (a->tiles.n == 0) return SAC_OK;
    const even_job j = job_of(a->tiles, a->kv, a->first);
    BY_DTYPE(a->kv.dtype, return launch(s, plan_of(s, j), unpack_even_kernel<T>, j));
    return SAC_OK;
}

} // namespace sac::packed
