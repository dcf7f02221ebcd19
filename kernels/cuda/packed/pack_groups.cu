/* pack_groups.cu - keys with a range a channel for every group of rows, and values of any groups of channels,
 * from any row on: what is appended to packed rows. Every step rounds as the reference does, so the bits are
 * the reference's. */
#include "pack_ranges.cuh"

namespace sac::packed {

enum { THREADS = 256, MOST_CHANNELS = 1024 /* of a head */, MOST_PER_WORD = 16 };

/* A block has a group of rows of one head: a thread finds the ranges of its channels, then makes words. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) key_groups_kernel(pack_source s, sac_packed_rows p, int64_t to) {
    __shared__ float scale[MOST_CHANNELS], least[MOST_CHANNELS];
    int head = blockIdx.y, d = p.head_dim, per_word = 32 / p.bits, words = (d + per_word - 1) / per_word;
    int64_t first = blockIdx.x * p.k_group, n = min(p.k_group, s.rows.n - first);
    int64_t groups = (p.capacity + p.k_group - 1) / p.k_group;
    int64_t range_at = (head * groups + (to + first) / p.k_group) * d;
    const T *k = (const T *)s.k;
    for (int c = threadIdx.x; c < d; c += THREADS) {
        float min = CUDART_INF_F, max = -CUDART_INF_F;
        for (int64_t i = 0; i < n; i++) {
            float x = to_f32(k[source_at(s, head, first + i) + c]);
            min = fminf(min, x), max = fmaxf(max, x);
        }
        sac_packed_range range = range_of(min, max, p.bits);
        p.k_scale[range_at + c] = range.scale, p.k_min[range_at + c] = range.min;
        scale[c] = number_of(range.scale), least[c] = number_of(range.min);
    }
    __syncthreads();
    for (int64_t at = threadIdx.x; at < n * words; at += THREADS) { /* rows of a tile lie next to each other */
        int64_t tile_of = at / (SAC_PACKED_TILE * words) * SAC_PACKED_TILE, rest = at - tile_of * words;
        int64_t wide = min((int64_t)SAC_PACKED_TILE, n - tile_of), i = tile_of + rest % wide;
        int w = (int)(rest / wide);
        const T *x = k + source_at(s, head, first + i);
        uint32_t word = 0;
        for (int j = 0; j < per_word && w * per_word + j < d; j++) {
            int c = w * per_word + j;
            word |= code_of(to_f32(x[c]), scale[c], least[c], p.bits) << shift_of(j, p.bits);
        }
        int64_t row = to + first + i, tile = row / SAC_PACKED_TILE * SAC_PACKED_TILE;
        int64_t width = min((int64_t)SAC_PACKED_TILE, p.capacity - tile);
        p.k[(head * p.capacity + tile) * words + w * width + (row - tile)] = word;
    }
}

sac_status cuda_pack_key_groups(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    int64_t groups = ceil_div(a->rows.n, p.k_group);
    if (p.head_dim > MOST_CHANNELS || p.n_heads > 65535 || groups > INT32_MAX || a->to % p.k_group)
        return SAC_UNSUPPORTED;
    if (groups == 0) return SAC_OK;
    pack_source from = source_of(&a->kv, &a->rows);
    dim3 grid((unsigned)groups, (unsigned)p.n_heads);
    BY_DTYPE(a->kv.dtype, return launch(s, {grid, THREADS}, key_groups_kernel<T>, from, p, a->to));
    return SAC_OK;
}

/* Channels that share a range, in order: from `first` of head `head` on, over the heads that follow. */
typedef struct value_group {
    int head, first, n;
} value_group;

__device__ __forceinline__ value_group group_at(const sac_packed_rows &p, int g) {
    if (p.v_group >= p.head_dim) {
        int head = g * (p.v_group / p.head_dim);
        return {head, 0, min(p.v_group, (p.n_heads - head) * p.head_dim)};
    }
    int of_head = (p.head_dim + p.v_group - 1) / p.v_group, first = g % of_head * p.v_group;
    return {g / of_head, first, min(p.v_group, p.head_dim - first)};
}

/* Channel number i of a group, of a row that begins at source_at: divided by its factor. */
template <typename T>
__device__ __forceinline__ float value_at(const pack_source &s, const sac_packed_rows &p, const value_group &g,
                                          int64_t i, int number) {
    int c = g.first + number, head = g.head + c / p.head_dim;
    c %= p.head_dim;
    float x = to_f32(((const T *)s.v)[source_at(s, head, i) + c]);
    return p.v_channel ? __fdiv_rn(x, number_of(p.v_channel[head * p.head_dim + c])) : x;
}

/* A block has the rows of one word of one group of channels: a warp finds the range of a row, then a thread
 * makes a channel's word. What the word held of rows before `to` stays. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    value_groups_kernel(pack_source s, sac_packed_rows p, int64_t to) {
    __shared__ float scale[MOST_PER_WORD], least[MOST_PER_WORD];
    int per_word = 32 / p.bits, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const value_group g = group_at(p, blockIdx.y);
    int64_t w = to / per_word + blockIdx.x, first = w * per_word, all = (p.capacity + per_word - 1) / per_word;
    for (int j = warp; j < per_word; j += THREADS / 32) {
        int64_t row = first + j;
        float min = CUDART_INF_F, max = -CUDART_INF_F;
        if (row < to || row >= p.n) continue;
        for (int i = lane; i < g.n; i += 32) {
            float x = value_at<T>(s, p, g, row - to, i);
            min = fminf(min, x), max = fmaxf(max, x);
        }
        const float2 ends = warp_range(min, max);
        sac_packed_range range = range_of(ends.x, ends.y, p.bits);
        if (lane > 0) continue;
        p.v_scale[blockIdx.y * p.capacity + row] = range.scale;
        p.v_min[blockIdx.y * p.capacity + row] = range.min;
        scale[j] = number_of(range.scale), least[j] = number_of(range.min);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < g.n; i += THREADS) {
        int head = g.head + (g.first + i) / p.head_dim, c = (g.first + i) % p.head_dim;
        uint32_t *out = p.v + (head * all + w) * p.head_dim + c, word = 0;
        for (int j = 0; j < per_word && first + j < p.n; j++)
            word |= (first + j < to ? *out >> shift_of(j, p.bits) & ((1u << p.bits) - 1)
                                    : code_of(value_at<T>(s, p, g, first + j - to, i), scale[j], least[j], p.bits))
                    << shift_of(j, p.bits);
        *out = word;
    }
}

sac_status cuda_pack_value_groups(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    int64_t per_word = 32 / p.bits, words = ceil_div(p.n, per_word) - a->to / per_word;
    int64_t groups = sac_packed_value_groups(p.n_heads, p.head_dim, p.v_group);
    if (words > INT32_MAX || groups > 65535) return SAC_UNSUPPORTED;
    if (a->rows.n == 0) return SAC_OK;
    pack_source from = source_of(&a->kv, &a->rows);
    dim3 grid((unsigned)words, (unsigned)groups);
    BY_DTYPE(a->kv.dtype, return launch(s, {grid, THREADS}, value_groups_kernel<T>, from, p, a->to));
    return SAC_OK;
}

} // namespace sac::packed
