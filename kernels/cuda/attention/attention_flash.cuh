/* attention_flash.cuh - many queries, tensor cores of sm_80 and later, streamed over the keys (Dao,
 * arXiv:2307.08691). The fallback of prefill: lists of rows, windows, head sizes and alignments that cuDNN or
 * a kernel for one processor refuses. A block has 64 or, where there are enough of them, 128 rows of a
 * problem (attention.cuh), 16 or 32 a warp: then a key that a warp loads from shared memory serves twice as
 * many products, and these loads are what limits it. Tiles of 64 keys, of 32 for heads of more than 128 channels, lie in
 * shared memory, the next one on its way while this one is worked on. 32 keys of 256 channels are the 99 KiB that every
 * card has for a block. */
#ifndef SAC_KERNELS_ATTENTION_FLASH_CUH
#define SAC_KERNELS_ATTENTION_FLASH_CUH

#include "attention.cuh"

namespace sac::attention::flash {

enum { WARPS = 4, WARP_ROWS = 16 };

/* Of a tile, by a head's channels. */
template <int D> constexpr int KEYS = D > 128 ? 32 : 64;

template <int D> constexpr int stage_bytes(void) {
    return 2 * KEYS<D> * pitch<D>();
}

/* A tile of keys and values; those outside of [.., end) are zeros. */
template <typename T, int D>
__device__ __forceinline__ void fetch_chunks(const attention_job &a, const int32_t *rows, const T *k,
                                             const T *v, uint8_t *stage, int j0, int end, int chunks) {
    for (int i = threadIdx.x; i < KEYS<D> * chunks; i += WARPS * 32) {
        int key = i / chunks, c = i % chunks, j = j0 + key;
        bool valid = j < end;
        int64_t at = valid ? (int64_t)(rows ? rows[j] : j) * a.k_row + c * 8 : 0;
        uint8_t *to = stage + key * pitch<D>() + c * 16;
        copy_async(to, k + at, valid);
        copy_async(to + KEYS<D> * pitch<D>(), v + at, valid);
    }
}
template <typename T, int D>
__device__ __forceinline__ void fetch(const attention_job &a, const int32_t *rows, const T *k, const T *v,
                                      uint8_t *stage, int j0, int end) {
    if (a.d == D) /* no division at run time */
        fetch_chunks<T, D>(a, rows, k, v, stage, j0, end, D / 8);
    else
        fetch_chunks<T, D>(a, rows, k, v, stage, j0, end, a.d / 8);
}

/* The block's queries; rows that do not exist are zeros. */
template <typename T, int D, int R>
__device__ __forceinline__ void fetch_queries(const attention_job &a, int problem, int64_t base, int64_t row0,
                                              uint8_t *to) {
    int chunks = a.d / 8;
    for (int i = threadIdx.x; i < R * WARPS * WARP_ROWS * chunks; i += WARPS * 32) {
        int row = i / chunks, c = i % chunks;
        int64_t r = row0 + row, query = r / a.group;
        bool valid = query < a.n_q;
        int64_t at =
            valid ? (base + query) * a.q_stride + (problem * a.group + r % a.group) * a.d + c * 8 : 0;
        copy_async(to + row * pitch<D>() + c * 16, (const T *)a.q + at, valid);
    }
}

/* Sixteen rows of a warp; a lane has rows g and g + 8. */
template <int D> struct flash_state {
    float o[D / 8][4], max[2], sum[2];
    int last[2], before[2]; /* rows in (before, last] are seen */
};

/* Products of R times 16 rows with 64 keys. */
template <typename T, int D, int R>
__device__ __forceinline__ void multiply(const uint8_t *queries, const uint8_t *stage, int lane,
                                         float s[R][KEYS<D> / 8][4]) {
    const uint8_t *q = queries + lane % 16 * pitch<D>() + lane / 16 * 16;
    const uint8_t *k = stage + (lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int n = 0; n < KEYS<D> / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[r][n][i] = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t f[R][4];
#pragma unroll
        for (int r = 0; r < R; r++) load_matrices(f[r], q + r * WARP_ROWS * pitch<D>() + i * 32);
#pragma unroll
        for (int n = 0; n < KEYS<D> / 16; n++) {
            uint32_t b[4];
            load_matrices(b, k + n * 16 * pitch<D>() + i * 32);
#pragma unroll
            for (int r = 0; r < R; r++) {
                mma<T>(s[r][2 * n], f[r][0], f[r][1], f[r][2], f[r][3], b[0], b[1]);
                mma<T>(s[r][2 * n + 1], f[r][0], f[r][1], f[r][2], f[r][3], b[2], b[3]);
            }
        }
    }
}

/* Scores in units of log 2, -infinity where a key is not seen. */
template <int D, typename JOB>
__device__ __forceinline__ void mask(const JOB &a, const int32_t *rows, int j0, int end,
                                     bool masked, int lane, const flash_state<D> &w, float s[KEYS<D> / 8][4]) {
#pragma unroll
    for (int n = 0; n < KEYS<D> / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool seen = true;
            if (masked) {
                int j = j0 + n * 8 + lane % 4 * 2 + i % 2;
                seen = j < end;
                int row = seen && rows ? rows[j] : j;
                seen = seen && row <= w.last[i / 2] && row > w.before[i / 2];
            }
            s[n][i] = seen ? score_of(a, s[n][i]) : -CUDART_INF_F;
        }
}

/* Scores become weights; what was summed so far is brought to the new maximum. */
template <int D> __device__ __forceinline__ void weigh(flash_state<D> &w, float s[KEYS<D> / 8][4]) {
    float top[2] = {w.max[0], w.max[1]}, scale[2], base[2];
#pragma unroll
    for (int n = 0; n < KEYS<D> / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) top[i / 2] = fmaxf(top[i / 2], s[n][i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = quad_max(top[i]);
        base[i] = top[i] == -CUDART_INF_F ? 0 : top[i];
        scale[i] = exp2_fast(w.max[i] - base[i]);
        w.max[i] = top[i];
        w.sum[i] *= scale[i];
    }
#pragma unroll
    for (int n = 0; n < KEYS<D> / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2_fast(s[n][i] - base[i / 2]);
            w.sum[i / 2] += s[n][i];
        }
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        w.o[n][0] *= scale[0], w.o[n][1] *= scale[0];
        w.o[n][2] *= scale[1], w.o[n][3] *= scale[1];
    }
}

template <typename T, int D, int R>
__device__ __forceinline__ void mix(const uint8_t *stage, int lane, flash_state<D> w[R],
                                    float s[R][KEYS<D> / 8][4]) {
    const uint8_t *v = stage + KEYS<D> * pitch<D>() + lane % 16 * pitch<D>() + lane / 16 * 16;
#pragma unroll
    for (int n = 0; n < KEYS<D> / 16; n++) {
        uint32_t p[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p[r][i] = pack<T>(s[r][2 * n + i / 2][i % 2 * 2], s[r][2 * n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            load_matrices_transposed(b, v + n * 16 * pitch<D>() + i * 32);
#pragma unroll
            for (int r = 0; r < R; r++) {
                mma<T>(w[r].o[2 * i], p[r][0], p[r][1], p[r][2], p[r][3], b[0], b[1]);
                mma<T>(w[r].o[2 * i + 1], p[r][0], p[r][1], p[r][2], p[r][3], b[2], b[3]);
            }
        }
    }
}

template <typename T, int D>
__device__ __forceinline__ void put(const attention_job &a, int problem, int64_t base, int64_t row0, int lane,
                                    flash_state<D> &w) {
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        w.sum[i] = quad_sum(w.sum[i]);
        int64_t r = row0 + g + 8 * i, query = r / a.group;
        int head = problem * a.group + (int)(r % a.group);
        if (query >= a.n_q) continue;
        float f = w.sum[i] > 0 ? 1 / w.sum[i] : 0;
        T *o = (T *)a.o + (base + query) * a.o_stride + (int64_t)head * a.d;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            if (n * 8 < a.d)
                *(uint32_t *)(o + n * 8 + 2 * t) = pack<T>(w.o[n][2 * i] * f, w.o[n][2 * i + 1] * f);
        if (a.lse && t == 0)
            a.lse[query * a.n_heads + head] = w.sum[i] > 0 ? logf(w.sum[i]) + w.max[i] * LN_2 : -CUDART_INF_F;
    }
}

template <typename T, int D, int R, typename JOB>
static __global__ void __launch_bounds__(WARPS * 32, 2) attention_flash_kernel(JOB a) {
    extern __shared__ __align__(128) uint8_t shared[];
    const int rows = R * WARPS * WARP_ROWS, query_bytes = rows * pitch<D>();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, problem = blockIdx.y;
    uint8_t *stages = shared + query_bytes, *queries = shared + warp * R * WARP_ROWS * pitch<D>();
    /* the longest rows of a causal problem first, so that no block starts late with much to do */
    int64_t tile = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x, row0 = tile * rows;
    int64_t base = (int64_t)blockIdx.z * a.batch_rows;
    for (int i = threadIdx.x; a.d < D && i < (query_bytes + 2 * stage_bytes<D>()) / 16; i += WARPS * 32)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncthreads();

    attention_keys keys = keys_of(a, problem, row0 / a.group);
    const int32_t *list = keys.rows;
    int first = (int)(a.first + row0 / a.group); /* positions of the block's first and last query */
    int last = (int)(a.first + min((row0 + rows - 1) / a.group, (int64_t)a.n_q - 1));
    int begin = 0, end = (int)keys.end;
    if (!list && a.causal) end = min(end, last + 1);
    if (!list && a.window) begin = max(0, first - (int)a.window + 1);
    if (list && a.causal) { /* it ascends: its end by halves */
        int low = 0, high = end;
        while (low < high) {
            int mid = (low + high) / 2;
            if (list[mid] <= last)
                low = mid + 1;
            else
                high = mid;
        }
        end = low;
    }
    int64_t keys_at =
        (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head + blockIdx.z * a.kv_batch_rows * a.k_row;
    const T *k = (const T *)a.k + keys_at, *v = (const T *)a.v + keys_at;
    int n_tiles = max(0, (end - begin + KEYS<D> - 1) / KEYS<D>);

    flash_state<D> w[R];
#pragma unroll
    for (int r = 0; r < R; r++) begin_rows(a, row0 + (warp * R + r) * WARP_ROWS, lane, w[r]);
    fetch_queries<T, D, R>(a, problem, base, row0, shared);
    if (n_tiles > 0) fetch<T, D>(a, list, k, v, stages, begin, end);
    copy_commit();
    for (int i = 0; i < n_tiles; i++) {
        int j0 = begin + i * KEYS<D>;
        uint8_t *stage = stages + i % 2 * stage_bytes<D>();
        if (i + 1 < n_tiles)
            fetch<T, D>(a, list, k, v, stages + (i + 1) % 2 * stage_bytes<D>(), j0 + KEYS<D>, end);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        bool masked = j0 + KEYS<D> > end || (a.causal && (list ? list[j0 + KEYS<D> - 1] : j0 + KEYS<D> - 1) > first) ||
                      (a.window && (list ? list[j0] : j0) <= last - (int)a.window);
        float s[R][KEYS<D> / 8][4];
        multiply<T, D, R>(queries, stage, lane, s);
#pragma unroll
        for (int r = 0; r < R; r++) {
            mask<D>(a, list, j0, end, masked, lane, w[r], s[r]);
            weigh<D>(w[r], s[r]);
        }
        mix<T, D, R>(stage, lane, w, s);
        __syncthreads(); /* all warps have read the stage before the next copy into it */
    }
    copy_wait<0>();
#pragma unroll
    for (int r = 0; r < R; r++) put<T, D>(a, problem, base, row0 + (warp * R + r) * WARP_ROWS, lane, w[r]);
}

template <int D, int R> static constexpr int flash_bytes(void) {
    return R * WARPS * WARP_ROWS * pitch<D>() + 2 * stage_bytes<D>();
}

template <typename T, int D, int R, typename JOB>
static sac_status launch_rows(const sac_stream *s, const sac_attention_args *a) {
    const JOB j = attention_job_of<JOB>(a);
    const int rows = R * WARPS * WARP_ROWS, bytes = flash_bytes<D, R>();
    if (bytes > block_shared_bytes(s->device)) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)ceil_div(a->n_q * j.group, rows), (unsigned)j.n_problems, (unsigned)a->n_batch);
    return launch(s, {grid, WARPS * 32, (size_t)bytes, bytes}, attention_flash_kernel<T, D, R, JOB>, j);
}

/* Whether no block's rows go beyond the queries that share their lists. */
static bool fits_lists(const sac_attention_args *a, int rows) {
    int64_t group = a->lists && a->lists->n_lists == a->n_heads ? 1 : a->n_heads / a->kv.n_heads;
    return !a->lists || a->list_block * group % rows == 0;
}

template <typename T, int D, typename JOB>
static sac_status run_job(const sac_stream *s, const sac_attention_args *a) {
    const int rows = WARPS * WARP_ROWS;
    int64_t blocks = ceil_div(a->n_q * a->n_heads, 2 * rows) * a->n_batch;
    if (!fits_lists(a, rows)) return SAC_UNSUPPORTED;
    if constexpr (D <= 128) { /* 32 rows of more channels do not fit a warp's registers */
        bool twice = blocks >= FLASH_WIDE_WAVES * s->device->n_processors && fits_lists(a, 2 * rows) &&
                     flash_bytes<D, 2>() <= block_shared_bytes(s->device);
        if (twice) return launch_rows<T, D, 2, JOB>(s, a);
    }
    return launch_rows<T, D, 1, JOB>(s, a);
}
template <int D, typename JOB> static sac_status run(const sac_stream *s, const sac_attention_args *a) {
    return a->kv.dtype == SAC_DTYPE_F16 ? run_job<half, D, JOB>(s, a) : run_job<bf16, D, JOB>(s, a);
}

/* Heads of more than 128 channels, and capped scores. */
sac_status run_wide(const sac_stream *s, const sac_attention_args *a);
sac_status run_wide_capped(const sac_stream *s, const sac_attention_args *a);
sac_status run_capped(const sac_stream *s, const sac_attention_args *a);

} // namespace sac::attention::flash

#endif
