#include "controller.h"

#include <math.h>

void sac_controller_scratch_take(sac_controller_scratch *s, const sac_controller *c, int64_t capacity,
                                 sac_arena *arena) {
    size_t n = (size_t)capacity, hidden = (size_t)c->hidden;
    s->capacity = capacity;
    s->gates = sac_arena_take(arena, n * 3 * hidden * sizeof(float));
    s->state = sac_arena_take(arena, 3 * hidden * sizeof(float));
    s->inner = sac_arena_take(arena, n * hidden * sizeof(float));
}

static sac_status linear(const sac_ops *ops, const sac_stream *stream, sac_mat y, sac_mat x,
                         const sac_weight *w, const float *bias) {
    return ops->linear(stream, &(sac_linear_args){.y = y, .x = x, .w = *w, .bias = bias});
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* One step: from_input and from_state are the three gates' products with their biases. */
static void advance(int hidden, const float *from_input, const float *from_state, const float *before,
                    float *z) {
    for (int i = 0; i < hidden; i++) {
        double r = sigmoid((double)from_input[i] + (double)from_state[i]);
        double u = sigmoid((double)from_input[hidden + i] + (double)from_state[hidden + i]);
        double c = tanh((double)from_input[2 * hidden + i] + r * (double)from_state[2 * hidden + i]);
        z[i] = (float)((1 - u) * c + u * (double)before[i]);
    }
}

static int64_t min_rows(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The inputs' part of the gates is one product for many tokens; only the states' part is sequential. */
sac_status sac_controller_follow(const sac_controller *c, const sac_ops *ops, const sac_stream *stream,
                                 sac_mat x, const float *before, float *z, sac_controller_scratch *s) {
    int gates = 3 * c->hidden;
    for (int64_t first = 0; first < x.rows; first += s->capacity) {
        int64_t n = min_rows(x.rows - first, s->capacity);
        SAC_TRY(linear(ops, stream, sac_mat_f32(s->gates, n, gates), sac_mat_rows(x, first, n),
                       &c->input_gates, c->input_bias));
        for (int64_t i = 0; i < n; i++) {
            float *now = z + (first + i) * c->hidden;
            sac_mat old = sac_mat_f32((float *)(uintptr_t)before, 1, c->hidden);
            SAC_TRY(
                linear(ops, stream, sac_mat_f32(s->state, 1, gates), old, &c->state_gates, c->state_bias));
            advance(c->hidden, s->gates + i * gates, s->state, before, now);
            before = now;
        }
    }
    return SAC_OK;
}

/* z and its place, through the inner layer, in scratch; then the outer one. */
sac_status sac_controller_score(const sac_controller *c, const sac_ops *ops, const sac_stream *stream,
                                const float *z, int64_t n, double first, double step, float *scores,
                                sac_controller_scratch *s) {
    int hidden = c->hidden;
    for (int64_t at = 0; at < n; at += s->capacity) {
        int64_t rows = min_rows(n - at, s->capacity);
        sac_mat placed = sac_mat_f32(s->gates, rows, hidden), inner = sac_mat_f32(s->inner, rows, hidden);
        for (int64_t i = 0; i < rows; i++)
            for (int k = 0; k < hidden; k++) {
                double p = (double)c->position[k] * (first + (double)(at + i) * step);
                s->gates[i * hidden + k] =
                    (float)(p + (double)c->position_bias[k] + (double)z[(at + i) * hidden + k]);
            }
        SAC_TRY(linear(ops, stream, inner, placed, &c->inner, c->inner_bias));
        for (int64_t i = 0; i < rows * hidden; i++) s->inner[i] = tanhf(s->inner[i]);
        SAC_TRY(linear(ops, stream, sac_mat_f32(scores + at, rows, 1), inner, &c->outer, c->outer_bias));
    }
    return SAC_OK;
}
