/* packed_step.cu - a step over packed rows and a plain tail of one sequence, whose parts may go in launches
 * one after the other. */
#include "packed_step.cuh"

namespace sac::packed::step {

template <typename T, int D> static sac_status run(const sac_stream *s, const sac_packed_step_args *a) {
    int warps = fitting_warps<D>(s->device), all_splits = 0, done = 0;
    if (!warps) return SAC_DEVICE;
    for (int count = 1; count >= 0; count--) /* splits of all launches first */
        for (int at = 0, first = 1; first || at < a->n_parts; first = 0) {
            step_one j = {};
            int64_t problems = describe(&j, a);
            j.n = 1;
            take_parts(a, &at, &j, &j.sequence[0]);
            int blocks = plan(s, &j, problems, warps), n = j.sequence[0].n_blocks;
            if (j.sequence[0].n_warps == 0) return SAC_UNSUPPORTED; /* no rows at all */
            all_splits += count * n;
            if (count) continue;
            j.sequence[0].first_split = done, j.sequence[0].n_splits = all_splits;
            j.joins = at == a->n_parts;
            if (!take_scratch<D>(s, &j, problems, warps * step_warp_bytes<D>())) return SAC_UNSUPPORTED;
            SAC_TRY((start<T, D>(s, j, blocks, warps)));
            done += n;
        }
    return SAC_OK;
}

extern "C" sac_status sac_cuda_packed_step_mma(const sac_stream *s, const sac_packed_step_args *a) {
    if (!is_known(a)) return SAC_UNSUPPORTED;
    int d = a->tail.head_dim;
    if (a->q.dtype == SAC_DTYPE_BF16) return d == 64 ? run<bf16, 64>(s, a) : run<bf16, 128>(s, a);
    return d == 64 ? run<half, 64>(s, a) : run<half, 128>(s, a);
}

extern "C" sac_status sac_cuda_packed_step(const sac_stream *s, const sac_packed_step_args *a) {
    sac_status st = sac_cuda_packed_step_mma(s, a);
    return st == SAC_UNSUPPORTED ? sac_cuda_packed_step_any(s, a) : st;
}

} // namespace sac::packed::step
