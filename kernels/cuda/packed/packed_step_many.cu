/* packed_step_many.cu - steps over packed rows and plain tails of several sequences, in one launch where
 * their parts fit. */
#include "packed_step.cuh"

namespace sac::packed::step {

/* Parts that have rows. */
static int n_parts(const sac_packed_step_args *a) {
    int n = 0;
    for (int i = 0; i < a->n_parts; i++) n += a->parts[i].n > 0;
    return n;
}

/* Whether scratch is enough for any launch: nothing is started before that is known. As in plan: waves of
 * blocks, or a block or more for each sequence and what its parts and its tail ask for. */
template <int D> static bool surely_fits(const sac_stream *s, const sac_packed_step_many_args *a, int warps) {
    int64_t problems = a->each->tail.n_heads * ceil_div(a->each->n_heads / a->each->tail.n_heads, HEADS);
    int64_t launches = 1, tail = 0;
    size_t n_bytes;
    scratch_rest(s, &n_bytes);
    for (int i = 0; i < a->n; i++) {
        int n = n_parts(&a->each[i]);
        if (n == 0 && a->each[i].tail.n_rows == 0) return false; /* no rows at all */
        if (n > step_many::MAX_PARTS) launches = max_of(launches, ceil_div(n, step_one::MAX_PARTS));
        tail = max_of(tail, ceil_div(a->each[i].tail.n_rows, STEP_TAIL));
    }
    const int64_t most = step_many::MAX_SEQUENCES;
    int64_t warped = problems * (2 * most + (step_many::MAX_PARTS + most * tail) / warps);
    int64_t blocks = launches * (4 * s->device->n_processors + warped);
    return blocks * HEADS * (D + 2) * (int64_t)sizeof(float) <= (int64_t)n_bytes &&
           join_bytes<D>(blocks / problems) <= warps * step_warp_bytes<D>() &&
           most * problems * sizeof(unsigned) <= SCRATCH_COUNTER_BYTES;
}

template <typename T, int D> static sac_status run(const sac_stream *s, const sac_packed_step_many_args *a) {
    int warps = fitting_warps<D>(s->device);
    if (!warps) return SAC_DEVICE;
    if (!surely_fits<D>(s, a, warps)) return SAC_UNSUPPORTED;
    for (int i = 0; i < a->n;) {
        step_many j = {};
        int64_t problems = describe(&j, a->each);
        for (; i < a->n && j.n < step_many::MAX_SEQUENCES; i++) {
            int at = 0;
            if (j.n_parts + n_parts(&a->each[i]) > step_many::MAX_PARTS) break;
            take_parts(&a->each[i], &at, &j, &j.sequence[j.n++]);
        }
        if (j.n == 0) {
            SAC_TRY(sac_cuda_packed_step_mma(s, &a->each[i++]));
            continue;
        }
        int blocks = plan(s, &j, problems, warps);
        for (int q = 0; q < j.n; q++) j.sequence[q].n_splits = j.sequence[q].n_blocks;
        j.joins = true;
        if (!take_scratch<D>(s, &j, problems, warps * step_warp_bytes<D>())) return SAC_INTERNAL;
        SAC_TRY((start<T, D>(s, j, blocks, warps)));
    }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_packed_step_many(const sac_stream *s, const sac_packed_step_many_args *a) {
    for (int i = 0; i < a->n; i++) {
        const sac_packed_step_args *e = &a->each[i], *f = &a->each[0];
        if (!is_known(e) || e->q.dtype != f->q.dtype || e->n_heads != f->n_heads ||
            e->tail.n_heads != f->tail.n_heads || e->tail.head_dim != f->tail.head_dim ||
            e->scale != f->scale)
            return SAC_UNSUPPORTED;
    }
    if (!a->n) return SAC_OK;
    int d = a->each->tail.head_dim;
    if (a->each->q.dtype == SAC_DTYPE_BF16) return d == 64 ? run<bf16, 64>(s, a) : run<bf16, 128>(s, a);
    return d == 64 ? run<half, 64>(s, a) : run<half, 128>(s, a);
}

} // namespace sac::packed::step
