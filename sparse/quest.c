/* quest.c - read only the pages that can matter to this query.
 *
 * Quest (Tang et al., arXiv:2406.10774, section 3). Of every page of 16 keys the smallest and the largest
 * value of each channel are kept. No key of a page can score more than sum_c max(q_c max_c, q_c min_c); the
 * pages with the best bounds are read whole, and the last one always (as the released kernels do: the step's
 * own token is in it). The first layers stay dense, as in the paper.
 *
 * On a device whole pages only have bounds there, in the queries' type, and nothing comes to the host: pages
 * become lists of rows whose lengths are known.
 *
 * The bound is one dot product of twice the length: (q+, q-) . (max, min), q+ and q- the query's positive and
 * negative part, so the shared op computes it. Where key-value heads serve groups of query heads, which the
 * paper leaves open, the group reads the pages with the best sum of bounds (heads=sum), or what any of its
 * heads chose (heads=union), or each head reads its own (heads=query, as the evaluation code). */
#include "key_block.h"

#include <string.h>

enum { PAGE, BUDGET, SKIP, HEADS };
enum { SUM, UNION, QUERY };

static const char *const sharings[] = {"sum", "union", "query", NULL};

static const sac_method_param params[] = {
    {"page", 16, 1, 4096, "tokens of a page", SAC_WHOLE},
    {"budget", 1024, 1, 1 << 24, "tokens that a head chooses, in whole pages", SAC_WHOLE},
    {"skip", 2, 0, 1 << 16, "first layers that stay dense", SAC_WHOLE},
    {"heads", SUM, 0, 2, "pages of a group: best summed bounds, what any head chose, or each its own",
     sharings},
    {0}};

typedef struct quest {
    int64_t page, budget_pages, max_pages;
    int skip, sharing, n_layers;
    uint8_t *bounds;  /* [n_layers - skip][n_kv_heads][max_pages][2][head_dim]: max, min; f32, or there of the
                         queries' type */
    sac_dtype dtype;  /* of them */
    int64_t *n_known; /* [n_layers] rows whose pages are up to date */
    sac_key_block keys;
    float *halves;  /* [n_heads][2][head_dim]: the query's positive and negative parts */
    float *scores;  /* [n_heads][max_pages] */
    int32_t *best;  /* [n_heads][budget_pages] */
    uint8_t *marks; /* [max_pages], for heads=union */
    int32_t *rows;
    int64_t *start; /* [n_heads + 1] */
    int64_t *there; /* the same on a device */
} quest;

static int64_t pages_of(int64_t n_tokens, int64_t page) {
    return (n_tokens + page - 1) / page;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (!shape->device || p[HEADS] != UNION) return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "quest with heads=union runs on the CPU only so far: leave heads out, or use heads=query");
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    int64_t page = (int64_t)p[PAGE];
    return pages_of(shape->n_ctx, page) <= pages_of((int64_t)p[BUDGET], page) ||
           p[SKIP] >= (double)shape->n_layers;
}

/* Lists of a step, and the pages that one of them may hold. */
static int n_lists(const quest *s, const sac_attention_shape *shape) {
    return s->sharing == QUERY ? shape->n_heads : shape->n_kv_heads;
}
static int64_t list_pages(const quest *s, const sac_attention_shape *shape) {
    int64_t group = shape->n_heads / shape->n_kv_heads;
    int64_t n = s->sharing == UNION ? s->budget_pages * group : s->budget_pages;
    return n < s->max_pages ? n : s->max_pages;
}

/* What ops read and write. */
static void take_work(quest *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n_heads = (size_t)shape->n_heads, max_pages = (size_t)s->max_pages;
    size_t n_bounds = (size_t)(s->n_layers - s->skip) * (size_t)shape->n_kv_heads * max_pages;
    s->bounds = sac_arena_take(arena, n_bounds * sac_dtype_row_bytes(s->dtype, 2 * shape->head_dim));
    s->scores = sac_arena_take(arena, n_heads * max_pages * sizeof(float));
    s->best = sac_arena_take(arena, n_heads * (size_t)s->budget_pages * sizeof *s->best);
    s->rows = sac_arena_take(arena, (size_t)n_lists(s, shape) * (size_t)(list_pages(s, shape) * s->page) *
                                        sizeof *s->rows);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    quest *s = state;
    size_t d = (size_t)shape->head_dim, n_heads = (size_t)shape->n_heads;
    s->page = (int64_t)p[PAGE];
    s->budget_pages = pages_of((int64_t)p[BUDGET], s->page);
    s->max_pages = pages_of(shape->n_ctx, s->page);
    s->skip = (int)p[SKIP];
    s->sharing = (int)p[HEADS];
    s->n_layers = shape->n_layers;
    s->dtype = shape->device ? shape->dtype : SAC_DTYPE_F32;
    s->n_known = sac_arena_take(arena, (size_t)s->n_layers * sizeof *s->n_known);
    s->start = sac_arena_take(arena, (n_heads + 1) * sizeof *s->start);
    if (shape->device) return;
    take_work(s, shape, arena);
    sac_key_block_take(&s->keys, shape, arena);
    s->halves = sac_arena_take(arena, n_heads * 2 * d * sizeof(float));
    s->marks = sac_arena_take(arena, (size_t)s->max_pages);
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    quest *s = state;
    (void)p;
    take_work(s, shape, arena);
    s->there = sac_arena_take(arena, ((size_t)shape->n_heads + 1) * sizeof *s->there);
}

static void begin(void *state) {
    quest *s = state;
    memset(s->n_known, 0, (size_t)s->n_layers * sizeof *s->n_known);
}

/* The page that the cut goes through begins anew. */
static void cut(void *state, int64_t n) {
    quest *s = state;
    for (int i = 0; i < s->n_layers; i++)
        if (s->n_known[i] > n) s->n_known[i] = n / s->page * s->page;
}

/* ---------------------------------------------------------------- bounds of pages */

/* The first n_pages of the layer's as keys of twice the channels. */
static sac_kv_view pages_of_layer(const quest *s, const sac_layer_attention *a, int64_t n_pages) {
    int64_t row = 2 * a->shape->head_dim;
    int64_t before = (int64_t)(a->layer - s->skip) * a->shape->n_kv_heads * s->max_pages;
    uint8_t *bounds = s->bounds + (size_t)before * sac_dtype_row_bytes(s->dtype, row);
    return (sac_kv_view){.k = bounds,
                         .v = bounds,
                         .dtype = s->dtype,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)row,
                         .n_rows = n_pages,
                         .row_stride = row,
                         .head_stride = s->max_pages * row};
}

static float *page_bounds(const quest *s, const sac_layer_attention *a, int head, int64_t page) {
    int64_t of_layer = (a->layer - s->skip) * a->shape->n_kv_heads + head;
    return (float *)s->bounds + (of_layer * s->max_pages + page) * 2 * a->shape->head_dim;
}

/* A key joins its page; the first of a page begins it. */
static void add_key(float *bounds, const float *key, int d, bool begins) {
    float *max = bounds, *min = bounds + d;
    for (int c = 0; c < d; c++) {
        max[c] = begins || key[c] > max[c] ? key[c] : max[c];
        min[c] = begins || key[c] < min[c] ? key[c] : min[c];
    }
}

/* On a device: pages that are whole by now. The last page is read whatever it scores. */
static sac_status learn_pages(quest *s, const sac_layer_attention *a) {
    int64_t *known = &s->n_known[a->layer], first = *known / s->page, n = a->kv.n_rows / s->page - first;
    if (n <= 0) return SAC_OK;
    *known = (first + n) * s->page;
    return a->ops->page_bounds(
        a->stream,
        &(sac_page_bounds_args){
            .bounds = pages_of_layer(s, a, first + n), .kv = a->kv, .page = s->page, .first = first, .n = n});
}

/* Rows that have come since the last call. */
static sac_status learn(void *state, const sac_layer_attention *a) {
    quest *s = state;
    int d = a->shape->head_dim;
    if (a->layer < s->skip) return SAC_OK;
    if (a->shape->device) return learn_pages(s, a);
    for (int64_t *known = &s->n_known[a->layer]; *known < a->kv.n_rows;) {
        int64_t n = sac_key_block_next(*known, a->kv.n_rows);
        SAC_TRY(sac_key_block_load(&s->keys, a, *known, n));
        for (int h = 0; h < a->shape->n_kv_heads; h++)
            for (int64_t i = 0; i < n; i++)
                add_key(page_bounds(s, a, h, (*known + i) / s->page), sac_key_block_row(&s->keys, h, i), d,
                        (*known + i) % s->page == 0);
        *known += n;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- a step */

static sac_status score_pages(quest *s, const sac_layer_attention *a, int64_t n_pages) {
    int d = a->shape->head_dim, n_heads = a->shape->n_heads;
    const float *q = sac_mat_row_f32(a->q, 0);
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < d; c++) {
            float x = q[h * d + c];
            s->halves[h * 2 * d + c] = x > 0 ? x : 0;
            s->halves[h * 2 * d + d + c] = x < 0 ? x : 0;
        }
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = s->scores,
                                                                .stride = s->max_pages,
                                                                .q = s->halves,
                                                                .kv = pages_of_layer(s, a, n_pages),
                                                                .n_heads = n_heads,
                                                                .n = n_pages,
                                                                .scale = 1});
}

/* The sum of each group's scores takes the place of its first head's, then moves up. */
static void sum_groups(quest *s, const sac_attention_shape *shape, int64_t n_pages) {
    int group = shape->n_heads / shape->n_kv_heads;
    for (int kv = 0; kv < shape->n_kv_heads; kv++) {
        float *sum = s->scores + kv * s->max_pages, *first = s->scores + kv * group * s->max_pages;
        for (int64_t i = 0; i < n_pages; i++) {
            float x = first[i];
            for (int h = 1; h < group; h++) x += first[h * s->max_pages + i];
            sum[i] = x;
        }
    }
}

static int64_t add_page(quest *s, int64_t at, int64_t page, int64_t n_rows) {
    for (int64_t row = page * s->page; row < (page + 1) * s->page && row < n_rows; row++)
        s->rows[at++] = (int32_t)row;
    return at;
}

/* One list's rows from the chosen pages of its heads, n_sets of `best`, and the last page. */
static int64_t list_rows(quest *s, const int32_t *best, int n_sets, int64_t k, int64_t n_rows, int64_t at) {
    int64_t last = pages_of(n_rows, s->page) - 1;
    if (n_sets == 1) {
        for (int64_t i = 0; i < k; i++) at = add_page(s, at, best[i], n_rows);
        return add_page(s, at, last, n_rows);
    }
    memset(s->marks, 0, (size_t)last + 1);
    for (int64_t i = 0; i < k * n_sets; i++) s->marks[best[i]] = 1;
    s->marks[last] = 1;
    for (int64_t page = 0; page <= last; page++)
        if (s->marks[page]) at = add_page(s, at, page, n_rows);
    return at;
}

/* The pages that a list reads, as the k best of the scores. */
static sac_status choose_pages(quest *s, const sac_layer_attention *a, int64_t n_pages) {
    const sac_attention_shape *shape = a->shape;
    if (!shape->device) {
        SAC_TRY(score_pages(s, a, n_pages));
        if (s->sharing == SUM) sum_groups(s, shape, n_pages);
    } else {
        SAC_TRY(a->ops->page_scores(a->stream,
                                    &(sac_page_scores_args){.scores = s->scores,
                                                            .stride = s->max_pages,
                                                            .n_sums = n_lists(s, shape),
                                                            .q = a->q,
                                                            .bounds = pages_of_layer(s, a, n_pages - 1),
                                                            .n_heads = shape->n_heads,
                                                            .n = n_pages - 1}));
    }
    return a->ops->top_k(a->stream,
                         &(sac_top_k_args){.scores = s->scores,
                                           .stride = s->max_pages,
                                           .n = n_pages - 1,
                                           .n_rows = s->sharing == SUM ? shape->n_kv_heads : shape->n_heads,
                                           .k = s->budget_pages - 1,
                                           .indices = s->best});
}

/* Lists of the chosen pages' rows and the last page's. */
static sac_status list_pages_rows(quest *s, const sac_layer_attention *a, int64_t n_last) {
    int lists = n_lists(s, a->shape), n_sets = s->sharing == UNION ? a->shape->n_heads / lists : 1;
    int64_t k = s->budget_pages - 1, n_rows = a->kv.n_rows;
    s->start[0] = 0;
    if (!a->shape->device) {
        for (int i = 0; i < lists; i++)
            s->start[i + 1] = list_rows(s, s->best + i * n_sets * k, n_sets, k, n_rows, s->start[i]);
        return SAC_OK;
    }
    for (int i = 0; i < lists; i++) s->start[i + 1] = s->start[i] + k * s->page + n_last;
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                  .chosen = s->best,
                                                                  .n_chosen = k,
                                                                  .local = n_last,
                                                                  .n_rows = n_rows,
                                                                  .n_lists = lists,
                                                                  .page = s->page,
                                                                  .start = s->there});
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    quest *s = state;
    const sac_attention_shape *shape = a->shape;
    int64_t n_rows = a->kv.n_rows, n_pages = pages_of(n_rows, s->page), k = s->budget_pages - 1;
    SAC_TRY(learn(s, a));
    if (a->layer < s->skip || n_pages <= s->budget_pages) {
        choice->all = true;
        return SAC_OK;
    }
    int64_t n_last = n_rows - (n_pages - 1) * s->page;
    SAC_TRY(choose_pages(s, a, n_pages));
    SAC_TRY(list_pages_rows(s, a, n_last));
    *choice = (sac_choice){.lists = {s->rows, s->start, n_lists(s, shape)},
                           .device_start = s->there,
                           .n_chosen = (double)(shape->n_heads * (k * s->page + n_last))};
    a->stats->n_selections++;
    return SAC_OK;
}

const sac_decode_policy sac_decode_quest = {
    .name = "quest",
    .source = "Tang et al., Quest, arXiv:2406.10774",
    .params = params,
    .state_bytes = sizeof(quest),
    .check = check,
    .is_off = is_off,
    .take = take,
    .take_device = take_device,
    .begin = begin,
    .prompt = learn,
    .prompt_without_queries = true,
    .keeps_prefix = true,
    .cut = cut,
    .select = select_rows,
};
