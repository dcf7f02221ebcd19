/* packed_scores.cu - a query against packed keys, each unpacked once for the query heads that read it: keys
 * go through shared memory, 32 places at a time. All rows of a copy in 4 bits with a range a row have a
 * kernel of their own (packed_scores_four.cu). */
#include "packed.cuh"
#include "packed_scores.cuh"
#include "turn.cuh"

namespace sac::packed {

enum { PLACES = 32, THREADS = 256, HEADS = 8, MAX_D = 256 };

typedef struct scores_job {
    float *scores;
    int64_t stride, n, from; /* scores, and the row of the first */
    const int32_t *skip;
    const void *q;
    sac_dtype dtype;
    sac_packed_rows keys;
    const int32_t *rows, *turn;
    sac_rotation rotation;
    int n_lists, n_problems, group, heads_per_key, n_heads;
    float scale;
} scores_job;

/* A problem is the query heads that read the same rows of the same key head. */
static __global__ void __launch_bounds__(THREADS) places_kernel(scores_job a) {
    __shared__ float q[HEADS][MAX_D], keys[PLACES][MAX_D + 1];
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, d = a.keys.head_dim;
    int head0 = blockIdx.y * a.group, key_head = head0 / a.heads_per_key;
    int64_t first = (int64_t)blockIdx.x * PLACES, list = blockIdx.y / (a.n_problems / a.n_lists);
    int n = (int)min((int64_t)PLACES, a.n - first);
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    if (lane < n) { /* a lane a place */
        int64_t place = list * a.n + first + lane, row = a.rows ? a.rows[place] : a.from + first + lane;
        for (int c = warp; c < d; c += THREADS / 32) keys[lane][c] = packed_key(a.keys, key_head, row, c);
    }
    __syncthreads();
    if (a.turn && lane < n) {
        const sac_rotation &r = a.rotation;
        const float *angles = r.cos_sin + a.turn[list * a.n + first + lane] * (int64_t)r.rot_dim;
        for (int i = warp; i < r.rot_dim / 2; i += THREADS / 32) {
            float *u = &keys[lane][r.interleaved ? 2 * i : i];
            float *v = &keys[lane][r.interleaved ? 2 * i + 1 : i + r.rot_dim / 2];
            turn_back(angles[2 * i] / r.factor, angles[2 * i + 1] / r.factor, *u, *v);
        }
    }
    for (int sub = 0; sub < a.group; sub += HEADS) {
        int n_heads = min((int)HEADS, a.group - sub);
        __syncthreads();
        for (int i = tid; i < n_heads * d; i += THREADS)
            q[i / d][i % d] = load_any(a.dtype, a.q, (int64_t)(head0 + sub) * d + i);
        __syncthreads();
        if (warp < n_heads && lane < n) {
            float sum = 0, odd = 0; /* two chains */
            for (int c = 0; c + 1 < d; c += 2) {
                sum += q[warp][c] * keys[lane][c];
                odd += q[warp][c + 1] * keys[lane][c + 1];
            }
            if (d % 2) sum += q[warp][d - 1] * keys[lane][d - 1];
            a.scores[(head0 + sub + warp) * a.stride + first + lane] = (sum + odd) * a.scale;
        }
    }
}

static sac_status run_places(const sac_stream *s, const sac_packed_scores_args *a) {
    scores_job j = {};
    bool listed = a->rows || a->turn_back, by_head = listed && a->n_lists == a->n_heads;
    j.from = a->first, j.skip = a->skip;
    j.scores = a->scores, j.stride = a->stride, j.n = a->n, j.q = a->q.data, j.dtype = a->q.dtype;
    j.keys = a->keys, j.rows = a->rows, j.turn = a->turn_back, j.n_heads = a->n_heads, j.scale = a->scale;
    if (a->turn_back) j.rotation = *a->rotation;
    j.heads_per_key = a->n_heads / a->keys.n_heads;
    j.n_problems = by_head ? a->n_heads : a->keys.n_heads;
    j.group = a->n_heads / j.n_problems;
    j.n_lists = listed ? a->n_lists : 1;
    int64_t blocks = ceil_div(a->n, PLACES);
    if (a->keys.head_dim > MAX_D || !is_float(a->q.dtype) || j.n_problems > 65535 || blocks > INT32_MAX)
        return SAC_UNSUPPORTED;
    dim3 grid((unsigned)blocks, (unsigned)j.n_problems);
    return launch(s, early({grid, THREADS}), places_kernel, j);
}

extern "C" sac_status sac_cuda_packed_scores(const sac_stream *s, const sac_packed_scores_args *a) {
    if (a->n > 0) {
        sac_status st = four_bits::scores(s, a);
        if (st != SAC_UNSUPPORTED) return st;
        SAC_TRY(run_places(s, a));
    }
    if (!a->lse) return SAC_OK;
    sac_softmax_args sums = {};
    sums.scores = a->scores, sums.stride = a->stride, sums.n = a->n, sums.n_rows = a->n_heads;
    sums.lse = a->lse, sums.skip = a->skip;
    return sac_cuda_softmax(s, &sums);
}

} // namespace sac::packed
