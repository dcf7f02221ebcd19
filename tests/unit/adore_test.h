/* adore_test.h - controllers with drawn weights, for tests of ADORE. */
#ifndef SAC_ADORE_TEST_H
#define SAC_ADORE_TEST_H

#include "controller.h"
#include "test.h"

enum { MAX_HIDDEN = 400, MAX_STATE = 16 };

typedef struct weights {
    int input, hidden;
    float input_gates[3 * MAX_STATE * MAX_HIDDEN], state_gates[3 * MAX_STATE * MAX_STATE];
    float input_bias[3 * MAX_STATE], state_bias[3 * MAX_STATE];
    float position[MAX_STATE], position_bias[MAX_STATE];
    float inner[MAX_STATE * MAX_STATE], inner_bias[MAX_STATE], outer[MAX_STATE], outer_bias[1];
    sac_controller c;
} weights;

static inline void fill(float *w, int n, float scale, uint64_t *random) {
    for (int i = 0; i < n; i++) w[i] = scale * test_rand_float(random);
}

static inline sac_weight matrix(const float *w, int rows, int cols) {
    return sac_weight_of(
        (sac_tensor){.data = w, .dtype = SAC_DTYPE_F32, .n_dims = 2, .dim = {rows, cols, 0, 0}});
}

static inline void random_weights(weights *w, int input, int hidden, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->input = input;
    w->hidden = hidden;
    fill(w->input_gates, 3 * hidden * input, 0.1f, &seed);
    fill(w->state_gates, 3 * hidden * hidden, 0.7f, &seed);
    fill(w->input_bias, 3 * hidden, 0.3f, &seed);
    fill(w->state_bias, 3 * hidden, 0.3f, &seed);
    fill(w->position, hidden, 1.5f, &seed);
    fill(w->position_bias, hidden, 0.3f, &seed);
    fill(w->inner, hidden * hidden, 0.7f, &seed);
    fill(w->inner_bias, hidden, 0.3f, &seed);
    fill(w->outer, hidden, 2, &seed);
    fill(w->outer_bias, 1, 1, &seed);
    w->c = (sac_controller){.input = input,
                            .hidden = hidden,
                            .input_gates = matrix(w->input_gates, 3 * hidden, input),
                            .state_gates = matrix(w->state_gates, 3 * hidden, hidden),
                            .input_bias = w->input_bias,
                            .state_bias = w->state_bias,
                            .position = w->position,
                            .position_bias = w->position_bias,
                            .inner = matrix(w->inner, hidden, hidden),
                            .outer = matrix(w->outer, 1, hidden),
                            .inner_bias = w->inner_bias,
                            .outer_bias = w->outer_bias};
}

#endif
