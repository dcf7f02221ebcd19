/* weigh_scores.cu - what all scores of a row weigh, and a token drawn by its weight, in the very operations of score_weight.h and in
 * their order. Sixteen lanes share a stretch, whose sums they add one after the other. The block that comes last adds those of the
 * stretches up: an order is an order, so one thread does it, and it makes the running sums of the draw beside the total, for two
 * chains take as long as one. All threads then look where the target is passed, and so again within that stretch. */
#include "context.cuh"
#include "numbers.cuh"
#include "reduce.cuh"
#include "shapes.cuh"

namespace sac::select {

enum {
    WEIGH_THREADS = 256,
    LANES = 16, /* SAC_WEIGHT_LANES, */
    STRETCH = 256, /* and SAC_WEIGHT_STRETCH */
    TEAMS = WEIGH_THREADS / LANES,
    WEIGH_MOST = 256, /* blocks of a row */
    AT_HAND = 2048    /* masses in shared memory */
};
static_assert(WEIGH_THREADS == STRETCH, "a thread a score of the token's stretch");

typedef struct weigh_job {
    sac_weigh_scores_args a;
    double *masses; /* [row][stretch] */
    unsigned *counters;
    int n_stretches;
} weigh_job;

__device__ __forceinline__ float exp_of(float x) {
    const float shift = 0x1.8p23f;
    const float k = __fadd_rn(__fmul_rn(x, 0x1.715476p0f), shift), n = __fsub_rn(k, shift);
    const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0x1.62e4p-1f)),
                              __fmul_rn(n, 0x1.7f7d1cp-20f));
    float y = 1.0f / 5040;
    y = __fadd_rn(__fmul_rn(y, r), 1.0f / 720);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f / 120);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f / 24);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f / 6);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f / 2);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f);
    y = __fadd_rn(__fmul_rn(y, r), 1.0f);
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(k) << 23));
}

__device__ __forceinline__ float weight_of(float2 w, float score) {
    const float x = __fmul_rn(__fsub_rn(score, w.x), w.y);
    return exp_of(x > -87.0f ? x : -87.0f);
}

/* Of a stretch, by the lanes of a team; every one of them has it. */
__device__ __forceinline__ double mass_of(float2 w, const float *x, int few) {
    const int lane = threadIdx.x % LANES, whole = few / LANES * LANES;
    const unsigned team = 0xffffu << (threadIdx.x & 16);
    float of_lane = 0, rest = 0;
    if (few == STRETCH) {
        float kept[STRETCH / LANES];
#pragma unroll
        for (int i = 0; i < STRETCH / LANES; i++) kept[i] = x[i * LANES + lane];
#pragma unroll
        for (int i = 0; i < STRETCH / LANES; i++) of_lane = __fadd_rn(of_lane, weight_of(w, kept[i]));
    } else {
        for (int i = lane; i < whole; i += LANES) of_lane = __fadd_rn(of_lane, weight_of(w, x[i]));
        for (int i = whole; i < few; i++) rest = __fadd_rn(rest, weight_of(w, x[i]));
    }
    double sum = 0;
#pragma unroll
    for (int j = 0; j < LANES; j++) sum = __dadd_rn(sum, (double)__shfl_sync(team, of_lane, j, LANES));
    return __dadd_rn(sum, (double)rest);
}

enum { AHEAD = 8 }; /* numbers that are read before they are added */

typedef struct weigh_shared {
    double masses[AT_HAND + 2 * AHEAD], sums[AT_HAND + 2 * AHEAD], total, target, sum;
    float2 w;
    float weights[STRETCH];
    int first; /* place that was looked for */
    int64_t id; /* the token, or -1 */
    bool is_last;
} weigh_shared;

/* Masses [first, ..) that fit, as they are and as the draw adds them; zeros behind. How far they go. */
__device__ __forceinline__ int bring_masses(weigh_shared &m, const double *masses, int first, int n) {
    const int end = min(first + AT_HAND, n);
    __syncthreads();
    for (int i = first + threadIdx.x; i < end + 2 * AHEAD; i += WEIGH_THREADS) {
        const double mass = i < end ? __ldcg(&masses[i]) : 0;
        m.masses[i - first] = mass;
        m.sums[i - first] = (double)__double2float_rn(mass);
    }
    __syncthreads();
    return end;
}

/* By one thread: sums[i] becomes the sum of it and those before, from `sum` on; to *total what masses[0 .. n) are. */
__device__ __forceinline__ void run_up(double *sums, const double *masses, int n, double sum, double *total) {
    double a[AHEAD], b[AHEAD], next_a[AHEAD], next_b[AHEAD], all = *total;
#pragma unroll
    for (int k = 0; k < AHEAD; k++) next_a[k] = masses[k], next_b[k] = sums[k];
    for (int i = 0; i < n; i += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            a[k] = next_a[k], b[k] = next_b[k];
            next_a[k] = masses[i + AHEAD + k], next_b[k] = sums[i + AHEAD + k];
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            all = __dadd_rn(all, a[k]);
            b[k] = sum = __dadd_rn(sum, b[k]);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) sums[i + k] = b[k];
    }
    *total = all;
}

/* By all: the first of n rising sums that is above the target, or n. */
__device__ __forceinline__ int first_above(weigh_shared &m, int n) {
    if (threadIdx.x == 0) m.first = n;
    __syncthreads();
    int mine = n;
    for (int i = threadIdx.x; i < n && mine == n; i += WEIGH_THREADS)
        if (!(m.sums[i] <= m.target)) mine = i;
    if (mine < n) atomicMin(&m.first, mine);
    __syncthreads();
    return m.first;
}

/* From stretch j on, behind which the sum is m.sum, to m.id: one by one, where rounding had a stretch not pass what its mass does, or
 * there are more than fit. */
__device__ __noinline__ void draw_slowly(weigh_shared &m, const double *masses, int j, int n_stretches, const float *x, int64_t n) {
    for (; j < n_stretches; j++) {
        __syncthreads();
        const double with = __dadd_rn(m.sum, (double)__double2float_rn(__ldcg(&masses[j])));
        __syncthreads();
        if (with <= m.target) {
            if (threadIdx.x == 0) m.sum = with;
            continue;
        }
        const int few = (int)min((int64_t)STRETCH, n - (int64_t)j * STRETCH);
        if (threadIdx.x < few) m.weights[threadIdx.x] = weight_of(m.w, x[(int64_t)j * STRETCH + threadIdx.x]);
        __syncthreads();
        for (int i = 0; i < few && threadIdx.x == 0 && m.id < 0; i++) {
            m.sum = __dadd_rn(m.sum, (double)m.weights[i]);
            if (m.sum > m.target) m.id = (int64_t)j * STRETCH + i;
        }
        __syncthreads();
        if (m.id >= 0) return;
    }
    if (threadIdx.x == 0) m.id = n;
}

/* The running sums of all stretches are in m.sums. To m.id: n where rounding leaves none. */
__device__ __forceinline__ void draw(weigh_shared &m, const double *masses, int n_stretches, const float *x, int64_t n) {
    const int j = first_above(m, n_stretches);
    if (threadIdx.x == 0) m.id = j < n_stretches ? -1 : n;
    if (j == n_stretches) return;
    const int few = (int)min((int64_t)STRETCH, n - (int64_t)j * STRETCH);
    const double before = j > 0 ? m.sums[j - 1] : 0;
    __syncthreads(); /* all have it */
    for (int i = threadIdx.x; i < STRETCH + 2 * AHEAD; i += WEIGH_THREADS)
        m.masses[i] = m.sums[i] = i < few ? (double)weight_of(m.w, x[(int64_t)j * STRETCH + i]) : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        double unused = 0;
        run_up(m.sums, m.masses, few, before, &unused);
        m.sum = m.sums[few - 1];
    }
    __syncthreads();
    const int i = first_above(m, few);
    if (i == few)
        draw_slowly(m, masses, j + 1, n_stretches, x, n);
    else if (threadIdx.x == 0)
        m.id = (int64_t)j * STRETCH + i;
}

static __global__ void __launch_bounds__(WEIGH_THREADS) weigh_scores_kernel(const __grid_constant__ weigh_job job) {
    __shared__ weigh_shared m;
    const sac_weigh_scores_args &a = job.a;
    start_next();
    wait_for_last();
    const int row = blockIdx.y, tid = threadIdx.x;
    const float *x = a.x + row * a.stride;
    double *masses = job.masses + (int64_t)row * job.n_stretches;
    if (tid == 0) m.w = make_float2(a.best[row], a.scale[row]);
    __syncthreads();
    const float2 w = m.w;
    if (w.y == 0) return;
    for (int j = blockIdx.x * TEAMS + tid / LANES; j < job.n_stretches; j += gridDim.x * TEAMS) {
        const double mass = mass_of(w, x + (int64_t)j * STRETCH, (int)min((int64_t)STRETCH, a.n - (int64_t)j * STRETCH));
        if (tid % LANES == 0) masses[j] = mass;
    }
    __threadfence();
    __syncthreads();
    if (tid == 0) m.is_last = count_in(&job.counters[row], gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (!m.is_last) return;
    for (int first = 0; first < job.n_stretches; first += AT_HAND) {
        const int end = bring_masses(m, masses, first, job.n_stretches);
        if (tid > 0) continue;
        if (first == 0) m.total = 0;
        run_up(m.sums, m.masses, end - first, 0, &m.total);
    }
    if (tid == 0) {
        m.sum = 0, m.id = -1;
        m.target = __dmul_rn(a.u[row], m.total);
    }
    __syncthreads();
    if (m.target >= 0) { /* and is a number */
        if (job.n_stretches <= AT_HAND)
            draw(m, masses, job.n_stretches, x, a.n);
        else
            draw_slowly(m, masses, 0, job.n_stretches, x, a.n);
    }
    if (tid > 0) return;
    const int64_t id = m.id;
    a.total[row] = m.total;
    a.at[row] = (int32_t)id;
    a.value[row] = id >= 0 && id < a.n ? x[id] : 0.0f;
}

extern "C" sac_status sac_cuda_weigh_scores(const sac_stream *s, const sac_weigh_scores_args *a) {
    if (a->n_rows > 65535) return SAC_UNSUPPORTED;
    size_t n_bytes;
    double *masses = (double *)scratch_rest(s, &n_bytes);
    const int64_t n_stretches = ceil_div(a->n, STRETCH), blocks = min_of(ceil_div(n_stretches, TEAMS), WEIGH_MOST);
    const int64_t room = min_of((int64_t)(n_bytes / sizeof *masses) / n_stretches, (int64_t)(SCRATCH_COUNTER_BYTES / sizeof(unsigned)));
    if (room == 0) return SAC_UNSUPPORTED;
    for (int64_t row = 0; row < a->n_rows; row += room) {
        weigh_job j = {*a, masses, scratch_counters(s), (int)n_stretches};
        j.a.x += row * a->stride;
        j.a.best += row, j.a.scale += row, j.a.u += row, j.a.total += row, j.a.at += row, j.a.value += row;
        const int64_t n = min_of(room, a->n_rows - row);
        SAC_TRY(launch(s, of_step({dim3((unsigned)blocks, (unsigned)n), WEIGH_THREADS}), weigh_scores_kernel, j));
    }
    return SAC_OK;
}

} // namespace sac::select
