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
#include "window_sums.h"

#include "clock.h"

#include <math.h>
#include <string.h>

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
    float *sums, *pooled; /* [n_sets][n_ctx] */
    int32_t *chosen;      /* [n_sets][cap] as top_k writes it */
    int32_t *rows;        /* [n_sets][cap] of the layer at hand; per head: [n_layers][n_sets][cap] */
    int64_t *start;       /* [n_sets + 1] */
    bool is_full;         /* the layer at hand has more rows than may stay */
    /* Per head only. */
    int64_t *n_prompt;  /* [n_layers] rows that the layer held when it chose; 0 = all are read */
    int32_t *step_rows; /* [n_sets][n_ctx] */
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

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    snapkv *s = state;
    *s = (snapkv){.cap = (int64_t)p[CAP],
                  .window = (int64_t)p[WINDOW],
                  .kernel = (int64_t)p[KERNEL],
                  .n_ctx = shape->n_ctx,
                  .pool = (int)p[POOL],
                  .per_head = p[PER_HEAD] != 0};
    s->n_sets = s->per_head ? shape->n_heads : shape->n_kv_heads;
    size_t n_sets = (size_t)s->n_sets, n_ctx = (size_t)shape->n_ctx, cap = (size_t)s->cap;
    size_t n_kept_layers = s->per_head ? (size_t)shape->n_layers : 1;
    s->sums = sac_arena_take(arena, n_sets * n_ctx * sizeof(float));
    s->pooled = sac_arena_take(arena, n_sets * n_ctx * sizeof(float));
    s->chosen = sac_arena_take(arena, n_sets * cap * sizeof(int32_t));
    s->rows = sac_arena_take(arena, n_kept_layers * n_sets * cap * sizeof(int32_t));
    s->start = sac_arena_take(arena, (n_sets + 1) * sizeof(int64_t));
    if (!s->per_head) return;
    s->n_prompt = sac_arena_take(arena, (size_t)shape->n_layers * sizeof(int64_t));
    s->step_rows = sac_arena_take(arena, n_sets * n_ctx * sizeof(int32_t));
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

static int32_t *layer_rows(const snapkv *s, int layer) {
    return s->rows + (s->per_head ? layer * s->n_sets * s->cap : 0);
}

/* What the window's queries give to the keys, by set. */
static sac_status sum_weights(snapkv *s, const sac_layer_attention *a, int64_t n_window, int64_t n_before) {
    if (a->window_sums) {
        int group = a->shape->n_heads / s->n_sets;
        SAC_TRY(sac_window_sums_find(a));
        for (int h = 0; h < a->shape->n_heads; h++) {
            const float *from = a->window_sums->sums + h * s->n_ctx;
            float *to = s->sums + h / group * s->n_ctx;
            for (int64_t j = 0; j < n_before; j++) to[j] = from[j] + (h % group ? to[j] : 0);
        }
        return SAC_OK;
    }
    return a->ops->attention_sums(
        a->stream, &(sac_attention_sums_args){.sums = s->sums,
                                              .stride = s->n_ctx,
                                              .n_sums = s->n_sets,
                                              .q = sac_mat_rows(a->q, a->q.rows - n_window, n_window),
                                              .first = n_before,
                                              .kv = a->kv,
                                              .n_kv = a->kv.n_rows,
                                              .n_heads = a->shape->n_heads,
                                              .scale = a->scale,
                                              .window = a->shape->window});
}

/* The best rows before the window, by set, and the window's, ascending. */
static sac_status choose(snapkv *s, const sac_layer_attention *a, int64_t n_window) {
    int64_t n_before = a->kv.n_rows - n_window, n_chosen = s->cap - n_window;
    SAC_TRY(sum_weights(s, a, n_window, n_before));
    for (int i = 0; i < s->n_sets; i++) pool(s, s->sums + i * s->n_ctx, n_before, s->pooled + i * s->n_ctx);
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->pooled,
                                                       .stride = s->n_ctx,
                                                       .n = n_before,
                                                       .n_rows = s->n_sets,
                                                       .k = n_chosen,
                                                       .indices = s->chosen}));
    for (int i = 0; i < s->n_sets; i++) {
        int32_t *rows = layer_rows(s, a->layer) + i * s->cap;
        memcpy(rows, s->chosen + i * n_chosen, (size_t)n_chosen * sizeof *rows);
        for (int64_t j = 0; j < n_window; j++) rows[n_chosen + j] = (int32_t)(n_before + j);
    }
    return SAC_OK;
}

static sac_status observe(void *state, const sac_layer_attention *a) {
    snapkv *s = state;
    int64_t start_ns = sac_now_ns(), n_rows = a->kv.n_rows;
    s->is_full = n_rows > s->cap;
    if (s->per_head) s->n_prompt[a->layer] = s->is_full ? n_rows : 0;
    if (!s->is_full) return SAC_OK;
    SAC_TRY(choose(s, a, a->q.rows < s->window ? a->q.rows : s->window));
    a->stats->n_selections++;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* Per head: the prompt's rows that the head chose, and all later ones. */
static void list_rows(snapkv *s, const sac_layer_attention *a, sac_row_lists *lists) {
    int64_t first = s->n_prompt[a->layer], n = s->cap + a->kv.n_rows - first;
    for (int i = 0; i < s->n_sets; i++) {
        int32_t *rows = s->step_rows + i * n;
        memcpy(rows, layer_rows(s, a->layer) + i * s->cap, (size_t)s->cap * sizeof *rows);
        for (int64_t j = s->cap; j < n; j++) rows[j] = (int32_t)(first + j - s->cap);
        s->start[i] = i * n;
    }
    s->start[s->n_sets] = s->n_sets * n;
    *lists = (sac_row_lists){s->step_rows, s->start, s->n_sets};
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    snapkv *s = state;
    choice->all = !s->per_head || s->n_prompt[a->layer] == 0;
    if (!choice->all) list_rows(s, a, &choice->lists);
    return SAC_OK;
}

static int64_t settle(void *state, const sac_layer_attention *a) {
    snapkv *s = state;
    if (!s->is_full || s->per_head) return a->kv.n_rows;
    s->is_full = false; /* steps settle too */
    for (int i = 0; i <= s->n_sets; i++) s->start[i] = i * s->cap;
    return sac_keep_rows(&a->kv, &(sac_row_lists){s->rows, s->start, s->n_sets});
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
