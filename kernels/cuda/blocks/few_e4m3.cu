/* few_e4m3.cu - 1 to 64 rows of x with FP8 weights as plain rows: x is normalised and rounded to codes in scratch, then few_e4m3.cuh. */
#include "few_e4m3_jobs.cuh"

namespace sac::blocks {

using namespace few_e4m3;

/* ---------------------------------------------------------------- launches */

template <int N, bool BY_UNITS, typename JOB>
static sac_status run(const sac_stream *s, const rows_of_x &of, input in, const JOB &job) {
    typedef places<N, BY_UNITS> P;
    auto chosen = kernel<N, BY_UNITS, JOB>;
    const int64_t m = of.x.rows, k = of.x.cols, all = (int64_t)in.n_tiles * in.steps, blocks = min_of(all, s->device->n_processors);
    const int most = block_shared_bytes(s->device) - LEFT_BYTES;
    in.m = (int)m, in.most = (int)ceil_div(all, blocks);
    in.stages = MOST_STAGES;
    while (in.stages > 2 && P::bytes(in.stages, in.units, in.most) + 1024 > most) in.stages--;
    const int64_t bytes = P::bytes(in.stages, in.units, in.most) + 1024;
    size_t room;
    uint8_t *at = scratch_rest(s, &room);
    const size_t code_bytes = (size_t)ceil_div(m * k, 256) * 256, scale_bytes = (size_t)ceil_div(4 * m * in.units, 256) * 256;
    if (all > INT32_MAX / MOST_BLOCKS || blocks > MOST_BLOCKS || bytes > most || (size_t)in.n_tiles * 4 > SCRATCH_COUNTER_BYTES ||
        code_bytes + scale_bytes + (size_t)blocks * (N * WORKERS * 4) > room)
        return SAC_UNSUPPORTED;
    bool has;
    SAC_TRY(has_code(chosen, &has));
    in.x_scales = (const float *)(at + code_bytes), in.parts = (float *)(at + code_bytes + scale_bytes);
    in.met = scratch_counters(s);
    if (!has || !map_codes(&in.x, at, k, m, k, N)) return SAC_UNSUPPORTED;
    SAC_TRY(round_to_e4m3(s, of.x, of.rounding, of.norm, of.eps, at, (float *)(at + code_bytes)));
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(THREADS), (size_t)bytes});
    p.shared_limit = most;
    return launch(s, p, chosen, in, job);
}
template <bool BY_UNITS, typename JOB>
static sac_status run_some(const sac_stream *s, const rows_of_x &of, const input &in, const JOB &job) {
    return of.x.rows <= 8    ? run<8, BY_UNITS>(s, of, in, job)
           : of.x.rows <= 16 ? run<16, BY_UNITS>(s, of, in, job)
           : of.x.rows <= 32 ? run<32, BY_UNITS>(s, of, in, job)
                             : run<64, BY_UNITS>(s, of, in, job);
}

sac_status product_e4m3_rows(const sac_stream *s, const product_job &j) {
    const rows_of_x of = {j.x, j.rounding, j.norm, j.eps};
    const bool by_units = j.rounding.how == SAC_X_FP8_GROUPS;
    if (!is_taken(s, of)) return SAC_UNSUPPORTED;
    input in = input_of(j.x.cols, by_units);
    matrix_scales scales[SAC_LINEAR_GROUP_MOST];
    product_boxes job = {j, {}};
    for (int i = 0; i < j.n_parts; i++) {
        const product_part &p = j.part[i];
        if (p.y.cols > 1 << 24 || !map_rows(&in, i, p.w, p.layout, p.y.cols)) return SAC_UNSUPPORTED;
        job.job.part[i].first_block = in.n_tiles;
        in.n_tiles += (int)ceil_div(p.y.cols, j.gated ? BOX_ROWS : TILE_ROWS);
        scales[i] = job.scale[i] = scales_of(p.w, p.layout, by_units);
    }
    if (!in.n_tiles) return SAC_OK;
    if (j.gated) {
        const gate_boxes gates = {j.part[0], {scales[0], scales[1]}};
        in.n_tiles /= 2;
        return by_units ? run_some<true>(s, of, in, gates) : run_some<false>(s, of, in, gates);
    }
    return by_units ? run_some<true>(s, of, in, job) : run_some<false>(s, of, in, job);
}

} // namespace sac::blocks
