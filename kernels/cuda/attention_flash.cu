/* attention_flash.cu - many queries, tensor cores of sm_80 and later, streamed over the keys (Dao,
 * arXiv:2307.08691). The fallback of prefill: lists of rows, windows, head sizes and alignments that cuDNN or a
 * kernel for one processor refuses. A block has 64 rows of a problem (attention.cuh), 16 a warp; tiles of 64
 * keys lie in shared memory, the next one on its way while this one is worked on. */
#include "attention.cuh"

enum { KEYS = 64, ROWS = 64, WARPS = 4 };

template <int D> constexpr int pitch(void) { /* bytes, odd in chunks of 16: see attention_decode.cu */
    return (D / 8 | 1) * 16;
}
template <int D> constexpr int stage_bytes(void) {
    return 2 * KEYS * pitch<D>();
}

/* A tile of keys and values; those outside of [.., end) are zeros. */
template <typename T, int D>
__device__ __forceinline__ void fetch(const attention_job &a, const attention_keys &keys, int64_t base, const T *k,
                                      const T *v, uint8_t *stage, int64_t j0, int64_t end) {
    int chunks = a.d / 8;
    for (int i = threadIdx.x; i < KEYS * chunks; i += WARPS * 32) {
        int key = i / chunks, c = i % chunks;
        bool valid = j0 + key < end;
        int64_t at = valid ? (base + key_row(keys, j0 + key)) * a.k_row + c * 8 : 0;
        uint8_t *to = stage + key * pitch<D>() + c * 16;
        copy_async(to, k + at, valid);
        copy_async(to + KEYS * pitch<D>(), v + at, valid);
    }
}

template <int D> struct flash_state {
    uint32_t q[D / 16][4];
    float o[D / 8][4], max[2], sum[2];
    int last[2], before[2]; /* rows in (before, last] are seen */
};

template <typename T, int D>
__device__ __forceinline__ void take_queries(const attention_job &a, int problem, int64_t base, int64_t row0,
                                             int lane, flash_state<D> &w) {
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int64_t r = row0 + g + 8 * i, query = r / a.group;
        int head = problem * a.group + (int)(r % a.group);
        bool valid = query < a.n_q;
        const T *q = (const T *)a.q + (base + query) * a.q_stride + (int64_t)head * a.d;
#pragma unroll
        for (int s = 0; s < D / 16; s++) {
            int c = s * 16 + 2 * t;
            w.q[s][i] = valid && c < a.d ? *(const uint32_t *)(q + c) : 0;
            w.q[s][i + 2] = valid && c + 8 < a.d ? *(const uint32_t *)(q + c + 8) : 0;
        }
        int position = (int)(a.first + query);
        w.last[i] = a.causal ? position : INT32_MAX;
        w.before[i] = a.window ? position - (int)a.window : -1;
        w.max[i] = -CUDART_INF_F;
        w.sum[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) w.o[n][i] = 0;
}

/* Scores in units of log 2, -infinity where a key is not seen. */
template <typename T, int D>
__device__ __forceinline__ void score(const attention_job &a, const attention_keys &keys, const uint8_t *stage,
                                      int64_t j0, int64_t end, bool masked, int lane, const flash_state<D> &w,
                                      float s[KEYS / 8][4]) {
    const uint8_t *k = stage + (lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++)
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t b[4];
            load_matrices(b, k + n * 16 * pitch<D>() + i * 32);
            mma<T>(s[2 * n], w.q[i][0], w.q[i][1], w.q[i][2], w.q[i][3], b[0], b[1]);
            mma<T>(s[2 * n + 1], w.q[i][0], w.q[i][1], w.q[i][2], w.q[i][3], b[2], b[3]);
        }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t j = j0 + n * 8 + lane % 4 * 2 + i % 2;
            bool seen = true;
            if (masked) {
                seen = j < end;
                int row = seen ? (int)key_row(keys, j) : 0;
                seen = seen && row <= w.last[i / 2] && row > w.before[i / 2];
            }
            s[n][i] = seen ? s[n][i] * a.scale_log2 : -CUDART_INF_F;
        }
}

template <typename T, int D>
__device__ __forceinline__ void mix(const uint8_t *stage, int lane, flash_state<D> &w, float s[KEYS / 8][4]) {
    float top[2] = {w.max[0], w.max[1]}, scale[2], base[2];
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) top[i / 2] = fmaxf(top[i / 2], s[n][i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
        base[i] = top[i] == -CUDART_INF_F ? 0 : top[i];
        scale[i] = exp2_fast(w.max[i] - base[i]);
        w.max[i] = top[i];
        w.sum[i] *= scale[i];
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
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
    const uint8_t *v = stage + KEYS * pitch<D>() + lane % 16 * pitch<D>() + lane / 16 * 16;
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        uint32_t p0 = pack<T>(s[2 * n][0], s[2 * n][1]), p1 = pack<T>(s[2 * n][2], s[2 * n][3]);
        uint32_t p2 = pack<T>(s[2 * n + 1][0], s[2 * n + 1][1]), p3 = pack<T>(s[2 * n + 1][2], s[2 * n + 1][3]);
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            load_matrices_transposed(b, v + n * 16 * pitch<D>() + i * 32);
            mma<T>(w.o[2 * i], p0, p1, p2, p3, b[0], b[1]);
            mma<T>(w.o[2 * i + 1], p0, p1, p2, p3, b[2], b[3]);
        }
    }
}

template <typename T, int D>
__device__ __forceinline__ void put(const attention_job &a, int problem, int64_t base, int64_t row0, int lane,
                                    flash_state<D> &w) {
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 1);
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 2);
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
            a.lse[query * a.n_heads + head] =
                w.sum[i] > 0 ? logf(w.sum[i]) + w.max[i] * 0.69314718055994530942f : -CUDART_INF_F;
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(WARPS * 32) attention_flash_kernel(attention_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, problem = blockIdx.y;
    /* the longest rows of a causal problem first, so that no block starts late with much to do */
    int64_t tile = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x, row0 = tile * ROWS;
    int64_t base = (int64_t)blockIdx.z * a.batch_rows;
    for (int i = threadIdx.x; a.d < D && i < 2 * stage_bytes<D>() / 16; i += WARPS * 32)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncthreads();

    attention_keys keys = keys_of(a, problem);
    int64_t first = a.first + row0 / a.group; /* positions of the block's first and last query */
    int64_t last = a.first + min((row0 + ROWS - 1) / a.group, (int64_t)a.n_q - 1);
    if (!keys.rows && a.causal) keys.end = min(keys.end, last + 1);
    if (!keys.rows && a.window) keys.begin = max((int64_t)0, first - a.window + 1);
    /* of a list, which ascends: cut in halves */
    if (keys.rows && a.causal) {
        int64_t low = 0, high = keys.end;
        while (low < high) {
            int64_t mid = (low + high) / 2;
            if (keys.rows[mid] <= last)
                low = mid + 1;
            else
                high = mid;
        }
        keys.end = low;
    }
    int64_t head_at = (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
    const T *k = (const T *)a.k + head_at, *v = (const T *)a.v + head_at;
    int64_t n_tiles = max((int64_t)0, (keys.end - keys.begin + KEYS - 1) / KEYS);

    flash_state<D> w;
    take_queries<T, D>(a, problem, base, row0 + warp * 16, lane, w);
    if (n_tiles > 0) fetch<T, D>(a, keys, base, k, v, shared, keys.begin, keys.end);
    copy_commit();
    for (int64_t i = 0; i < n_tiles; i++) {
        int64_t j0 = keys.begin + i * KEYS;
        uint8_t *stage = shared + i % 2 * stage_bytes<D>();
        if (i + 1 < n_tiles)
            fetch<T, D>(a, keys, base, k, v, shared + (i + 1) % 2 * stage_bytes<D>(), j0 + KEYS, keys.end);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        bool masked = keys.rows || j0 + KEYS > keys.end || (a.causal && j0 + KEYS - 1 > first) ||
                      (a.window && j0 <= last - a.window);
        float s[KEYS / 8][4];
        score<T, D>(a, keys, stage, j0, keys.end, masked, lane, w, s);
        mix<T, D>(stage, lane, w, s);
        __syncthreads(); /* all warps have read the stage before the next copy into it */
    }
    put<T, D>(a, problem, base, row0 + warp * 16, lane, w);
}

template <typename T, int D> static sac_status launch(const sac_stream *s, const sac_attention_args *a) {
    attention_job j = attention_prepare(a);
    int bytes = 2 * stage_bytes<D>();
    if (cudaFuncSetAttribute(attention_flash_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) !=
        cudaSuccess)
        return SAC_DEVICE;
    dim3 grid((unsigned)ceil_div(a->n_q * j.group, ROWS), (unsigned)j.n_problems, (unsigned)a->n_batch);
    attention_flash_kernel<T, D><<<grid, WARPS * 32, (size_t)bytes, cuda_stream(s)>>>(j);
    return launched();
}

template <typename T> static sac_status launch_any(const sac_stream *s, const sac_attention_args *a) {
    int d = a->kv.head_dim;
    if (d <= 64) return launch<T, 64>(s, a);
    if (d <= 80) return launch<T, 80>(s, a);
    if (d <= 96) return launch<T, 96>(s, a);
    return launch<T, 128>(s, a);
}

extern "C" sac_status sac_cuda_attention_flash(const sac_stream *s, const sac_attention_args *a) {
    if (!attention_is_half(a) || !attention_fits_int(a) || a->n_batch > 65535 || a->kv.n_heads > 65535)
        return SAC_UNSUPPORTED;
    if (a->n_q == 0) return SAC_OK;
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_any<half>(s, a) : launch_any<bf16>(s, a);
}
