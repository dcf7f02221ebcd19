/* PyramidKV: as SnapKV, with more rows for low layers and fewer for high ones.
 *
 * Source: Cai et al., arXiv:2406.02069, section 4, and its published code. Attention scatters over the whole
 * prompt in low layers and funnels into a few rows in high ones. The window's rows (the instruction's, alpha
 * in the paper) stay in every layer. Beside them the layers keep cap - window rows on average, in an
 * arithmetic sequence: the last layer (cap - window) / beta, the first what makes the mean right, so that
 * beta=1 is SnapKV. Which rows, is SnapKV's choice (parts/window_choice.h). As the published code, where the
 * prompt has fewer rows than the first layer could keep, that layer keeps all of them and the last layer so
 * many more; prompts of less than 2 (cap - window) tokens have the same budget in all layers.
 *
 * Ours: steps of the sequence are rounded so that the sum stays exact, where the code rounds all down and
 * keeps a little more. The last layer chooses at least one row. Groups, per_head and later prompts are as in
 * SnapKV; a later prompt's budgets are those of the whole sequence. */
#include "window_choice.h"

enum { BETA = SAC_WINDOW_N_PARAMS };

static const sac_method_param params[] = {
    [SAC_WINDOW_CAP] = {"cap", 2048, 2, 1 << 30,
                        "rows that stay of a prompt in a layer, on average, the window's counted", SAC_WHOLE},
    [SAC_WINDOW_QUERIES] = {"window", 32, 1, 1 << 20, "queries at the end of the prompt that observe",
                            SAC_WHOLE},
    [SAC_WINDOW_KERNEL] = {"kernel", 5, 1, 1023, "neighbouring keys that are pooled, odd", SAC_WHOLE},
    [SAC_WINDOW_POOL] = {"pool", SAC_WINDOW_AVERAGE, 0, SAC_WINDOW_MAX, "how: avg, max", sac_window_pools},
    [SAC_WINDOW_PER_HEAD] = {"per_head", 0, 0, 1,
                             "1: choose by query head and drop nothing, as the published code", SAC_WHOLE},
    [BETA] = {"beta", 20, 1, 1 << 20, "the last layer keeps 1/beta of the average, the first the more",
              SAC_WHOLE},
    {0}};

typedef struct pyramidkv {
    sac_window_choice choice;
    int64_t mean, last; /* rows before the window: of a layer on average, of the last layer of long prompts */
} pyramidkv;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    return sac_window_choice_check("pyramidkv", p, err);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    pyramidkv *s = state;
    int64_t window = (int64_t)p[SAC_WINDOW_QUERIES];
    s->mean = (int64_t)p[SAC_WINDOW_CAP] - window;
    s->last = s->mean / (int64_t)p[BETA];
    if (s->last < 1) s->last = 1;
    int64_t most = smaller(2 * s->mean - s->last + window, shape->n_ctx);
    sac_window_choice_take(&s->choice, p, most, shape, memory);
}

/* Rows of a sequence of n that the layer keeps, the window's counted. Two layers as far from the first and
 * from the last have twice the mean together. */
static int64_t layer_budget(const pyramidkv *s, int layer, int n_layers, int64_t n) {
    int64_t window = s->choice.window, steps = n_layers - 1;
    if (n <= s->mean + window || n < 2 * s->mean || steps == 0) return s->mean + window;
    int64_t first = smaller(2 * s->mean - s->last, n - window), last = 2 * s->mean - first;
    bool is_low = 2 * layer <= steps;
    return window + (is_low ? first - (first - last) * layer / steps
                            : last + (first - last) * (steps - layer) / steps);
}

static sac_status observe(void *state, const sac_layer_attention *a) {
    pyramidkv *s = state;
    return sac_window_choice_prompt(&s->choice, a, layer_budget(s, a->layer, a->shape->n_layers, a->n_seen));
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    pyramidkv *s = state;
    return sac_window_choice_select(&s->choice, a, choice);
}

static sac_status settle(void *state, const sac_layer_attention *a, int64_t *n_left) {
    pyramidkv *s = state;
    return sac_window_choice_settle(&s->choice, a, n_left);
}

const sac_decode_policy sac_decode_pyramidkv = {
    .name = "pyramidkv",
    .source = "Cai et al., arXiv:2406.02069",
    .params = params,
    .state_bytes = sizeof(pyramidkv),
    .check = check,
    .is_off = sac_window_choice_is_off,
    .take = take,
    .prompt = observe,
    .observes = sac_window_choice_observes,
    .select = select_rows,
    .settle = settle,
};
