/* pack_rows.cu - rows of keys and values to codes: ranges of channels over all rows, ranges of rows over
 * whole heads, codes a word at a time. Every step rounds as the reference does, so the bits are the
 * reference's. */
#include "context.cuh"
extern "C" {
#include "pack_rows.h"
}

enum {
    COLUMNS = 64 /* channels of a block */,
    LANES = 8 /* threads that share a channel */,
    MAX_CHUNKS = 256
};

typedef struct pack_source {
    const void *k, *v;
    int64_t row_stride, head_stride;
    sac_pack_rows rows;
} pack_source;

static pack_source source_of(const sac_kv_view *kv, const sac_pack_rows *rows) {
    return pack_source{kv->k, kv->v, kv->row_stride, kv->head_stride, *rows};
}

/* Where row i of a head's selection begins. */
__device__ __forceinline__ int64_t source_at(const pack_source &s, int head, int64_t i) {
    int64_t row =
        s.rows.first + (s.rows.rows ? s.rows.rows[(s.rows.n_lists > 1 ? head * s.rows.n : 0) + i] : i);
    return row * s.row_stride + head * s.head_stride;
}

/* ---------------------------------------------------------------- ranges */

__device__ __forceinline__ uint16_t bits_of(float x) {
    return __half_as_ushort(__float2half_rn(x));
}
__device__ __forceinline__ float number_of(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
__device__ __forceinline__ uint16_t half_down(float x) {
    uint16_t h = bits_of(x);
    if (number_of(h) <= x) return h;
    return (uint16_t)((h & 0x8000u) ? h + 1 : h == 0 ? 0x8001 : h - 1);
}
__device__ __forceinline__ uint16_t half_up(float x) { /* x >= 0 */
    uint16_t h = bits_of(x);
    return (uint16_t)(number_of(h) >= x ? h : h + 1);
}
/* sac_packed_range_of, rounding by rounding. */
__device__ __forceinline__ sac_packed_range range_of(float min, float max, int bits) {
    sac_packed_range r;
    r.min = half_down(__fadd_rn(min, 0.0f));
    float width = __fsub_rn(max, number_of(r.min)), levels = (float)((1 << bits) - 1);
    r.scale = half_up(__fdiv_rn(width, levels));
    if (__fmul_rn(number_of(r.scale), levels) < width) r.scale++;
    return r;
}
__device__ __forceinline__ uint32_t code_of(float x, float scale, float min, int bits) {
    float top = (float)((1 << bits) - 1);
    float u = scale > 0 ? __fadd_rn(__fdiv_rn(__fsub_rn(x, min), scale), 0.5f) : 0.0f;
    return (uint32_t)(u > 0 ? (u < top ? u : top) : 0);
}

/* Smallest and largest number of every channel in a chunk of the rows: part [chunk][2][heads * d]. */
template <typename T>
static __global__ void __launch_bounds__(COLUMNS *LANES)
    columns_kernel(pack_source s, const T *x, int d, int n_columns, float *part) {
    __shared__ float low[LANES][COLUMNS], high[LANES][COLUMNS];
    int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    int64_t n = s.rows.n, from = n * blockIdx.y / gridDim.y, to = n * (blockIdx.y + 1) / gridDim.y;
    float min = CUDART_INF_F, max = -CUDART_INF_F;
    if (column < n_columns) {
        int head = column / d, c = column % d;
        for (int64_t i = from + lane; i < to; i += LANES) {
            float f = to_f32(x[source_at(s, head, i) + c]);
            min = fminf(min, f);
            max = fmaxf(max, f);
        }
    }
    low[lane][threadIdx.x % COLUMNS] = min;
    high[lane][threadIdx.x % COLUMNS] = max;
    __syncthreads();
    if (lane > 0 || column >= n_columns) return;
    for (int i = 1; i < LANES; i++) {
        min = fminf(min, low[i][threadIdx.x]);
        max = fmaxf(max, high[i][threadIdx.x]);
    }
    part[(int64_t)blockIdx.y * 2 * n_columns + column] = min;
    part[((int64_t)blockIdx.y * 2 + 1) * n_columns + column] = max;
}

/* Chunks meet. Keys: the range of a channel; values, where bits is 0: its factor. */
static __global__ void join_columns_kernel(const float *part, int n_chunks, int n_columns, int bits,
                                           uint16_t *scale_or_factor, uint16_t *smallest) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n_columns) return;
    float min = CUDART_INF_F, max = -CUDART_INF_F;
    for (int i = 0; i < n_chunks; i++) {
        min = fminf(min, part[(int64_t)i * 2 * n_columns + column]);
        max = fmaxf(max, part[((int64_t)i * 2 + 1) * n_columns + column]);
    }
    if (bits) {
        sac_packed_range r = range_of(min, max, bits);
        scale_or_factor[column] = r.scale;
        smallest[column] = r.min;
    } else {
        uint16_t h = bits_of(__fsqrt_rn(fmaxf(0.0f, fmaxf(-min, max))));
        scale_or_factor[column] = h ? h : bits_of(1.0f);
    }
}

/* Ranges of keys' channels (bits > 0, smallest) or factors of values' (bits 0) over all rows of the
 * selection. */
static sac_status column_ranges(const sac_stream *s, const pack_source &from, const void *x,
                                const sac_kv_view *kv, int bits, uint16_t *out, uint16_t *smallest) {
    size_t n_bytes;
    float *part = (float *)scratch_rest(s, &n_bytes);
    int n_columns = kv->n_heads * kv->head_dim, blocks = (int)ceil_div(n_columns, COLUMNS);
    int64_t chunks = min_of(MAX_CHUNKS, ceil_div(from.rows.n, 8 * LANES));
    chunks = max_of(1, min_of(chunks, (int64_t)(n_bytes / (2 * sizeof(float) * (size_t)n_columns))));
    BY_DTYPE(kv->dtype, (columns_kernel<T>
                         <<<dim3((unsigned)blocks, (unsigned)chunks), COLUMNS * LANES, 0, cuda_stream(s)>>>(
                             from, (const T *)x, kv->head_dim, n_columns, part)));
    join_columns_kernel<<<(unsigned)ceil_div(n_columns, 128), 128, 0, cuda_stream(s)>>>(
        part, (int)chunks, n_columns, bits, out, smallest);
    return launched();
}

extern "C" sac_status sac_cuda_pack_channels(const sac_stream *s, const sac_pack_channels_args *a) {
    if (!is_float(a->kv.dtype)) return SAC_UNSUPPORTED;
    return column_ranges(s, source_of(&a->kv, &a->rows), a->kv.v, &a->kv, 0, a->channel, NULL);
}

/* ---------------------------------------------------------------- codes */

/* Where code number i of a word lies. */
__device__ __forceinline__ int shift_of(int i, int bits) {
    return i / 2 * bits + (i & 1 ? 16 : 0);
}

/* A thread a word: rows of a tile next to each other, then words of the row, then tiles and heads. */
template <typename T> static __global__ void keys_kernel(pack_source s, sac_packed_rows p, int64_t n_words) {
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n_words) return;
    int per_word = 32 / p.bits, words = (p.head_dim + per_word - 1) / per_word;
    int64_t tiles = (p.n + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE;
    int row = (int)(at % SAC_PACKED_TILE), w = (int)(at / SAC_PACKED_TILE % words);
    int64_t tile = at / SAC_PACKED_TILE / words % tiles * SAC_PACKED_TILE;
    int head = (int)(at / SAC_PACKED_TILE / words / tiles);
    if (tile + row >= p.n) return;
    int64_t width = min((int64_t)SAC_PACKED_TILE, p.capacity - tile);
    const T *x = (const T *)s.k + source_at(s, head, tile + row);
    uint32_t word = 0;
    for (int i = 0; i < per_word && w * per_word + i < p.head_dim; i++) {
        int c = w * per_word + i, range = head * p.head_dim + c;
        word |= code_of(to_f32(x[c]), number_of(p.k_scale[range]), number_of(p.k_min[range]), p.bits)
                << shift_of(i, p.bits);
    }
    p.k[(head * p.capacity + tile) * words + w * width + row] = word;
}

__device__ __forceinline__ float value_of(const sac_packed_rows &p, float x, int head, int c) {
    return p.v_channel ? __fdiv_rn(x, number_of(p.v_channel[head * p.head_dim + c])) : x;
}

/* A warp a row and group of heads: its range. */
template <typename T> static __global__ void value_ranges_kernel(pack_source s, sac_packed_rows p) {
    int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32, heads = p.v_group / p.head_dim, first = blockIdx.y * heads;
    if (row >= p.n) return;
    float min = CUDART_INF_F, max = -CUDART_INF_F;
    for (int head = first; head < first + heads && head < p.n_heads; head++) {
        const T *x = (const T *)s.v + source_at(s, head, row);
        for (int c = lane; c < p.head_dim; c += 32) {
            float f = value_of(p, to_f32(x[c]), head, c);
            min = fminf(min, f);
            max = fmaxf(max, f);
        }
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        min = fminf(min, __shfl_xor_sync(0xffffffffu, min, i));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, i));
    }
    if (lane > 0) return;
    sac_packed_range r = range_of(min, max, p.bits);
    p.v_scale[blockIdx.y * p.capacity + row] = r.scale;
    p.v_min[blockIdx.y * p.capacity + row] = r.min;
}

/* A thread a word: channels next to each other, then words of rows, then heads. */
template <typename T>
static __global__ void values_kernel(pack_source s, sac_packed_rows p, int64_t n_words) {
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n_words) return;
    int per_word = 32 / p.bits, c = (int)(at % p.head_dim);
    int64_t used = (p.n + per_word - 1) / per_word, all = (p.capacity + per_word - 1) / per_word;
    int64_t w = at / p.head_dim % used;
    int head = (int)(at / p.head_dim / used);
    int64_t range = (int64_t)(head * p.head_dim / p.v_group) * p.capacity;
    uint32_t word = 0;
    for (int i = 0; i < per_word && w * per_word + i < p.n; i++) {
        int64_t row = w * per_word + i;
        float x = value_of(p, to_f32(((const T *)s.v)[source_at(s, head, row) + c]), head, c);
        word |= code_of(x, number_of(p.v_scale[range + row]), number_of(p.v_min[range + row]), p.bits)
                << shift_of(i, p.bits);
    }
    p.v[(head * all + w) * p.head_dim + c] = word;
}

template <typename T>
static sac_status pack(const sac_stream *s, const pack_source &from, const sac_packed_rows &p) {
    int64_t per_word = 32 / p.bits, groups = ceil_div((int64_t)p.n_heads * p.head_dim, p.v_group);
    int64_t key_words =
        ceil_div(p.n, SAC_PACKED_TILE) * SAC_PACKED_TILE * p.n_heads * ceil_div(p.head_dim, per_word);
    int64_t value_words = ceil_div(p.n, per_word) * p.head_dim * p.n_heads;
    dim3 rows((unsigned)ceil_div(p.n, 8), (unsigned)groups);
    if (ceil_div(max_of(key_words, value_words), 256) > INT32_MAX || groups > 65535) return SAC_UNSUPPORTED;
    keys_kernel<T><<<(unsigned)ceil_div(key_words, 256), 256, 0, cuda_stream(s)>>>(from, p, key_words);
    value_ranges_kernel<T><<<rows, 256, 0, cuda_stream(s)>>>(from, p);
    values_kernel<T><<<(unsigned)ceil_div(value_words, 256), 256, 0, cuda_stream(s)>>>(from, p, value_words);
    return launched();
}

extern "C" sac_status sac_cuda_pack_rows(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    bool whole_heads = p.v_group >= p.head_dim && p.v_group % p.head_dim == 0;
    if (!is_float(a->kv.dtype) || p.k_group < p.capacity || !whole_heads) return SAC_UNSUPPORTED;
    if (p.n == 0) return SAC_OK;
    pack_source from = source_of(&a->kv, &a->rows);
    SAC_TRY(column_ranges(s, from, a->kv.k, &a->kv, p.bits, p.k_scale, p.k_min));
    BY_DTYPE(a->kv.dtype, return pack<T>(s, from, p));
    return SAC_OK;
}
