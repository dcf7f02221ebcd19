/* faults_states.c - faults of the ops that go down a sequence with a state. */
#include "faults.h"

#include <string.h>

/* Every part after the first begins where the first did. */
static sac_status conv_first_state(const sac_stream *s, const sac_causal_conv_args *a) {
    sac_causal_conv_args b = *a;
    sac_state_rows parts[CHECK_MAX_MANY];
    for (int i = 0; i < a->n_parts; i++) parts[i] = (sac_state_rows){a->parts[i].n, a->parts[0].state};
    b.parts = parts;
    return ref().causal_conv(s, &b);
}
/* Rows of a prompt without those before them. */
static sac_status conv_no_state(const sac_stream *s, const sac_causal_conv_args *a) {
    for (int i = 0; i < a->n_parts && a->width > 1; i++)
        memset(a->parts[i].state, 0, (size_t)(a->width - 1) * (size_t)a->x.cols * sizeof(float));
    return ref().causal_conv(s, a);
}
static sac_status conv_turned(const sac_stream *s, const sac_causal_conv_args *a) {
    float w[SAC_CONV_MOST * 1024];
    sac_causal_conv_args b = *a;
    const size_t row = (size_t)a->x.cols * sizeof(float);
    for (int j = 0; j < a->width; j++)
        memcpy(w + (a->width - 1 - j) * a->x.cols, a->w + j * a->x.cols, row);
    b.w = w;
    return ref().causal_conv(s, &b);
}

static sac_status delta_head_for_head(const sac_stream *s, const sac_delta_rule_args *a) { /* keys: h mod their heads */
    const int64_t dk = sac_delta_key_dim(a), dv = sac_delta_value_dim(a);
    int64_t row = 0;
    for (int p = 0; p < a->n_parts; row += a->parts[p++].n)
        for (int h = 0; h < a->n_heads; h++) {
            sac_state_rows part = {a->parts[p].n, a->parts[p].state + h * dk * dv};
            const int64_t key = h % a->n_key_heads * dk, value = h * dv;
            sac_delta_rule_args b = *a;
            sac_mat *mats[] = {&b.y, &b.v, &b.q, &b.k, &b.a, &b.b};
            const int64_t first[] = {value, value, key, key, h, h}, cols[] = {dv, dv, dk, dk, 1, 1};
            for (int m = 0; m < 6; m++) {
                *mats[m] = sac_mat_rows(*mats[m], row, part.n);
                mats[m]->data = (float *)mats[m]->data + first[m];
                mats[m]->cols = cols[m];
            }
            b.a_log += h, b.dt_bias += h;
            b.n_heads = b.n_key_heads = 1;
            b.parts = &part, b.n_parts = 1;
            ref().delta_rule(s, &b);
        }
    return SAC_OK;
}
static sac_status delta_no_gate(const sac_stream *s, const sac_delta_rule_args *a) {
    float never[1024];
    sac_delta_rule_args b = *a;
    for (int h = 0; h < a->n_heads; h++) never[h] = -100;
    b.a_log = never;
    return ref().delta_rule(s, &b);
}
static sac_status delta_no_bias(const sac_stream *s, const sac_delta_rule_args *a) {
    static const float none[1024];
    sac_delta_rule_args b = *a;
    b.dt_bias = none;
    return ref().delta_rule(s, &b);
}
static sac_status delta_gates_exchanged(const sac_stream *s, const sac_delta_rule_args *a) {
    sac_delta_rule_args b = *a;
    b.a = a->b, b.b = a->a;
    return ref().delta_rule(s, &b);
}
/* What a chunk leaves is forgotten by the next. */
static sac_status delta_keeps_state(const sac_stream *s, const sac_delta_rule_args *a) {
    const size_t n = (size_t)(a->n_heads * sac_delta_key_dim(a) * sac_delta_value_dim(a));
    float first[4096];
    if (n > SAC_COUNT(first)) return ref().delta_rule(s, a);
    memcpy(first, a->parts[0].state, n * sizeof(float));
    sac_status st = ref().delta_rule(s, a);
    memcpy(a->parts[0].state, first, n * sizeof(float));
    return st;
}

#define FAULTS(X)                                                                                            \
    X("first_state", causal_conv, conv_first_state)                                                          \
    X("no_state", causal_conv, conv_no_state)                                                                \
    X("turned", causal_conv, conv_turned)                                                                    \
    X("head_for_head", delta_rule, delta_head_for_head)                                                      \
    X("no_gate", delta_rule, delta_no_gate)                                                                  \
    X("no_bias", delta_rule, delta_no_bias)                                                                  \
    X("gates_exchanged", delta_rule, delta_gates_exchanged)                                                  \
    X("keeps_state", delta_rule, delta_keeps_state)

FAULT_LIST(check_faults_states, FAULTS)
