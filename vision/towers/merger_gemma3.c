/* merger_gemma3.c - Gemma 3's projector (arXiv:2503.19786, sec. 2): the norm behind the tower, the mean of each square of
 * features, an RMS norm, one product. */
#include "merger.h"

#include <assert.h>
#include <string.h>

typedef struct weights {
    const float *norm_w, *norm_b; /* [in] */
    const float *soft_norm;       /* [in] */
    sac_weight fc;                /* [out][in] */
} weights;

/* Features of a square stand behind one another (clip.h). */
static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const weights *w = m->weights;
    const sac_mat x = r->features;
    const int64_t n = x.rows / m->joins;
    sac_mat mean = {r->mid.data, n, m->in, m->in, r->mid.dtype};
    assert(x.cols == m->in && x.stride == m->in && x.rows % m->joins == 0 && r->pool <= 1 && !r->blend.n);
    int side = 1;
    while (side * side < m->joins) side++;
    SAC_TRY(r->ops->layernorm(r->stream, &(sac_layernorm_args){x, x, w->norm_w, w->norm_b, m->norm_eps}));
    SAC_TRY(r->ops->pool_tokens(
        r->stream,
        &(sac_pool_tokens_args){.y = mean, .x = x, .n_tiles = n, .h = side, .w = side, .stride = side}));
    SAC_TRY(r->ops->rmsnorm(r->stream, &(sac_rmsnorm_args){mean, mean, w->soft_norm, m->norm_eps}));
    return r->ops->linear(r->stream, &(sac_linear_args){.y = r->y, .x = mean, .w = w->fc, .fast = r->fast});
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    out[0] = (sac_shape_symbol){"p_in", m->in};
    return 1;
}

static sac_status place(sac_merger *m, sac_placer *p) {
    weights *w = m->weights;
    SAC_TRY(sac_place_vector(p, &w->norm_w, m->in));
    SAC_TRY(sac_place_vector(p, &w->norm_b, m->in));
    SAC_TRY(sac_place_vector(p, &w->soft_norm, m->in));
    return sac_place_weight(p, &w->fc);
}

static const sac_weight_slot slots[] = {
    {"projector.norm_w", false, false, offsetof(weights, norm_w)},
    {"projector.norm_b", false, false, offsetof(weights, norm_b)},
    {"projector.soft_norm", false, false, offsetof(weights, soft_norm)},
    {"projector.fc", false, true, offsetof(weights, fc)},
};

const sac_merger_kind sac_merger_gemma3 = {
    .name = "gemma3",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(weights),
    .joins_squares = true,
    .pools = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
