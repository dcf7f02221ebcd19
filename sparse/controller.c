#include "controller.h"

#include <math.h>

/* Room where ops run for the arrays that ops read, and the controller that points there. */
static void place(sac_controller_scratch *s, const sac_controller *c, const sac_memory *memory) {
    size_t hidden = (size_t)c->hidden, input = (size_t)c->input;
    const void *const from[] = {c->input_gates.tensor.data,
                                c->state_gates.tensor.data,
                                c->inner.tensor.data,
                                c->outer.tensor.data,
                                c->input_bias,
                                c->state_bias,
                                c->inner_bias,
                                c->outer_bias};
    const size_t n[] = {3 * hidden * input, 3 * hidden * hidden, hidden * hidden, hidden,
                        3 * hidden,         3 * hidden,          hidden,          1};
    for (int i = 0; i < SAC_CONTROLLER_ARRAYS; i++) {
        s->array_bytes[i] = n[i] * sizeof(float);
        s->array[i] = sac_take_copy(memory, from[i], s->array_bytes[i]);
    }
    s->placed = *c;
    s->placed.input_gates.tensor.data = s->array[0].device;
    s->placed.state_gates.tensor.data = s->array[1].device;
    s->placed.inner.tensor.data = s->array[2].device;
    s->placed.outer.tensor.data = s->array[3].device;
    s->placed.input_bias = s->array[4].device;
    s->placed.state_bias = s->array[5].device;
    s->placed.inner_bias = s->array[6].device;
    s->placed.outer_bias = s->array[7].device;
}

void sac_controller_scratch_take(sac_controller_scratch *s, const sac_controller *c, int64_t capacity,
                                 const sac_memory *memory) {
    size_t n = (size_t)capacity, hidden = (size_t)c->hidden;
    *s = (sac_controller_scratch){.capacity = capacity};
    s->gates = sac_take_both(memory, n * 3 * hidden * sizeof(float));
    s->state = sac_take_both(memory, 3 * hidden * sizeof(float));
    s->inner = sac_take_both(memory, n * hidden * sizeof(float));
    s->x = sac_take_device(memory, n * (size_t)c->input * sizeof(float));
    place(s, c, memory);
}

static sac_status send_arrays(sac_controller_scratch *s, const sac_stream *stream) {
    for (int i = 0; i < SAC_CONTROLLER_ARRAYS && !s->is_sent; i++)
        SAC_TRY(sac_buffer_send(stream->device, stream, s->array[i], s->array_bytes[i]));
    s->is_sent = true;
    return SAC_OK;
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

/* State number i from the one before it and the inputs' part of its gates. */
static sac_status follow_one(const sac_ops *ops, const sac_stream *stream, sac_buffer before,
                             const float *gates, sac_controller_scratch *s) {
    const sac_controller *c = &s->placed;
    const int n_gates = 3 * c->hidden;
    const sac_mat old = sac_mat_f32(before.device, 1, c->hidden);
    SAC_TRY(sac_buffer_send(stream->device, stream, before, (size_t)c->hidden * sizeof(float)));
    SAC_TRY(
        linear(ops, stream, sac_mat_f32(s->state.device, 1, n_gates), old, &c->state_gates, c->state_bias));
    SAC_TRY(sac_buffer_fetch(stream->device, stream, s->state, (size_t)n_gates * sizeof(float)));
    advance(c->hidden, gates, s->state.host, before.host, (float *)before.host + c->hidden);
    return SAC_OK;
}

/* The inputs' part of the gates is one product for many tokens; only the states' part is sequential. */
sac_status sac_controller_follow(const sac_ops *ops, const sac_stream *stream, sac_mat x, sac_buffer z,
                                 sac_controller_scratch *s) {
    const sac_controller *c = &s->placed;
    const int gates = 3 * c->hidden;
    size_t z_bytes = (size_t)c->hidden * sizeof(float);
    SAC_TRY(send_arrays(s, stream));
    for (int64_t first = 0; first < x.rows; first += s->capacity) {
        int64_t n = min_rows(x.rows - first, s->capacity);
        const sac_mat some = sac_mat_f32(s->x, n, c->input);
        SAC_TRY(ops->mean_rows(
            stream,
            &(sac_mean_rows_args){.y = s->x, .x = sac_mat_rows(x, first, n), .scale = 1, .n_groups = n}));
        SAC_TRY(linear(ops, stream, sac_mat_f32(s->gates.device, n, gates), some, &c->input_gates,
                       c->input_bias));
        SAC_TRY(sac_buffer_fetch(stream->device, stream, s->gates, (size_t)(n * gates) * sizeof(float)));
        for (int64_t i = 0; i < n; i++)
            SAC_TRY(follow_one(ops, stream, sac_buffer_from(z, (size_t)(first + i) * z_bytes),
                               (float *)s->gates.host + i * gates, s));
    }
    return SAC_OK;
}

/* z and its place, through the inner layer, in scratch; then the outer one. */
sac_status sac_controller_score(const sac_ops *ops, const sac_stream *stream, const float *z, int64_t n,
                                double first, double step, sac_buffer scores, sac_controller_scratch *s) {
    const sac_controller *c = &s->placed;
    const sac_device *d = stream->device;
    const int hidden = c->hidden;
    float *gates = s->gates.host, *tanhs = s->inner.host;
    SAC_TRY(send_arrays(s, stream));
    for (int64_t at = 0; at < n; at += s->capacity) {
        int64_t rows = min_rows(n - at, s->capacity);
        size_t n_bytes = (size_t)(rows * hidden) * sizeof(float);
        sac_buffer some = sac_buffer_from(scores, (size_t)at * sizeof(float));
        sac_mat placed = sac_mat_f32(s->gates.device, rows, hidden),
                inner = sac_mat_f32(s->inner.device, rows, hidden);
        for (int64_t i = 0; i < rows; i++)
            for (int k = 0; k < hidden; k++) {
                double p = (double)c->position[k] * (first + (double)(at + i) * step);
                gates[i * hidden + k] =
                    (float)(p + (double)c->position_bias[k] + (double)z[(at + i) * hidden + k]);
            }
        SAC_TRY(sac_buffer_send(d, stream, s->gates, n_bytes));
        SAC_TRY(linear(ops, stream, inner, placed, &c->inner, c->inner_bias));
        SAC_TRY(sac_buffer_fetch(d, stream, s->inner, n_bytes));
        for (int64_t i = 0; i < rows * hidden; i++) tanhs[i] = tanhf(tanhs[i]);
        SAC_TRY(sac_buffer_send(d, stream, s->inner, n_bytes));
        SAC_TRY(linear(ops, stream, sac_mat_f32(some.device, rows, 1), inner, &c->outer, c->outer_bias));
        SAC_TRY(sac_buffer_fetch(d, stream, some, (size_t)rows * sizeof(float)));
    }
    return SAC_OK;
}
