/* quest.c - read only the pages that can matter to this query.
 *
 * Quest (Tang et al., arXiv:2406.10774, section 3). Of every page of 16 keys the smallest and the largest
 * value of each channel are kept. No key of a page can score more than sum_c max(q_c max_c, q_c min_c); the
 * pages with the best bounds are read whole, and the last one always (as the released kernels do: the step's
 * own token is in it). The first layers stay dense, as in the paper.
 *
 * Only whole pages have bounds, in the queries' type: the last page is read whatever it scores.
 *
 * Where key-value heads serve groups of query heads, which the
 * paper leaves open, the group reads the pages with the best sum of bounds (heads=sum), or what any of its
 * heads chose (heads=union), or each head reads its own (heads=query, as the evaluation code).
 *
 * Ours too: neighbouring steps choose much the same, so several may share a choice (every=8). They read the rows that came after it
 * besides. */
#include "attend.h"
#include "starts.h"

#include <string.h>

enum { PAGE, BUDGET, SKIP, HEADS, EVERY };
enum { SUM, UNION, QUERY };

static const char *const sharings[] = {"sum", "union", "query", NULL};

static const sac_method_param params[] = {
    {"page", 16, 1, 4096, "tokens of a page", SAC_WHOLE},
    {"budget", 1024, 1, 1 << 24, "tokens that a head chooses, in whole pages", SAC_WHOLE},
    {"skip", 2, 0, 1 << 16, "first layers that stay dense", SAC_WHOLE},
    {"heads", SUM, 0, 2, "pages of a group: best summed bounds, what any head chose, or each its own",
     sharings},
    {"every", 1, 1, 4096, "steps that read the pages that the first of them chose, and all rows since", SAC_WHOLE},
    {0}};

typedef struct quest {
    int64_t page, budget_pages, max_pages, every;
    int skip, sharing, n_layers;
    int64_t *n_known; /* [n_layers] rows of whole pages that have bounds */
    int64_t *chosen;  /* [n_layers] rows that there were when the layer's pages were chosen; 0: they were not */
    /* Where ops run: */
    uint8_t *bounds;   /* [n_layers - skip][n_kv_heads][max_pages][2][head_dim]: max, min */
    sac_dtype dtype;   /* of them */
    float *scores;     /* [n_heads][max_pages] */
    int32_t *best;     /* [n_heads][budget_pages]; where steps share a choice, so many for each layer */
    int32_t *rows;     /* the lists */
    int64_t *pairs;    /* [n_kv_heads] of heads=union: lengths, which nobody asks for */
    sac_starts starts; /* of the lists; of heads=union the lengths differ */
} quest;

static int64_t pages_of(int64_t n_tokens, int64_t page) {
    return (n_tokens + page - 1) / page;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    long long most = sac_ops_traits_of(shape->device)->pattern_rows_max;
    if (p[HEADS] == UNION && p[EVERY] > 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "decode policy quest: heads=union chooses in every step: leave out every, or heads");
    if (p[HEADS] != UNION || shape->n_ctx <= most) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "quest with heads=union takes up to %lld tokens: use --ctx %lld or less, or leave heads "
                    "out",
                    most, most);
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
/* The rows of one, with those that came after its choice. */
static int64_t list_capacity(const quest *s, const sac_attention_shape *shape) {
    return list_pages(s, shape) * s->page + s->every - 1;
}
static size_t n_best(const quest *s, const sac_attention_shape *shape) {
    return (size_t)shape->n_heads * (size_t)s->budget_pages;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    quest *s = state;
    s->page = (int64_t)p[PAGE];
    s->budget_pages = pages_of((int64_t)p[BUDGET], s->page);
    s->max_pages = pages_of(shape->n_ctx, s->page);
    s->skip = (int)p[SKIP];
    s->sharing = (int)p[HEADS];
    s->every = (int64_t)p[EVERY];
    s->n_layers = shape->n_layers;
    s->dtype = shape->dtype;
    size_t n_heads = (size_t)shape->n_heads, n_kv = (size_t)shape->n_kv_heads, n_pages = (size_t)s->max_pages;
    size_t n_rows = (size_t)n_lists(s, shape) * (size_t)list_capacity(s, shape);
    s->n_known = sac_take_host(memory, (size_t)s->n_layers * sizeof *s->n_known);
    if (s->every > 1) s->chosen = sac_take_host(memory, (size_t)s->n_layers * sizeof *s->chosen);
    s->bounds = sac_take_device(memory, (size_t)(s->n_layers - s->skip) * n_kv * n_pages *
                                            sac_dtype_row_bytes(s->dtype, 2 * shape->head_dim));
    s->scores = sac_take_device(memory, n_heads * n_pages * sizeof(float));
    s->best = sac_take_device(memory, n_best(s, shape) * (size_t)(s->every > 1 ? s->n_layers - s->skip : 1) * sizeof *s->best);
    s->rows = sac_take_device(memory, n_rows * sizeof *s->rows);
    if (s->sharing == UNION) s->pairs = sac_take_device(memory, n_kv * sizeof *s->pairs);
    sac_starts_take(&s->starts, n_lists(s, shape), memory);
}

static void begin(void *state) {
    quest *s = state;
    memset(s->n_known, 0, (size_t)s->n_layers * sizeof *s->n_known);
    if (s->chosen) memset(s->chosen, 0, (size_t)s->n_layers * sizeof *s->chosen);
}

/* The page that the cut goes through begins anew. */
static void cut(void *state, int64_t n, bool own_stays) {
    (void)own_stays;
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

/* Pages that are whole by now. */
static sac_status learn(void *state, const sac_layer_attention *a) {
    quest *s = state;
    if (a->layer < s->skip) return SAC_OK;
    int64_t *known = &s->n_known[a->layer], first = *known / s->page, n = a->kv.n_rows / s->page - first;
    if (n <= 0) return SAC_OK;
    *known = (first + n) * s->page;
    return a->ops->page_bounds(
        a->stream,
        &(sac_page_bounds_args){
            .bounds = pages_of_layer(s, a, first + n), .kv = a->kv, .page = s->page, .first = first, .n = n});
}

/* What is chosen before a prompt is not for the steps behind it. */
static sac_status learn_prompt(void *state, const sac_layer_attention *a) {
    quest *s = state;
    if (s->chosen) s->chosen[a->layer] = 0;
    return learn(s, a);
}

/* ---------------------------------------------------------------- a step */

static int32_t *best_of(const quest *s, const sac_layer_attention *a) {
    return s->best + (s->every > 1 ? (size_t)(a->layer - s->skip) * n_best(s, a->shape) : 0);
}

/* The k best of the first n pages, for each group or for each head. */
static sac_status choose_pages(quest *s, const sac_layer_attention *a, int64_t n, int64_t k) {
    int n_sums = s->sharing == SUM ? a->shape->n_kv_heads : a->shape->n_heads;
    SAC_TRY(a->ops->page_scores(a->stream, &(sac_page_scores_args){.scores = s->scores,
                                                                   .stride = s->max_pages,
                                                                   .n_sums = n_sums,
                                                                   .q = a->q,
                                                                   .bounds = pages_of_layer(s, a, n),
                                                                   .n_heads = a->shape->n_heads,
                                                                   .n = n}));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->scores,
                                                      .stride = s->max_pages,
                                                      .n = n,
                                                      .n_rows = n_sums,
                                                      .k = k,
                                                      .indices = best_of(s, a)});
}

/* Lists of the chosen pages' rows and the last ones. */
static sac_status list_rows(quest *s, const sac_layer_attention *a, int64_t k, int64_t n_last) {
    sac_starts_expect(&s->starts, n_lists(s, a->shape), k * s->page + n_last);
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = s->rows,
                                                                  .chosen = best_of(s, a),
                                                                  .n_chosen = k,
                                                                  .local = n_last,
                                                                  .n_rows = a->kv.n_rows,
                                                                  .n_lists = n_lists(s, a->shape),
                                                                  .page = s->page,
                                                                  .start = s->starts.at.device});
}

/* One list a group: what any of its heads chose, as columns as wide as a page that one query meets. */
static sac_status list_union(quest *s, const sac_layer_attention *a, int64_t k) {
    int n_kv = a->shape->n_kv_heads;
    SAC_TRY(
        a->ops->pattern_rows(a->stream, &(sac_pattern_rows_args){.rows = s->rows,
                                                                 .start = s->starts.at.device,
                                                                 .pairs = s->pairs,
                                                                 .columns = best_of(s, a),
                                                                 .n_columns = k * (a->shape->n_heads / n_kv),
                                                                 .width = s->page,
                                                                 .first = a->kv.n_rows - 1,
                                                                 .block = 1,
                                                                 .n_blocks = 1,
                                                                 .n_rows = a->kv.n_rows,
                                                                 .n_lists = n_kv,
                                                                 .own = true}));
    return sac_fetch(a, s->starts.at, ((size_t)n_kv + 1) * sizeof(int64_t));
}

/* Rows, of which there are n_rows, that there were when the pages of this step were chosen: now, or lately. A choice with more rows
 * is of a step that was forgotten. */
static int64_t chosen_at(const quest *s, int layer, int64_t n_rows) {
    const int64_t then = s->chosen ? s->chosen[layer] : 0;
    return then && n_rows > then && n_rows - then < s->every ? then : n_rows;
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    quest *s = state;
    const sac_attention_shape *shape = a->shape;
    int64_t n_rows = a->kv.n_rows, k = s->budget_pages - 1;
    const int64_t then = chosen_at(s, a->layer, n_rows), n_pages = pages_of(then, s->page);
    SAC_TRY(learn(s, a));
    if (a->layer < s->skip || n_pages <= s->budget_pages) return SAC_OK; /* all */
    int64_t n_last = n_rows - (n_pages - 1) * s->page;
    if (then == n_rows) SAC_TRY(choose_pages(s, a, n_pages - 1, k));
    if (s->chosen) s->chosen[a->layer] = then;
    SAC_TRY(s->sharing == UNION ? list_union(s, a, k) : list_rows(s, a, k, n_last));
    choice->lists = (sac_choice_lists){s->rows, s->starts.at, n_lists(s, shape)};
    choice->n_chosen = (double)(shape->n_heads * (k * s->page + n_last));
    a->stats->n_selections += then == n_rows;
    return SAC_OK;
}

const sac_decode_policy sac_decode_quest = {
    .name = "quest",
    .source = "Tang et al., Quest, arXiv:2406.10774",
    .params = params,
    .budget = "budget",
    .state_bytes = sizeof(quest),
    .check = check,
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = learn_prompt,
    .prompt_without_queries = true,
    .keeps_prefix = true,
    .cut = cut,
    .select = select_rows,
};
