#include "window_choice.h"

#include "attend.h"
#include "clock.h"
#include "window_sums.h"

#include <math.h>

const char *const sac_window_pools[] = {[SAC_WINDOW_AVERAGE] = "avg", [SAC_WINDOW_MAX] = "max", NULL};

sac_status sac_window_choice_check(const char *method, const double *p, sac_error *err) {
    if (p[SAC_WINDOW_CAP] <= p[SAC_WINDOW_QUERIES])
        return sac_fail(err, SAC_BAD_ARGUMENT, "decode policy %s: cap=%g must be more than window=%g", method,
                        p[SAC_WINDOW_CAP], p[SAC_WINDOW_QUERIES]);
    if ((int64_t)p[SAC_WINDOW_KERNEL] % 2 == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "decode policy %s: kernel=%g: give an odd number", method,
                        p[SAC_WINDOW_KERNEL]);
    return SAC_OK;
}

bool sac_window_choice_is_off(const double *p, const sac_attention_shape *shape) {
    return p[SAC_WINDOW_CAP] >= (double)shape->n_ctx;
}

int64_t sac_window_choice_observes(const double *p) {
    return (int64_t)p[SAC_WINDOW_QUERIES];
}

void sac_window_choice_take(sac_window_choice *s, const double *p, int64_t max_kept,
                            const sac_attention_shape *shape, const sac_memory *memory) {
    *s = (sac_window_choice){.window = (int64_t)p[SAC_WINDOW_QUERIES],
                             .kernel = (int64_t)p[SAC_WINDOW_KERNEL],
                             .n_ctx = shape->n_ctx,
                             .max_kept = max_kept,
                             .pool = (int)p[SAC_WINDOW_POOL],
                             .per_head = p[SAC_WINDOW_PER_HEAD] != 0};
    s->n_sets = s->per_head ? shape->n_heads : shape->n_kv_heads;
    size_t n_sets = (size_t)s->n_sets, most = (size_t)max_kept, n_ctx = (size_t)s->n_ctx;
    size_t n_layers = (size_t)shape->n_layers, n_kept_layers = s->per_head ? n_layers : 1;
    s->sums = sac_take_both(memory, n_sets * n_ctx * sizeof(float));
    s->pooled = sac_take_both(memory, n_sets * n_ctx * sizeof(float));
    s->chosen = sac_take_device(memory, n_kept_layers * n_sets * most * sizeof *s->chosen);
    s->rows = sac_take_device(memory, n_sets * (s->per_head ? n_ctx : most) * sizeof *s->rows);
    if (!s->per_head) return;
    s->n_prompt = sac_take_host(memory, n_layers * sizeof(int64_t));
    s->n_chosen = sac_take_host(memory, n_layers * sizeof(int64_t));
    s->n_window = sac_take_host(memory, n_layers * sizeof(int64_t));
    sac_starts_take(&s->starts, s->n_sets, memory);
}

/* Mean or maximum over the kernel's keys around j; beyond the ends there is nothing, which a mean counts as
 * zeros. */
static void pool(const sac_window_choice *s, const float *x, int64_t n, float *y) {
    int64_t half = s->kernel / 2;
    for (int64_t j = 0; j < n; j++) {
        int64_t begin = j > half ? j - half : 0, end = j + half < n ? j + half + 1 : n;
        float sum = 0, max = -INFINITY;
        for (int64_t i = begin; i < end; i++) {
            sum += x[i];
            max = x[i] > max ? x[i] : max;
        }
        y[j] = s->pool == SAC_WINDOW_MAX ? max : sum / (float)s->kernel;
    }
}

static int32_t *layer_choice(const sac_window_choice *s, int layer) {
    return s->chosen + (s->per_head ? layer * s->n_sets * s->max_kept : 0);
}

/* What the window's queries give to the keys, by set. */
static sac_status sum_weights(sac_window_choice *s, const sac_layer_attention *a, int64_t n_window,
                              int64_t n_before) {
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
                                              .window = a->window}));
    return sac_fetch(a, s->sums, (size_t)s->n_sets * (size_t)a->kv.n_rows * sizeof(float));
}

/* The chosen rows of n, by set, and the last `local`, ascending. */
static sac_status list_rows(const sac_window_choice *s, const sac_layer_attention *a, int64_t n_chosen,
                            int64_t local) {
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                  .chosen = layer_choice(s, a->layer),
                                                                  .n_chosen = n_chosen,
                                                                  .local = local,
                                                                  .n_rows = a->kv.n_rows,
                                                                  .n_lists = s->n_sets,
                                                                  .start = s->starts.at.device});
}

/* The best rows before the window, by set. */
static sac_status choose(sac_window_choice *s, const sac_layer_attention *a, int64_t n_chosen,
                         int64_t n_window) {
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
                                                      .k = n_chosen,
                                                      .indices = layer_choice(s, a->layer)});
}

sac_status sac_window_choice_prompt(sac_window_choice *s, const sac_layer_attention *a, int64_t n_kept) {
    int64_t start_ns = sac_now_ns(), n_rows = a->kv.n_rows;
    s->n_kept = n_rows > n_kept ? n_kept : 0;
    int64_t n_window = a->q.rows < s->window ? a->q.rows : s->window, n_chosen = n_kept - n_window;
    if (s->per_head) {
        s->n_prompt[a->layer] = s->n_kept ? n_rows : 0;
        s->n_chosen[a->layer] = n_chosen;
        s->n_window[a->layer] = n_window;
    }
    if (!s->n_kept) return SAC_OK;
    SAC_TRY(choose(s, a, n_chosen, n_window));
    if (!s->per_head) SAC_TRY(list_rows(s, a, n_chosen, n_window));
    a->stats->n_selections++;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* Per head: the prompt's rows that the head chose, and all later ones. */
static sac_status list_step(sac_window_choice *s, const sac_layer_attention *a, sac_choice *choice) {
    int64_t n_chosen = s->n_chosen[a->layer];
    int64_t n_later = s->n_window[a->layer] + a->kv.n_rows - s->n_prompt[a->layer];
    SAC_TRY(list_rows(s, a, n_chosen, n_later));
    sac_starts_expect(&s->starts, s->n_sets, n_chosen + n_later);
    choice->lists = (sac_choice_lists){s->rows, s->starts.at, s->n_sets};
    return SAC_OK;
}

sac_status sac_window_choice_select(sac_window_choice *s, const sac_layer_attention *a, sac_choice *choice) {
    return s->per_head && s->n_prompt[a->layer] > 0 ? list_step(s, a, choice) : SAC_OK; /* else all */
}

sac_status sac_window_choice_settle(sac_window_choice *s, const sac_layer_attention *a, int64_t *n_left) {
    int64_t n_kept = s->n_kept;
    *n_left = a->kv.n_rows;
    if (!n_kept || s->per_head) return SAC_OK;
    s->n_kept = 0; /* steps settle too */
    *n_left = n_kept;
    return a->ops->keep_rows(a->stream, &(sac_keep_rows_args){a->kv, s->rows, n_kept, s->n_sets});
}
