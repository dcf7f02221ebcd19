/* SnapKV: a prompt keeps the rows that its last queries look at.
 *
 * Source: Li et al., arXiv:2404.14469, section 4, and its published code. The last `window` queries of a
 * prompt observe it: the softmax weights that they give to the keys before the window are summed over these
 * queries, smoothed over `kernel` neighbouring keys, and the best cap - window rows stay together with the
 * window's own. The prompt's own attention is dense; later tokens append, at their true positions.
 *
 * Ours: the published code repeats keys and values for every query head and chooses for each, so that a model
 * with grouped heads stores its cache g times. Here the weights of a group are summed before pooling and each
 * key-value head keeps one set. per_head=1 chooses as the code does, for accuracy tables: rows are then read
 * by query head and none is dropped. A later prompt of the same conversation is observed by its own last
 * queries, over the rows that are left and its own, so that `cap` bounds every turn. */
#include "window_choice.h"

static const sac_method_param params[] = {
    [SAC_WINDOW_CAP] = {"cap", 2048, 2, 1 << 30, "rows that stay of a prompt, the window's counted",
                        SAC_WHOLE},
    [SAC_WINDOW_QUERIES] = {"window", 32, 1, 1 << 20, "queries at the end of the prompt that observe",
                            SAC_WHOLE},
    [SAC_WINDOW_KERNEL] = {"kernel", 5, 1, 1023, "neighbouring keys that are pooled, odd", SAC_WHOLE},
    [SAC_WINDOW_POOL] = {"pool", SAC_WINDOW_AVERAGE, 0, SAC_WINDOW_MAX, "how: avg, max", sac_window_pools},
    [SAC_WINDOW_PER_HEAD] = {"per_head", 0, 0, 1,
                             "1: choose by query head and drop nothing, as the published code", SAC_WHOLE},
    {0}};

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    return sac_window_choice_check("snapkv", p, err);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    sac_window_choice_take(state, p, (int64_t)p[SAC_WINDOW_CAP], shape, memory);
}

static sac_status observe(void *state, const sac_layer_attention *a) {
    sac_window_choice *s = state;
    return sac_window_choice_prompt(s, a, s->max_kept);
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    return sac_window_choice_select(state, a, choice);
}

static sac_status settle(void *state, const sac_layer_attention *a, int64_t *n_left) {
    return sac_window_choice_settle(state, a, n_left);
}

const sac_decode_policy sac_decode_snapkv = {
    .name = "snapkv",
    .source = "Li et al., arXiv:2404.14469",
    .params = params,
    .state_bytes = sizeof(sac_window_choice),
    .check = check,
    .is_off = sac_window_choice_is_off,
    .take = take,
    .prompt = observe,
    .observes = sac_window_choice_observes,
    .select = select_rows,
    .settle = settle,
};
