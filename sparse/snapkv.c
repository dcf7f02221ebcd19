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
#include "attend.h"
#include "clock.h"
#include "starts.h"
#include "window_sums.h"

#include <math.h>

enum { CAP, WINDOW, KERNEL, POOL, PER_HEAD };
enum { POOL_AVERAGE, POOL_MAX };

static const char *const pools[] = {"avg", "max", NULL};
static const sac_method_param params[] = {
    [CAP] = {"cap", 2048, 2, 1 << 30, "rows that stay of a prompt, the window's counted", SAC_WHOLE},
    [WINDOW] = {"window", 32, 1, 1 << 20, "queries at the end of the prompt that observe", SAC_WHOLE},
    [KERNEL] = {"kernel", 5, 1, 1023, "neighbouring keys that are pooled, odd", SAC_WHOLE},
    [POOL] = {"pool", POOL_AVERAGE, 0, 1, "how: avg, max", pools},
    [PER_HEAD] = {"per_head", 0, 0, 1, "1: choose by query head and drop nothing, as the published code",
                  SAC_WHOLE},
    {0}};

typedef struct snapkv {
    int64_t cap, window, kernel, n_ctx;
    int pool, n_sets;
    bool per_head;
    sac_buffer sums, pooled; /* float [n_sets][rows], room for n_ctx */
    bool is_full;            /* the layer at hand has more rows than may stay */
    int32_t *chosen;         /* [n_sets][cap] as top_k writes it, where ops run; per head: of each layer */
    int32_t
        *rows; /* [n_sets][cap] of the layer at hand, where ops run; per head: [n_sets][n_ctx] of a step */
    /* Per head only. */
    int64_t *n_prompt; /* [n_layers] rows that the layer held when it chose; 0 = all are read */
    int64_t *n_window; /* [n_layers] queries that observed */
    sac_starts starts; /* of rows */
} snapkv;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    if (p[CAP] <= p[WINDOW])
        return sac_fail(err, SAC_BAD_ARGUMENT, "decode policy snapkv: cap=%g must be more than window=%g",
                        p[CAP], p[WINDOW]);
    if ((int64_t)p[KERNEL] % 2 == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "decode policy snapkv: kernel=%g: give an odd number",
                        p[KERNEL]);
    return SAC_OK;
}

static int64_t observes(const double *p) {
    return (int64_t)p[WINDOW];
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[CAP] >= (double)shape->n_ctx;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    snapkv *s = state;
    *s = (snapkv){.cap = (int64_t)p[CAP],
                  .window = (int64_t)p[WINDOW],
                  .kernel = (int64_t)p[KERNEL],
                  .n_ctx = shape->n_ctx,
                  .pool = (int)p[POOL],
                  .per_head = p[PER_HEAD] != 0};
    s->n_sets = s->per_head ? shape->n_heads : shape->n_kv_heads;
    size_t n_sets = (size_t)s->n_sets, cap = (size_t)s->cap, n_ctx = (size_t)s->n_ctx;
    size_t n_layers = (size_t)shape->n_layers, n_kept_layers = s->per_head ? n_layers : 1;
    s->sums = sac_take_both(memory, n_sets * n_ctx * sizeof(float));
    s->pooled = sac_take_both(memory, n_sets * n_ctx * sizeof(float));
    s->chosen = sac_take_device(memory, n_kept_layers * n_sets * cap * sizeof *s->chosen);
    s->rows = sac_take_device(memory, n_sets * (s->per_head ? n_ctx : cap) * sizeof *s->rows);
    if (!s->per_head) return;
    s->n_prompt = sac_take_host(memory, n_layers * sizeof(int64_t));
    s->n_window = sac_take_host(memory, n_layers * sizeof(int64_t));
    sac_starts_take(&s->starts, s->n_sets, memory);
}

/* Mean or maximum over the kernel's keys around j; beyond the ends there is nothing, which a mean counts as
 * zeros. */
static void pool(const snapkv *s, const float *x, int64_t n, float *y) {
    int64_t half = s->kernel / 2;
    for (int64_t j = 0; j < n; j++) {
        int64_t begin = j > half ? j - half : 0, end = j + half < n ? j + half + 1 : n;
        float sum = 0, max = -INFINITY;
        for (int64_t i = begin; i < end; i++) {
            sum += x[i];
            max = x[i] > max ? x[i] : max;
        }
        y[j] = s->pool == POOL_MAX ? max : sum / (float)s->kernel;
    }
}

static int32_t *layer_choice(const snapkv *s, int layer) {
    return s->chosen + (s->per_head ? layer * s->n_sets * s->cap : 0);
}

/* What the window's queries give to the keys, by set. */
static sac_status sum_weights(snapkv *s, const sac_layer_attention *a, int64_t n_window, int64_t n_before) {
    if (a->window_sums) {
        int group = a->shape->n_heads / s->n_sets;
        SAC_TRY(sac_window_sums_find(a));
        for (int h = 0; h < a->shape->n_heads; h++) {
            const float *from = a->window_sums->sums + h * s->n_ctx;
            float *to = (float *)s->sums.host + h / group * a->kv.n_rows;
            for (int64_t j = 0; j < n_before; j++) to[j] = from[j] + (h % group ? to[j] : 0);
        }
        return SAC_OK;
    }
    SAC_TRY(a->ops->attention_sums(
        a->stream, &(sac_attention_sums_args){.sums = s->sums.device,
                                              .stride = a->kv.n_rows,
                                              .n_sums = s->n_sets,
                                              .q = sac_mat_rows(a->q, a->q.rows - n_window, n_window),
                                              .first = n_before,
                                              .kv = a->kv,
                                              .n_kv = a->kv.n_rows,
                                              .n_heads = a->shape->n_heads,
                                              .scale = a->scale,
                                              .window = a->shape->window}));
    return sac_fetch(a, s->sums, (size_t)s->n_sets * (size_t)a->kv.n_rows * sizeof(float));
}

/* The chosen rows of n, by set, and the last `local`, ascending. */
static sac_status list_rows(const snapkv *s, const sac_layer_attention *a, int64_t n_chosen, int64_t local) {
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                  .chosen = layer_choice(s, a->layer),
                                                                  .n_chosen = n_chosen,
                                                                  .local = local,
                                                                  .n_rows = a->kv.n_rows,
                                                                  .n_lists = s->n_sets,
                                                                  .start = s->starts.at.device});
}

/* The best rows before the window, by set. */
static sac_status choose(snapkv *s, const sac_layer_attention *a, int64_t n_window) {
    int64_t n = a->kv.n_rows, n_before = n - n_window;
    SAC_TRY(sum_weights(s, a, n_window, n_before));
    const float *sums = s->sums.host;
    float *pooled = s->pooled.host;
    for (int64_t at = 0; at < s->n_sets * n; at += n) pool(s, sums + at, n_before, pooled + at);
    SAC_TRY(sac_send(a, s->pooled, (size_t)(s->n_sets * n) * sizeof *pooled));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->pooled.device,
                                                      .stride = n,
                                                      .n = n_before,
                                                      .n_rows = s->n_sets,
                                                      .k = s->cap - n_window,
                                                      .indices = layer_choice(s, a->layer)});
}

static sac_status observe(void *state, const sac_layer_attention *a) {
    snapkv *s = state;
    int64_t start_ns = sac_now_ns(), n_rows = a->kv.n_rows;
    s->is_full = n_rows > s->cap;
    int64_t n_window = a->q.rows < s->window ? a->q.rows : s->window;
    if (s->per_head) {
        s->n_prompt[a->layer] = s->is_full ? n_rows : 0;
        s->n_window[a->layer] = n_window;
    }
    if (!s->is_full) return SAC_OK;
    SAC_TRY(choose(s, a, n_window));
    if (!s->per_head) SAC_TRY(list_rows(s, a, s->cap - n_window, n_window));
    a->stats->n_selections++;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* Per head: the prompt's rows that the head chose, and all later ones. */
static sac_status list_step(snapkv *s, const sac_layer_attention *a, sac_choice *choice) {
    int64_t n_window = s->n_window[a->layer], n_later = a->kv.n_rows - s->n_prompt[a->layer];
    SAC_TRY(list_rows(s, a, s->cap - n_window, n_window + n_later));
    sac_starts_expect(&s->starts, s->n_sets, s->cap + n_later);
    choice->lists = (sac_choice_lists){s->rows, s->starts.at, s->n_sets};
    return SAC_OK;
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    snapkv *s = state;
    return s->per_head && s->n_prompt[a->layer] > 0 ? list_step(s, a, choice) : SAC_OK; /* else all */
}

static sac_status settle(void *state, const sac_layer_attention *a, int64_t *n_left) {
    snapkv *s = state;
    *n_left = a->kv.n_rows;
    if (!s->is_full || s->per_head) return SAC_OK;
    s->is_full = false; /* steps settle too */
    *n_left = s->cap;
    return a->ops->keep_rows(a->stream, &(sac_keep_rows_args){a->kv, s->rows, s->cap, s->n_sets});
}

const sac_decode_policy sac_decode_snapkv = {
    .name = "snapkv",
    .source = "Li et al., arXiv:2404.14469",
    .params = params,
    .state_bytes = sizeof(snapkv),
    .check = check,
    .is_off = is_off,
    .take = take,
    .prompt = observe,
    .observes = observes,
    .select = select_rows,
    .settle = settle,
};
