/* uniform: a video keeps every so manieth of its visual tokens, whatever it shows: what the other reducers are compared with.
 *
 * Of n cells, in the order of time, rows and columns, the k that stay are floor((i + 1/2) n / k). */
#include "reduce.h"

enum { RATE };

static const sac_method_param params[] = {
    [RATE] = {"rate", 0.25, 0.001, 1, "share of a video's visual tokens that stay", NULL}, {0}};

static bool is_off(const double *p) {
    return p[RATE] >= 1;
}

static int64_t count(const double *p, const sac_reduce_video *v) {
    int64_t n = (int64_t)((double)(v->n_tiles * v->cells) * p[RATE]);
    return n > 0 ? n : 1;
}

static size_t state_bytes(const double *p, const sac_reduce_video *v) {
    (void)p, (void)v;
    return 1;
}

static bool choose(const sac_reduce_run *run, const double *p, const sac_reduce_video *v, void *state,
                   int64_t n_seen, sac_mat rows, int32_t *kept, int64_t n_kept) {
    (void)run, (void)p, (void)state, (void)rows;
    const int64_t n = n_seen * v->cells;
    for (int64_t i = 0; i < n_kept; i++) kept[i] = (int32_t)((2 * i + 1) * n / (2 * n_kept));
    return true;
}

const sac_reducer sac_reducer_uniform = {
    .name = "uniform",
    .source = "a baseline",
    .params = params,
    .is_off = is_off,
    .count_video = count,
    .needs_all = true, /* what it keeps of some tiles depends on how many there are */
    .state_bytes = state_bytes,
    .choose_video = choose,
};
