/* twilight.c - another method's choice, cut down to what carries the weight.
 *
 * Twilight (Lin et al., arXiv:2502.02770). A base method chooses generously; the weights of its rows are
 * estimated from a copy of the keys in 4 bits, one range a row and head; they are normalised over these rows,
 * and each query head keeps the smallest set that holds a share p of them (Algorithm 1, with an exact search
 * for the threshold, whole classes of equal weights). The rows that any head of a key-value group keeps are
 * read by the whole group (union=1, the paper's third version), or each head reads its own (union=0). The
 * full-precision keys then give the true weights. In the first layers the base's choice is not cut (quest and
 * doublesparse are dense there; a base that reads its rows at compact positions may have to).
 *
 * Thresholds are scores, so that no weights need be kept; ops make the lists and count them. Over a base that
 * reads its rows at compact positions (tokenselect, streaming) the copy's rows are turned to their places, what
 * is kept are places, and the rows of these are gathered. */
#include "attend.h"
#include "gathered.h"
#include "key_copy.h"

#include <string.h>

enum { BASE, P, BITS, SKIP, UNION, FORCE_LAST };

static const char *const widths[] = {"4", "2", "8", NULL};
static const int width_bits[] = {4, 2, 8};

static const sac_method_param params[] = {
    {"base", 0, 0, 4, "method whose choice is cut down; its settings are base.<name>", sac_decode_base_names},
    {"p", 0.95, 0, 1, "share of the base's weight that a head keeps", NULL},
    {"bits", 0, 0, 2, "of the copy of the keys that weights are estimated from", widths},
    {"skip", 2, 0, 1 << 16, "first layers where the base's choice is not cut", SAC_WHOLE},
    {"union", 1, 0, 1, "1: a group reads what any of its heads keeps; 0: each head its own", SAC_WHOLE},
    {"force_last", 0, 0, 1, "1: the step's own token is always kept", SAC_WHOLE},
    {0}};

typedef struct twilight {
    double p;
    bool unite, force_last;
    int bits, skip, n_layers;
    sac_decode *base;
    sac_packed_rows *copy; /* [n_layers - skip], keys only; n counts the rows packed */
    int64_t *known;        /* [n_layers][2] what of the sums is in the stats */
    bool is_ahead;         /* there is more in the sums than is known */
    /* Where ops run: */
    float *scores;    /* [n_heads][n_ctx], by row or by place in the list */
    float *threshold; /* [n_heads] */
    int64_t *n_kept;  /* [n_heads] */
    int32_t *rows;    /* [lists][n_ctx] */
    int64_t *start;   /* [n_heads + 1] */
    sac_buffer
        sums; /* int64_t [n_layers][2] rows of the lists, rows that heads kept; since the session began */
} twilight;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[BASE] == 0 && (p[SKIP] >= (double)shape->n_layers || p[P] >= 1);
}

/* The paper's: 8,192 rows, or a quarter where that is more; generous, as it is cut down afterwards. */
static int64_t base_budget(const sac_attention_shape *shape) {
    const int64_t rows = 8192, quarter = shape->n_ctx / 4;
    return quarter > rows ? quarter : rows;
}

static void wrap(void *state, sac_decode *base) {
    ((twilight *)state)->base = base;
}

static int count_lists(const twilight *s, const sac_attention_shape *shape) {
    return s->unite ? shape->n_kv_heads : shape->n_heads;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    twilight *s = state;
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    s->p = p[P];
    s->bits = width_bits[(int)p[BITS]];
    s->skip = p[SKIP] < (double)shape->n_layers ? (int)p[SKIP] : shape->n_layers;
    s->unite = p[UNION] != 0;
    s->force_last = p[FORCE_LAST] != 0;
    s->n_layers = shape->n_layers;
    s->copy = sac_take_host(memory, (size_t)(s->n_layers - s->skip) * sizeof *s->copy);
    for (int i = 0; i < s->n_layers - s->skip; i++) {
        sac_packed_rows copy =
            sac_key_copy_take(shape, sac_key_copy_capacity(shape), shape->head_dim, s->bits, memory);
        if (s->copy) s->copy[i] = copy;
    }
    s->scores = sac_take_device(memory, n_heads * n_ctx * sizeof(float));
    s->threshold = sac_take_device(memory, n_heads * sizeof(float));
    s->n_kept = sac_take_device(memory, n_heads * sizeof *s->n_kept);
    s->rows = sac_take_device(memory, (size_t)count_lists(s, shape) * n_ctx * sizeof *s->rows);
    s->start = sac_take_device(memory, (n_heads + 1) * sizeof *s->start);
    s->sums = sac_take_both(memory, (size_t)s->n_layers * 2 * sizeof(int64_t));
    s->known = sac_take_host(memory, (size_t)s->n_layers * 2 * sizeof *s->known);
}

static void begin(void *state) {
    twilight *s = state;
    for (int i = 0; i < s->n_layers - s->skip; i++) s->copy[i].n = 0;
}

static void cut(void *state, int64_t n, bool own_stays) {
    (void)own_stays;
    twilight *s = state;
    for (int i = 0; i < s->n_layers - s->skip; i++)
        if (s->copy[i].n > n) s->copy[i].n = n;
}

/* Packs rows that have come since the last call. */
static sac_status pack_rows(twilight *s, const sac_layer_attention *a) {
    sac_packed_rows *copy = &s->copy[a->layer - s->skip];
    int64_t first = copy->n, n = a->kv.n_rows - first;
    if (n <= 0) return SAC_OK;
    copy->n += n;
    sac_status st = a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = *copy, .kv = a->kv, .rows = {NULL, n, first, 1}, .to = first});
    if (st != SAC_OK) copy->n = first;
    return st;
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    twilight *s = state;
    const sac_decode_policy *base = s->base->policy;
    if (base->prompt) SAC_TRY(base->prompt(s->base->state, a));
    return a->layer < s->skip ? SAC_OK : pack_rows(s, a);
}

/* ---------------------------------------------------------------- a step */

/* The base's lists as the scores are made of them: place by place where they are equally long, have their own
 * row where that is forced, and each is whole in a list of what is kept. */
typedef struct estimated {
    sac_choice_lists lists; /* of rows; n_lists 0: all rows */
    int64_t n;              /* scores of a head */
} estimated;

/* Rows of each list, -1 when they are not equally long. */
static int64_t list_length(const sac_choice_lists *l) {
    int64_t n = l->start.host ? sac_choice_begin(l, 1) : -1;
    for (int i = 1; i < l->n_lists && n >= 0; i++)
        if (sac_choice_begin(l, i + 1) - sac_choice_begin(l, i) != n) return -1;
    return n;
}

static estimated what_to_estimate(const twilight *s, const sac_layer_attention *a, const sac_choice *choice) {
    const estimated all = {.n = a->kv.n_rows};
    const sac_choice_lists *l = &choice->lists;
    if (sac_choice_is_all(choice)) return all;
    const estimated e = {*l, list_length(l)};
    if (choice->kind == SAC_CHOICE_PLACES) return e;
    bool lacks_own = s->force_last && s->base->policy->may_omit_own;
    return e.n < 0 || lacks_own || count_lists(s, a->shape) % l->n_lists != 0 ? all : e;
}

/* Scores of the copy's keys, of all rows: those that the base did not choose count for nothing. */
static sac_status estimate(twilight *s, const sac_layer_attention *a, const sac_choice *choice,
                           const estimated *e) {
    const sac_attention_shape *shape = a->shape;
    sac_packed_scores_args scores = {.scores = s->scores,
                                     .stride = shape->n_ctx,
                                     .n = e->n,
                                     .q = a->q,
                                     .keys = s->copy[a->layer - s->skip],
                                     .rows = e->lists.rows,
                                     .n_lists = e->lists.rows ? e->lists.n_lists : 1,
                                     .rotation = &a->rotation,
                                     .n_heads = shape->n_heads,
                                     .scale = a->scale};
    if (choice->kind == SAC_CHOICE_PLACES) scores.turn_back = choice->room->turn_keys;
    SAC_TRY(a->ops->packed_scores(a->stream, &scores));
    if (e->lists.rows || sac_choice_is_all(choice)) return SAC_OK;
    return a->ops->mask_scores(a->stream,
                               &(sac_mask_scores_args){.scores = s->scores,
                                                       .stride = shape->n_ctx,
                                                       .n = e->n,
                                                       .n_rows = shape->n_heads,
                                                       .lists = sac_choice_row_lists(&choice->lists)});
}

/* Each head's smallest set, and lists of what is read: places of a compact list, else rows. */
static sac_status list_kept(twilight *s, const sac_layer_attention *a, bool places, const estimated *e) {
    const sac_attention_shape *shape = a->shape;
    const bool listed = e->lists.rows && !places;
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = s->scores,
                                                       .stride = shape->n_ctx,
                                                       .n = e->n,
                                                       .n_rows = shape->n_heads,
                                                       .p = s->p,
                                                       .threshold = s->threshold,
                                                       .n_kept = s->n_kept,
                                                       .scores = true}));
    s->is_ahead = true;
    return a->ops->kept_rows(a->stream,
                             &(sac_kept_rows_args){.rows = s->rows,
                                                   .start = s->start,
                                                   .values = s->scores,
                                                   .stride = shape->n_ctx,
                                                   .n = e->n,
                                                   .n_rows = shape->n_heads,
                                                   .n_lists = count_lists(s, shape),
                                                   .threshold = s->threshold,
                                                   .from = listed ? e->lists.rows : NULL,
                                                   .n_from = listed ? e->lists.n_lists : 0,
                                                   .last = s->force_last,
                                                   .sums = (int64_t *)s->sums.device + 2 * a->layer});
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    twilight *s = state;
    bool cuts = a->layer >= s->skip && s->p < 1;
    if (a->layer >= s->skip) SAC_TRY(pack_rows(s, a));
    choice->wants_rows = cuts;
    SAC_TRY(s->base->policy->select(s->base->state, a, choice));
    if (!cuts) return SAC_OK;
    const estimated e = what_to_estimate(s, a, choice);
    const bool places = choice->kind == SAC_CHOICE_PLACES;
    const sac_choice_lists kept = {s->rows, {NULL, s->start}, count_lists(s, a->shape)};
    if (places) SAC_TRY(sac_turn_to_places(a, a->q, a->position, &choice->lists, choice->room));
    SAC_TRY(estimate(s, a, choice, &e));
    SAC_TRY(list_kept(s, a, places, &e));
    if (sac_choice_is_all(choice)) a->stats->n_selections++; /* bases count theirs */
    choice->n_chosen = 0;                                    /* kept_rows counts */
    choice->lists = kept;
    if (!places) return SAC_OK;
    const sac_row_lists read = sac_choice_row_lists(&kept);
    SAC_TRY(sac_gather_rows(a, &e.lists, &read, choice->room));
    choice->kind = SAC_CHOICE_VIEW;
    choice->view = (sac_choice_view){.kv = choice->room->view, .rows = e.lists.rows};
    return SAC_OK;
}

static sac_status counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                          sac_layer_stats *stats) {
    twilight *s = state;
    size_t n_bytes = (size_t)s->n_layers * 2 * sizeof *s->known;
    int n_lists = count_lists(s, shape);
    const int64_t *sums = s->sums.host;
    if (!s->is_ahead) return SAC_OK;
    SAC_TRY(sac_buffer_fetch(shape->device, stream, s->sums, n_bytes));
    for (int i = 0; i < s->n_layers; i++) { /* lists of query heads: the mean of a group */
        stats[i].decode_rows += (double)(sums[2 * i] - s->known[2 * i]) / n_lists * shape->n_kv_heads;
        stats[i].decode_budget += (double)(sums[2 * i + 1] - s->known[2 * i + 1]);
    }
    memcpy(s->known, sums, n_bytes);
    s->is_ahead = false;
    return SAC_OK;
}

const sac_decode_policy sac_decode_twilight = {
    .name = "twilight",
    .source = "Lin et al., Twilight, arXiv:2502.02770",
    .params = params,
    .state_bytes = sizeof(twilight),
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = prompt,
    .keeps_prefix = true,
    .cut = cut,
    .select = select_rows,
    .wrap = wrap,
    .base_budget = base_budget,
    .counted = counted,
};
