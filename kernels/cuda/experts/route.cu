/* route.cu - which experts see which rows. A warp chooses a row's experts; then a block for each expert lines up the
 * rows that chose it, in their own order, so that nothing depends on which block is faster. Between the two, the
 * experts' numbers are in the stream's scratch. */
#include "context.cuh"

namespace sac::experts {

enum { CHOOSE_WARPS = 4, LINE_UP_WARPS = 8, NOBODY = 0x7fffffff };

/* Whether expert i with score a is chosen before expert j with score b. */
__device__ __forceinline__ bool goes_before(float a, int i, float b, int j) {
    const bool a_is_nan = isnan(a), b_is_nan = isnan(b);
    if (a_is_nan != b_is_nan) return b_is_nan;
    return a == b || a_is_nan ? i < j : a > b;
}

/* The best that this warp has not taken: lane l has experts l, l + 32 and so on, a bit of `taken` each. */
__device__ __forceinline__ void best_left(const float *scores, int n, uint32_t taken, float &score,
                                          int &expert) {
    const int lane = threadIdx.x % 32;
    score = CUDART_NAN_F, expert = NOBODY;
    for (int e = lane, i = 0; e < n; e += 32, i++)
        if (!(taken >> i & 1) && goes_before(scores[e], e, score, expert)) score = scores[e], expert = e;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, score, i);
        const int whose = __shfl_xor_sync(0xffffffffu, expert, i);
        if (goes_before(other, whose, score, expert)) score = other, expert = whose;
    }
}

/* How a row's experts are chosen and weighed (op_route.h). */
struct rule {
    int n_used;
    bool normed;
    const float *bias;
    int n_groups, n_groups_used; /* 0: no groups */
    float factor;
};

/* In f64, so that its f32 is the reference's: who is chosen has to be the same. */
__device__ __forceinline__ float sigmoid(float x) {
    return (float)(1 / (1 + exp(-(double)x)));
}

/* What the two best experts of a group add up to. */
__device__ __forceinline__ float best_two(const float *by, int first, int n) {
    int best = first, second = NOBODY;
    for (int e = first + 1; e < first + n; e++) {
        if (goes_before(by[e], e, by[best], best))
            second = best, best = e;
        else if (second == NOBODY || goes_before(by[e], e, by[second], second))
            second = e;
    }
    return by[best] + by[second];
}

/* Bits, as of best_left, of this lane's experts that are in no chosen group. */
__device__ __forceinline__ uint32_t out_of_groups(const float *by, int n, const rule &r, float *groups) {
    const int lane = threadIdx.x % 32, n_each = n / r.n_groups;
    uint32_t taken = 0, out = 0;
    for (int g = lane; g < r.n_groups; g += 32) groups[g] = best_two(by, g * n_each, n_each);
    __syncwarp();
    for (int i = 0; i < r.n_groups_used; i++) {
        float score;
        int group;
        best_left(groups, r.n_groups, taken, score, group);
        if (group % 32 == lane) taken |= 1u << group / 32;
    }
    __syncwarp();
    for (int g = lane, i = 0; g < r.n_groups; g += 32, i++) groups[g] = taken >> i & 1;
    __syncwarp();
    for (int e = lane, i = 0; e < n; e += 32, i++)
        if (groups[e / n_each] == 0) out |= 1u << i;
    return out;
}

template <bool SIGMOID>
static __global__ void choose_kernel(const float *scores, int64_t rows, int64_t stride, int n, rule r,
                                     float *weights, int32_t *chosen) {
    __shared__ float all_by[CHOOSE_WARPS][SIGMOID ? SAC_ROUTE_MOST_EXPERTS : 1];
    __shared__ float all_groups[CHOOSE_WARPS][SIGMOID ? SAC_ROUTE_MOST_EXPERTS / 2 : 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t row = (int64_t)blockIdx.x * CHOOSE_WARPS + warp;
    start_next();
    wait_for_last();
    if (row >= rows) return;
    scores += row * stride, weights += row * r.n_used, chosen += row * r.n_used;
    const float *by = scores;
    uint32_t taken = 0;
    float top = 0, sum = 0;
    if constexpr (SIGMOID) {
        for (int e = lane; e < n; e += 32) all_by[warp][e] = sigmoid(scores[e]) + (r.bias ? r.bias[e] : 0.0f);
        by = all_by[warp];
        __syncwarp();
        if (r.n_groups) taken = out_of_groups(by, n, r, all_groups[warp]);
    }
    for (int j = 0; j < r.n_used; j++) {
        float score;
        int expert;
        best_left(by, n, taken, score, expert);
        if (j == 0) top = score;
        if (expert % 32 == lane) taken |= 1u << expert / 32;
        if (lane == 0) chosen[j] = expert;
    }
    __syncwarp();
    if constexpr (SIGMOID) {
        for (int j = lane; j < r.n_used; j += 32) sum += sigmoid(scores[chosen[j]]);
        const float factor = r.factor != 0 ? r.factor : 1.0f;
        sum = r.normed ? warp_sum(sum) + 1e-20f : 1.0f;
        for (int j = lane; j < r.n_used; j += 32) weights[j] = sigmoid(scores[chosen[j]]) / sum * factor;
    } else {
        for (int e = lane, i = 0; e < n; e += 32, i++)
            if (!r.normed || (taken >> i & 1)) sum += expf(scores[e] - top);
        sum = warp_sum(sum);
        for (int j = lane; j < r.n_used; j += 32) weights[j] = expf(scores[chosen[j]] - top) / sum;
    }
}

struct line {
    int32_t *place, *source, *expert, *starts;
};

static __global__ void line_up_kernel(const int32_t *chosen, int n, int n_used, line to) {
    __shared__ int part[33];
    const int e = (int)blockIdx.x, tid = (int)threadIdx.x;
    start_next();
    wait_for_last();
    int below = 0, total;
    for (int i = tid; i < n; i += LINE_UP_WARPS * 32) below += chosen[i] < e;
    int at = block_sum_of<LINE_UP_WARPS>(below, part);
    if (tid == 0) to.starts[e] = at;
    for (int first = 0; first < n; first += LINE_UP_WARPS * 32) {
        const int i = first + tid;
        const bool is_mine = i < n && chosen[i] == e;
        const int to_row = at + block_sum_before(is_mine, &total, part);
        if (is_mine) to.place[i] = to_row, to.source[to_row] = i / n_used, to.expert[to_row] = e;
        at += total;
    }
    if (tid == 0 && e + 1 == (int)gridDim.x) to.starts[e + 1] = at;
}

extern "C" sac_status sac_cuda_route(const sac_stream *s, const sac_route_args *a) {
    const int64_t rows = a->scores.rows, n = rows * a->n_used;
    size_t n_bytes;
    int32_t *chosen = (int32_t *)scratch_rest(s, &n_bytes);
    if (a->scores.dtype != SAC_DTYPE_F32 || a->scores.cols > SAC_ROUTE_MOST_EXPERTS || n > 1 << 30 ||
        (size_t)n * sizeof *chosen > n_bytes)
        return SAC_UNSUPPORTED;
    const launch_plan choose = {(unsigned)max_of(1, ceil_div(rows, CHOOSE_WARPS)), CHOOSE_WARPS * 32},
                      line_up = {(unsigned)a->scores.cols, LINE_UP_WARPS * 32};
    const rule r = {a->n_used,        a->normed, a->bias, a->n_groups > 1 ? a->n_groups : 0,
                    a->n_groups_used, a->factor};
    SAC_TRY(launch(s, early(choose), a->sigmoid ? choose_kernel<true> : choose_kernel<false>,
                   (const float *)a->scores.data, rows, a->scores.stride, (int)a->scores.cols, r, a->weights,
                   chosen));
    return launch(s, early(line_up), line_up_kernel, (const int32_t *)chosen, (int)n, a->n_used,
                  line{a->place, a->source, a->expert, a->starts});
}

} // namespace sac::experts
