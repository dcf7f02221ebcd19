/* pack_keys.cu - keys to codes with a range a row: a prompt's, or a step's one row.
 *
 * A block has a tile of rows of one head, a warp two of its rows; words meet in shared memory, so that they
 * leave in the order of the tile. What the tile held before the first new row stays. */
#include "pack_ranges.cuh"

namespace sac::packed {

enum { TILE = SAC_PACKED_TILE, WARPS = 8, MAX_WORDS = 64 /* of a row */ };

template <typename T>
static __global__ void __launch_bounds__(WARPS * 32)
    row_keys_kernel(pack_source s, sac_packed_rows p, int64_t to) {
    __shared__ uint32_t words[MAX_WORDS][TILE];
    start_next();
    wait_for_last();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, per_word = 32 / p.bits;
    int n_words = (p.head_dim + per_word - 1) / per_word;
    int64_t first = (to / TILE + blockIdx.x) * TILE;
    for (int i = warp; i < TILE; i += WARPS) {
        int64_t row = first + i;
        if (row < to || row >= p.n) continue;
        const T *x = (const T *)s.k + source_at(s, head, row - to);
        float min = CUDART_INF_F, max = -CUDART_INF_F;
        for (int c = lane; c < p.head_dim; c += 32) {
            float f = to_f32(x[c]);
            min = fminf(min, f), max = fmaxf(max, f);
        }
        const float2 ends = warp_range(min, max);
        sac_packed_range range = range_of(ends.x, ends.y, p.bits);
        if (lane == 0) {
            p.k_scale[head * p.capacity + row] = range.scale;
            p.k_min[head * p.capacity + row] = range.min;
        }
        float scale = number_of(range.scale), low = number_of(range.min);
        for (int w = lane; w < n_words; w += 32) {
            uint32_t word = 0;
            for (int j = 0; j < per_word && w * per_word + j < p.head_dim; j++)
                word |= code_of(to_f32(x[w * per_word + j]), scale, low, p.bits) << shift_of(j, p.bits);
            words[w][i] = word;
        }
    }
    __syncthreads();
    int width = (int)min((int64_t)TILE, p.capacity - first);
    uint32_t *out = p.k + (head * p.capacity + first) * n_words;
    for (int i = threadIdx.x; i < n_words * TILE; i += WARPS * 32) {
        int64_t row = first + i % TILE;
        if (row >= to && row < p.n) out[i / TILE * width + i % TILE] = words[i / TILE][i % TILE];
    }
}

sac_status cuda_pack_keys_by_row(const sac_stream *s, const sac_pack_rows_args *a) {
    const sac_packed_rows &p = a->p;
    int64_t per_word = 32 / p.bits, tiles = ceil_div(p.n, TILE) - a->to / TILE;
    if (ceil_div(p.head_dim, per_word) > MAX_WORDS || p.n_heads > 65535 || tiles > INT32_MAX)
        return SAC_UNSUPPORTED;
    if (a->rows.n == 0) return SAC_OK;
    pack_source from = source_of(&a->kv, &a->rows);
    dim3 grid((unsigned)tiles, (unsigned)p.n_heads);
    BY_DTYPE(a->kv.dtype, return launch(s, early({grid, WARPS * 32}), row_keys_kernel<T>, from, p, a->to));
    return SAC_OK;
}

} // namespace sac::packed
