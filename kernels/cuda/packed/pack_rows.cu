/* pack_rows.cu - rows of keys and values to codes: ranges of channels over all rows, ranges of rows over
 * whole heads, codes a word at a time; keys are read twice and values once where rows are lines of eight
 * numbers. Every step rounds as the reference does, so the bits are the reference's. */
#include "context.cuh"
#include "pack_ranges.cuh"

namespace sac::packed {

enum {
    COLUMNS = 64, /* channels of a block */
    COLUMN_THREADS = 512,
    MAX_CHUNKS = 64,
    KEY_TILES = 4,  /* tiles that a thread has under way */
    VALUE_ROWS = 32 /* of a block at a time */
};

/* x / y, rounded once, by way of r = 1 / y, rounded once: the second correction of a quotient that is less
 * than one unit off (Markstein, IBM J. Res. Dev. 34, 1990). Nothing may overflow. */
__device__ __forceinline__ float divide(float x, float y, float r) {
    float q = __fmul_rn(x, r);
    q = __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
    return __fmaf_rn(__fmaf_rn(-y, q, x), r, q);
}
__device__ __forceinline__ float reciprocal(float y) {
    return y > 0 ? __frcp_rn(y) : 0; /* a constant has no scale, and code 0 */
}
/* code_of(), as the last bits of 2^23 plus the code. */
__device__ __forceinline__ uint32_t biased_code(float x, float scale, float r, float min, float top) {
    float u = __fadd_rn(divide(__fsub_rn(x, min), scale, r), 0.5f);
    return __float_as_uint(__fadd_rz(fminf(fmaxf(u, 0), top), 8388608.0f));
}

/* Eight neighbours as they lie. */
template <typename T> struct eight { uint4 v[sizeof(T) / 2]; };
template <typename T> __device__ __forceinline__ eight<T> load_eight(const T *p) {
    eight<T> e;
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) / 2; i++) e.v[i] = ((const uint4 *)p)[i];
    return e;
}
template <typename T> __device__ __forceinline__ float number_at(const eight<T> &e, int i) {
    return to_f32(((const T *)e.v)[i]);
}

/* Smallest and largest number of every channel in a chunk of the rows: part [chunk][2][heads * d]. A thread
 * has V channels of every LANES-th row. */
template <typename T, int V>
static __global__ void __launch_bounds__(COLUMN_THREADS)
    columns_kernel(pack_source s, const T *x, int d, int n_columns, float *part) {
    constexpr int ACROSS = COLUMNS / V, LANES = COLUMN_THREADS / ACROSS;
    __shared__ float low[LANES][COLUMNS], high[LANES][COLUMNS];
    int at = threadIdx.x % ACROSS * V, lane = threadIdx.x / ACROSS, column = blockIdx.x * COLUMNS + at;
    int64_t n = s.rows.n, from = n * blockIdx.y / gridDim.y, to = n * (blockIdx.y + 1) / gridDim.y;
    float min[V], max[V];
#pragma unroll
    for (int j = 0; j < V; j++) min[j] = CUDART_INF_F, max[j] = -CUDART_INF_F;
    if (column < n_columns) {
        int head = column / d;
        x += column % d;
#pragma unroll 4
        for (int64_t i = from + lane; i < to; i += LANES) {
            float f[V];
            load<V>(f, x + source_at(s, head, i));
#pragma unroll
            for (int j = 0; j < V; j++) min[j] = fminf(min[j], f[j]), max[j] = fmaxf(max[j], f[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < V; j++) low[lane][at + j] = min[j], high[lane][at + j] = max[j];
    __syncthreads();
    column = blockIdx.x * COLUMNS + threadIdx.x;
    if (threadIdx.x >= COLUMNS || column >= n_columns) return;
    float least = low[0][threadIdx.x], most = high[0][threadIdx.x];
    for (int i = 1; i < LANES; i++) {
        least = fminf(least, low[i][threadIdx.x]);
        most = fmaxf(most, high[i][threadIdx.x]);
    }
    part[(int64_t)blockIdx.y * 2 * n_columns + column] = least;
    part[((int64_t)blockIdx.y * 2 + 1) * n_columns + column] = most;
}

/* Chunks meet, 32 columns a block. Keys: the range of a channel; values, where bits is 0: its factor. */
static __global__ void __launch_bounds__(1024)
    join_columns_kernel(const float *part, int n_chunks, int n_columns, int bits, uint16_t *scale_or_factor,
                        uint16_t *smallest) {
    __shared__ float low[32][32], high[32][32];
    int lane = threadIdx.x / 32, column = blockIdx.x * 32 + threadIdx.x % 32;
    float min = CUDART_INF_F, max = -CUDART_INF_F;
    if (column < n_columns)
#pragma unroll 8
        for (int i = lane; i < n_chunks; i += 32) {
            min = fminf(min, part[(int64_t)i * 2 * n_columns + column]);
            max = fmaxf(max, part[((int64_t)i * 2 + 1) * n_columns + column]);
        }
    low[lane][threadIdx.x % 32] = min;
    high[lane][threadIdx.x % 32] = max;
    __syncthreads();
    if (lane > 0 || column >= n_columns) return;
    for (int i = 1; i < 32; i++)
        min = fminf(min, low[i][threadIdx.x]), max = fmaxf(max, high[i][threadIdx.x]);
    if (bits) {
        sac_packed_range r = range_of(min, max, bits);
        scale_or_factor[column] = r.scale;
        smallest[column] = r.min;
    } else {
        uint16_t h = bits_of(__fsqrt_rn(fmaxf(0.0f, fmaxf(-min, max))));
        scale_or_factor[column] = h ? h : bits_of(1.0f);
    }
}

/* Whether rows of a head are whole lines of eight numbers. */
static bool has_vectors(const sac_kv_view *kv, const void *x) {
    return kv->head_dim % 8 == 0 && kv->head_stride % 8 == 0 && is_aligned(x, kv->row_stride);
}

template <typename T>
static sac_status launch_columns(const sac_stream *s, dim3 grid, bool vectors, const pack_source &from,
                                 const void *x, int d, int n_columns, float *part) {
    auto kernel = vectors ? columns_kernel<T, 8> : columns_kernel<T, 1>;
    return launch(s, {grid, COLUMN_THREADS}, kernel, from, (const T *)x, d, n_columns, part);
}

/* Ranges of keys' channels (bits > 0, smallest) or factors of values' (bits 0) over all rows of the
 * selection. */
static sac_status column_ranges(const sac_stream *s, const pack_source &from, const void *x,
                                const sac_kv_view *kv, int bits, uint16_t *out, uint16_t *smallest) {
    size_t n_bytes;
    float *part = (float *)scratch_rest(s, &n_bytes);
    int n_columns = kv->n_heads * kv->head_dim, blocks = (int)ceil_div(n_columns, COLUMNS);
    int64_t chunks = min_of(MAX_CHUNKS, ceil_div(from.rows.n, COLUMN_THREADS));
    chunks = max_of(1, min_of(chunks, (int64_t)(n_bytes / (2 * sizeof(float) * (size_t)n_columns))));
    dim3 grid((unsigned)blocks, (unsigned)chunks);
    bool vectors = has_vectors(kv, x);
    BY_DTYPE(kv->dtype, SAC_TRY(launch_columns<T>(s, grid, vectors, from, x, kv->head_dim, n_columns, part)));
    return launch(s, {(unsigned)ceil_div(n_columns, 32), 1024}, join_columns_kernel, part, (int)chunks,
                  n_columns, bits, out, smallest);
}

extern "C" sac_status sac_cuda_pack_channels(const sac_stream *s, const sac_pack_channels_args *a) {
    ops_of(s)->packs = true;
    if (!is_float(a->kv.dtype)) return SAC_UNSUPPORTED;
    return column_ranges(s, source_of(&a->kv, &a->rows), a->kv.v, &a->kv, 0, a->channel, NULL);
}

/* ---------------------------------------------------------------- codes */

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
    const float2 ends = warp_range(min, max);
    if (lane > 0) return;
    sac_packed_range r = range_of(ends.x, ends.y, p.bits);
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

/* keys_kernel where rows are whole lines of eight numbers and words are full. A thread has one word's
 * channels, whose ranges it keeps, of one row of every tile. */
template <typename T, int BITS>
static __global__ void __launch_bounds__(256) key_lines_kernel(pack_source s, sac_packed_rows p) {
    constexpr int PER_WORD = 32 / BITS;
    int words = p.head_dim / PER_WORD, n_words = words * p.n_heads;
    int at = blockIdx.y * 16 + threadIdx.x / 16, row = threadIdx.x % 16, head = at / words, w = at % words;
    if (at >= n_words) return;
    float scale[PER_WORD], r[PER_WORD], least[PER_WORD];
#pragma unroll
    for (int i = 0; i < PER_WORD; i++) {
        scale[i] = number_of(p.k_scale[at * PER_WORD + i]), least[i] = number_of(p.k_min[at * PER_WORD + i]);
        r[i] = reciprocal(scale[i]);
    }
    const T *k = (const T *)s.k + w * PER_WORD;
    for (int64_t row0 = (int64_t)blockIdx.x * KEY_TILES * 16; row0 < p.n;
         row0 += (int64_t)gridDim.x * KEY_TILES * 16) {
        eight<T> x[KEY_TILES][PER_WORD / 8];
#pragma unroll
        for (int j = 0; j < KEY_TILES; j++) {
            int64_t from = source_at(s, head, min(row0 + 16 * j + row, p.n - 1));
#pragma unroll
            for (int i = 0; i < PER_WORD / 8; i++) x[j][i] = load_eight(k + from + 8 * i);
        }
#pragma unroll
        for (int j = 0; j < KEY_TILES; j++) {
            int64_t tile = row0 + 16 * j;
            uint32_t word = 0;
#pragma unroll
            for (int i = 0; i < PER_WORD; i++)
                word |=
                    (biased_code(number_at(x[j][i / 8], i % 8), scale[i], r[i], least[i], (1 << BITS) - 1) &
                     ((1u << BITS) - 1))
                    << shift_of(i, BITS);
            int64_t width = min((int64_t)SAC_PACKED_TILE, p.capacity - tile);
            if (tile + row < p.n) p.k[(head * p.capacity + tile) * words + w * width + row] = word;
        }
    }
}

/* Ranges and codes of values, read once, VALUE_ROWS rows of one group of heads at a time. A warp has rows; a
 * lane has G lines of eight channels, whose factors it keeps. Codes go to shared memory as bytes and from
 * there to words, a thread four channels of a word's rows. */
template <typename T, int BITS, int G>
static __global__ void __launch_bounds__(256) value_lines_kernel(pack_source s, sac_packed_rows p) {
    constexpr int PER_WORD = 32 / BITS, ROWS = VALUE_ROWS / 8, AHEAD = G * sizeof(T) <= 4 ? ROWS : 1;
    __shared__ __align__(16) uint8_t codes[VALUE_ROWS * G * 256];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, d = p.head_dim;
    int heads = min(p.v_group / d, p.n_heads - (int)blockIdx.y * (p.v_group / d)), lines = heads * d / 8;
    int head0 = blockIdx.y * (p.v_group / d);
    uint16_t *scales = p.v_scale + blockIdx.y * p.capacity, *lows = p.v_min + blockIdx.y * p.capacity;
    int64_t all = (p.capacity + PER_WORD - 1) / PER_WORD;
    float factor[G][8], r[G][8];
#pragma unroll
    for (int u = 0; u < G; u++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            bool there = p.v_channel && lane + 32 * u < lines;
            factor[u][i] = there ? number_of(p.v_channel[head0 * d + (lane + 32 * u) * 8 + i]) : 1;
            r[u][i] = __frcp_rn(factor[u][i]);
        }
    for (int64_t row0 = (int64_t)blockIdx.x * VALUE_ROWS; row0 < p.n;
         row0 += (int64_t)gridDim.x * VALUE_ROWS) {
#pragma unroll
        for (int first = 0; first < ROWS; first += AHEAD) {
            eight<T> x[AHEAD][G];
#pragma unroll
            for (int j = 0; j < AHEAD; j++)
#pragma unroll
                for (int u = 0; u < G; u++) {
                    int c = min(lane + 32 * u, lines - 1) * 8;
                    int64_t row = min(row0 + warp * ROWS + first + j, p.n - 1);
                    x[j][u] = load_eight((const T *)s.v + source_at(s, head0 + c / d, row) + c % d);
                }
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                float f[G][8], min = CUDART_INF_F, max = -CUDART_INF_F;
#pragma unroll
                for (int u = 0; u < G; u++)
#pragma unroll
                    for (int i = 0; i < 8; i++) { /* lines that do not exist are the last again */
                        f[u][i] = number_at(x[j][u], i);
                        if (p.v_channel && lane + 32 * u < lines)
                            f[u][i] = divide(f[u][i], factor[u][i], r[u][i]);
                        if (lane + 32 * u < lines) min = fminf(min, f[u][i]), max = fmaxf(max, f[u][i]);
                    }
                const float2 ends = warp_range(min, max);
                int row = warp * ROWS + first + j;
                sac_packed_range range = range_of(ends.x, ends.y, BITS);
                if (lane == 0 && row0 + row < p.n)
                    scales[row0 + row] = range.scale, lows[row0 + row] = range.min;
                float scale = number_of(range.scale), low = number_of(range.min), r_scale = reciprocal(scale);
                bool there = row0 + row < p.n; /* rows that do not exist are zeros in their word */
#pragma unroll
                for (int u = 0; u < G; u++) {
                    uint32_t y[8];
#pragma unroll
                    for (int i = 0; i < 8; i++)
                        y[i] = there ? biased_code(f[u][i], scale, r_scale, low, (1 << BITS) - 1) : 0;
                    uint32_t a = __byte_perm(y[0], y[1], 0x0040), b = __byte_perm(y[2], y[3], 0x0040);
                    uint32_t c = __byte_perm(y[4], y[5], 0x0040), e = __byte_perm(y[6], y[7], 0x0040);
                    *(uint2 *)&codes[row * G * 256 + (lane + 32 * u) * 8] =
                        make_uint2(__byte_perm(a, b, 0x5410), __byte_perm(c, e, 0x5410));
                }
            }
        }
        __syncthreads();
        int quads = lines * 2; /* of channels */
        for (int i = threadIdx.x; i < quads * (VALUE_ROWS / PER_WORD); i += 256) {
            int c = i % quads * 4, w = i / quads;
            uint32_t word[4] = {0};
#pragma unroll
            for (int j = 0; j < PER_WORD; j++) {
                uint32_t y = *(const uint32_t *)&codes[(w * PER_WORD + j) * G * 256 + c];
#pragma unroll
                for (int e = 0; e < 4; e++) word[e] |= (y >> (8 * e) & 255) << shift_of(j, BITS);
            }
            int64_t at = row0 / PER_WORD + w;
            if (row0 + w * PER_WORD < p.n)
                *(uint4 *)&p.v[((head0 + c / d) * all + at) * d + c % d] =
                    make_uint4(word[0], word[1], word[2], word[3]);
        }
        __syncthreads(); /* the codes have been read */
    }
}

template <typename T, int BITS>
static sac_status launch_value_lines(const sac_stream *s, const pack_source &from, const sac_packed_rows &p,
                                     dim3 grid) {
    int lines = (int)min_of(p.v_group, (int64_t)p.n_heads * p.head_dim) / 8;
    auto kernel = lines <= 32   ? value_lines_kernel<T, BITS, 1>
                  : lines <= 64 ? value_lines_kernel<T, BITS, 2>
                                : value_lines_kernel<T, BITS, 4>;
    return launch(s, {grid, 256}, kernel, from, p);
}

/* Keys or values by lines; UNSUPPORTED: they are not of that shape. */
template <typename T>
static sac_status pack_key_lines(const sac_stream *s, const pack_source &from, const sac_packed_rows &p) {
    int64_t tiles = ceil_div(p.n, 16 * KEY_TILES);
    dim3 grid((unsigned)min_of(tiles, 4 * s->device->n_processors),
              (unsigned)ceil_div((int64_t)p.n_heads * p.head_dim * p.bits / 32, 16));
    if (p.bits == 8 || p.head_dim % (32 / p.bits) || grid.y > 65535) return SAC_UNSUPPORTED;
    return launch(s, {grid, 256}, p.bits == 4 ? key_lines_kernel<T, 4> : key_lines_kernel<T, 2>, from, p);
}
template <typename T>
static sac_status pack_value_lines(const sac_stream *s, const pack_source &from, const sac_packed_rows &p,
                                   int64_t groups) {
    dim3 grid((unsigned)min_of(ceil_div(p.n, VALUE_ROWS), 4 * s->device->n_processors), (unsigned)groups);
    if (p.bits == 8 || min_of(p.v_group, (int64_t)p.n_heads * p.head_dim) > 1024 || (uintptr_t)p.v % 16)
        return SAC_UNSUPPORTED;
    return p.bits == 4 ? launch_value_lines<T, 4>(s, from, p, grid)
                       : launch_value_lines<T, 2>(s, from, p, grid);
}

/* Keys from row 0 on with one range a channel for all of them. */
static sac_status pack_all_keys(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    pack_source from = source_of(&a->kv, &a->rows);
    int64_t words =
        ceil_div(p.n, SAC_PACKED_TILE) * SAC_PACKED_TILE * p.n_heads * ceil_div(p.head_dim, 32 / p.bits);
    if (ceil_div(words, 256) > INT32_MAX) return SAC_UNSUPPORTED;
    SAC_TRY(column_ranges(s, from, a->kv.k, &a->kv, p.bits, p.k_scale, p.k_min));
    if (has_vectors(&a->kv, a->kv.k)) {
        sac_status st = SAC_UNSUPPORTED;
        BY_DTYPE(a->kv.dtype, st = pack_key_lines<T>(s, from, p));
        if (st != SAC_UNSUPPORTED) return st;
    }
    BY_DTYPE(a->kv.dtype,
             return launch(s, {(unsigned)ceil_div(words, 256), 256}, keys_kernel<T>, from, p, words));
    return SAC_OK;
}

/* Values from row 0 on with ranges over whole heads. */
static sac_status pack_all_values(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    pack_source from = source_of(&a->kv, &a->rows);
    int64_t groups = ceil_div((int64_t)p.n_heads * p.head_dim, p.v_group);
    int64_t words = ceil_div(p.n, 32 / p.bits) * p.head_dim * p.n_heads;
    dim3 rows((unsigned)ceil_div(p.n, 8), (unsigned)groups);
    if (ceil_div(words, 256) > INT32_MAX || groups > 65535) return SAC_UNSUPPORTED;
    if (has_vectors(&a->kv, a->kv.v)) {
        sac_status st = SAC_UNSUPPORTED;
        BY_DTYPE(a->kv.dtype, st = pack_value_lines<T>(s, from, p, groups));
        if (st != SAC_UNSUPPORTED) return st;
    }
    BY_DTYPE(a->kv.dtype, SAC_TRY(launch(s, {rows, 256}, value_ranges_kernel<T>, from, p)));
    BY_DTYPE(a->kv.dtype,
             return launch(s, {(unsigned)ceil_div(words, 256), 256}, values_kernel<T>, from, p, words));
    return SAC_OK;
}

static sac_status pack_keys(const sac_stream *s, const sac_pack_rows_args *a) {
    if (a->p.k_group == 0) return cuda_pack_keys_by_row(s, a);
    if (a->to || a->p.k_group < a->p.capacity) return cuda_pack_key_groups(s, a);
    return pack_all_keys(s, a);
}

static sac_status pack_values(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    bool whole_heads = p.v_group >= p.head_dim && p.v_group % p.head_dim == 0;
    return a->to || !whole_heads ? cuda_pack_value_groups(s, a) : pack_all_values(s, a);
}

extern "C" sac_status sac_cuda_pack_rows(const sac_stream *s, const sac_pack_rows_args *a) {
    /* Copies of keys with a range a row are read by ops that wait. */
    if (a->p.v || a->p.k_group) ops_of(s)->packs = true;
    if (!is_float(a->kv.dtype)) return SAC_UNSUPPORTED;
    if (a->rows.n == 0) return SAC_OK;
    if (a->p.k) SAC_TRY(pack_keys(s, a));
    return a->p.v ? pack_values(s, a) : SAC_OK;
}

} // namespace sac::packed
