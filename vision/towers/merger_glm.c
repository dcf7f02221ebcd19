/* merger_glm.c - GLM-4.1V's merger (arXiv:2507.01006, sec. 2):
 *
 *   x = join(features of a square)        a convolution over the square
 *   x = gelu(norm(fc(x)))
 *   y = down(silu(gate(x)) * up(x)) */
#include "merger_glm.h"

#include <assert.h>
#include <string.h>

static const float NORM_EPS = 1e-5f; /* torch's LayerNorm */

/* Three matrices one behind another in r->mid, whose rows are out + 2 * room wide, room being at least width and out. */
static sac_mat part(const sac_merger_run *r, int i, int64_t cols) {
    const int64_t out = r->merger->out, room = (r->merger->hidden - out) / 2,
                  before = i ? out + (i - 1) * room : 0;
    uint8_t *data = r->mid.data;
    return (sac_mat){data + sac_dtype_row_bytes(r->mid.dtype, before * r->mid.rows), r->mid.rows, cols, cols,
                     r->mid.dtype};
}

static sac_status linear(const sac_merger_run *r, sac_mat y, sac_mat x, const sac_weight *w,
                         const float *bias) {
    return r->ops->linear(r->stream,
                          &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias, .fast = r->fast});
}

static sac_status run(const sac_merger_run *r) {
    const sac_merger *m = r->merger;
    const sac_merger_glm_weights *w = m->weights;
    const sac_mat f = r->features, x = part(r, 0, m->out), joined = part(r, 1, m->out),
                  gate = part(r, 1, m->width), up = part(r, 2, m->width);
    assert(f.cols == m->in && f.stride == m->in && f.rows == r->mid.rows * m->joins && r->mid.stride == m->hidden && r->pool <= 1 &&
           !r->blend.n);
    const int64_t cols = m->in * m->joins;
    SAC_TRY(linear(r, joined, (sac_mat){f.data, r->mid.rows, cols, cols, f.dtype}, &w->join, w->join_bias));
    SAC_TRY(linear(r, x, joined, &w->fc, NULL));
    SAC_TRY(r->ops->layernorm(r->stream, &(sac_layernorm_args){x, x, w->norm_w, w->norm_b, NORM_EPS}));
    SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){.y = x, .gate = x, .act = SAC_ACT_GELU}));
    SAC_TRY(linear(r, gate, x, &w->gate, NULL));
    SAC_TRY(linear(r, up, x, &w->up, NULL));
    SAC_TRY(r->ops->swiglu(r->stream, &(sac_swiglu_args){.y = gate, .gate = gate, .up = up}));
    return linear(r, r->y, gate, &w->down, NULL);
}

static int symbols(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]) {
    out[0] = (sac_shape_symbol){"p_width", m->width};
    return 1;
}

static sac_status place(sac_merger *m, sac_placer *p) {
    sac_merger_glm_weights *w = m->weights;
    sac_weight *matrices[] = {&w->join, &w->fc, &w->gate, &w->up, &w->down};
    const float **vectors[] = {&w->join_bias, &w->norm_w, &w->norm_b};
    for (size_t i = 0; i < SAC_COUNT(matrices); i++) SAC_TRY(sac_place_weight(p, matrices[i]));
    for (size_t i = 0; i < SAC_COUNT(vectors); i++) SAC_TRY(sac_place_vector(p, vectors[i], m->out));
    return SAC_OK;
}

#define SLOT(field, matrix)                                                                                  \
    { "projector." #field, false, matrix, offsetof(sac_merger_glm_weights, field) }
static const sac_weight_slot slots[] = {
    SLOT(join, true),    SLOT(join_bias, false), SLOT(fc, true), SLOT(norm_w, false),
    SLOT(norm_b, false), SLOT(gate, true),       SLOT(up, true), SLOT(down, true),
};
#undef SLOT

const sac_merger_kind sac_merger_glm = {
    .name = "glm",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_merger_glm_weights),
    .joins_squares = true,
    .symbols = symbols,
    .place = place,
    .run = run,
};
