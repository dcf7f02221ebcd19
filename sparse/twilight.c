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
 * The estimate runs over all rows of the copy, chosen or not: an eighth of the bytes of dense attention, in
 * the shared op for packed keys. Over a base that reads its rows at compact positions (tokenselect,
 * streaming) the copy's rows are turned there first, and the kept ones stay where the base put them. On a
 * device only the base's rows are estimated (twilight_device.c). */
#include "twilight.h"

#include "attend.h"
#include "gathered.h"

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

typedef sac_twilight twilight;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[BASE] == 0 && (p[SKIP] >= (double)shape->n_layers || p[P] >= 1);
}

static sac_status check_base(const double *p, const sac_decode *base, const sac_attention_shape *shape,
                             sac_error *err) {
    const sac_decode_policy *b = base->policy;
    bool by_head = b->lists_query_heads && b->lists_query_heads(base->p);
    if (!shape->device) return SAC_OK;
    if (by_head && p[UNION] != 0 && shape->n_heads != shape->n_kv_heads)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "twilight over lists of query heads joins them on the CPU only so far: leave out "
                        "base.heads=query, or use union=0");
    if (p[FORCE_LAST] != 0 && b->may_omit_own)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "twilight with force_last=1 over %s runs on the CPU only so far: leave it out",
                        b->name);
    return SAC_OK;
}

static void wrap(void *state, sac_decode *base) {
    ((twilight *)state)->base = base;
}

/* What the CPU's choice works with. */
static void take_work(twilight *s, const sac_attention_shape *shape, const sac_memory *memory) {
    sac_arena *arena = memory->host;
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx, d = (size_t)shape->head_dim;
    for (int i = 0; i < s->n_layers - s->skip; i++) {
        sac_packed_rows copy = sac_key_copy_take(shape, shape->n_ctx, shape->head_dim, s->bits, memory);
        if (s->copy) s->copy[i] = copy;
    }
    sac_key_block_take(&s->keys, shape, memory);
    s->codes = sac_arena_take(arena, d);
    s->scores = sac_arena_take(arena, n_heads * n_ctx * sizeof(float));
    s->weights = sac_arena_take(arena, n_heads * n_ctx * sizeof(float));
    s->lse = sac_arena_take(arena, n_heads * sizeof(float));
    s->threshold = sac_arena_take(arena, n_heads * sizeof(float));
    s->counts = sac_arena_take(arena, n_heads * sizeof *s->counts);
    s->n_kept = sac_arena_take(arena, n_heads * sizeof *s->n_kept);
    s->query = sac_arena_take(arena, n_heads * d * sizeof(float));
    s->marks = sac_arena_take(arena, n_ctx);
    s->rows = sac_arena_take(arena, (size_t)sac_twilight_n_lists(s, shape) * n_ctx * sizeof *s->rows);
    s->start = sac_arena_take(arena, (n_heads + 1) * sizeof *s->start);
    s->part = sac_arena_take(arena, n_ctx * sizeof *s->part);
    s->number = sac_arena_take(arena, n_ctx * sizeof *s->number);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    twilight *s = state;
    s->p = p[P];
    s->bits = width_bits[(int)p[BITS]];
    s->skip = p[SKIP] < (double)shape->n_layers ? (int)p[SKIP] : shape->n_layers;
    s->unite = p[UNION] != 0;
    s->force_last = p[FORCE_LAST] != 0;
    s->n_layers = shape->n_layers;
    s->copy = sac_take_host(memory, (size_t)(s->n_layers - s->skip) * sizeof *s->copy);
    if (shape->device)
        sac_twilight_take_there(s, shape, memory);
    else
        take_work(s, shape, memory);
}

static void begin(void *state) {
    twilight *s = state;
    for (int i = 0; i < s->n_layers - s->skip; i++) s->copy[i].n = 0;
}

static void cut(void *state, int64_t n) {
    twilight *s = state;
    for (int i = 0; i < s->n_layers - s->skip; i++)
        if (s->copy[i].n > n) s->copy[i].n = n;
}

/* ---------------------------------------------------------------- the copy of the keys */

/* Packs rows that have come since the last call. */
static sac_status pack_rows(twilight *s, const sac_layer_attention *a) {
    sac_packed_rows *copy = &s->copy[a->layer - s->skip];
    if (a->shape->device) return sac_twilight_pack_there(s, a);
    while (copy->n < a->kv.n_rows) {
        int64_t n = sac_key_block_next(copy->n, a->kv.n_rows);
        SAC_TRY(sac_key_block_load(&s->keys, a, copy->n, n));
        for (int h = 0; h < copy->n_heads; h++)
            for (int64_t i = 0; i < n; i++)
                sac_key_copy_put(copy, h, copy->n + i, sac_key_block_row(&s->keys, h, i), s->codes);
        copy->n += n;
    }
    return SAC_OK;
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    twilight *s = state;
    const sac_decode_policy *base = s->base->policy;
    if (base->prompt) SAC_TRY(base->prompt(s->base->state, a));
    return a->layer < s->skip ? SAC_OK : pack_rows(s, a);
}

/* ---------------------------------------------------------------- estimated weights of the base's rows */

/* Of all rows, by row. */
static sac_status estimate(twilight *s, const sac_layer_attention *a) {
    const sac_packed_rows *copy = &s->copy[a->layer - s->skip];
    return a->ops->packed_attention(a->stream, &(sac_packed_attention_args){.q = sac_mat_row_f32(a->q, 0),
                                                                            .parts = copy,
                                                                            .n_parts = 1,
                                                                            .n_heads = a->shape->n_heads,
                                                                            .scale = a->scale,
                                                                            .scores = s->scores,
                                                                            .stride = a->shape->n_ctx});
}

/* Weights of each head's listed rows, before the softmax. */
static void gather_scores(twilight *s, const sac_layer_attention *a, const sac_choice *choice) {
    int64_t stride = a->shape->n_ctx;
    for (int h = 0; h < a->shape->n_heads; h++) {
        float *to = s->weights + h * stride;
        const float *from = s->scores + h * stride;
        if (sac_choice_is_all(choice)) {
            s->counts[h] = a->kv.n_rows;
            memcpy(to, from, (size_t)a->kv.n_rows * sizeof *to);
            continue;
        }
        const sac_choice_lists *l = &choice->lists;
        int list = h / (a->shape->n_heads / l->n_lists);
        int64_t begin = sac_choice_begin(l, list);
        s->counts[h] = sac_choice_begin(l, list + 1) - begin;
        for (int64_t i = 0; i < s->counts[h]; i++) to[i] = from[l->rows[begin + i]];
    }
}

/* The copy's keys of a compact list, turned to their places, against the query at its end. The base's scratch
 * is free until the attention. */
static sac_status estimate_compact(twilight *s, const sac_layer_attention *a, const sac_choice *choice) {
    const sac_packed_rows *copy = &s->copy[a->layer - s->skip];
    const int32_t *rows = choice->lists.rows;
    int64_t n = sac_choice_begin(&choice->lists, 1), d = copy->head_dim;
    sac_gathered *room = choice->room;
    float *unpacked = room->k;
    int32_t *query_turn = room->turn.host;
    sac_rope_args turn = {.head_dim = (int)d, .rotation = a->rotation, .pos = room->turn_keys, .back = true};
    for (int h = 0; h < copy->n_heads; h++) {
        for (int64_t i = 0; i < n; i++) sac_packed_get_key(copy, h, rows[i], unpacked + (h * n + i) * d);
        turn.n_heads = 1;
        turn.x = sac_mat_f32(unpacked + h * n * d, n, d);
        SAC_TRY(a->ops->rope(a->stream, &turn));
    }
    memcpy(s->query, sac_mat_row_f32(a->q, 0), (size_t)a->q.cols * sizeof(float));
    query_turn[0] = a->position[0] - (int32_t)(n - 1);
    turn.pos = query_turn;
    turn.n_heads = a->shape->n_heads;
    turn.x = sac_mat_f32(s->query, 1, a->q.cols);
    SAC_TRY(a->ops->rope(a->stream, &turn));
    for (int h = 0; h < a->shape->n_heads; h++) s->counts[h] = n;
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = s->weights,
                                                                .stride = a->shape->n_ctx,
                                                                .q = s->query,
                                                                .kv = sac_gathered_view(room, a, n),
                                                                .n_heads = a->shape->n_heads,
                                                                .n = n,
                                                                .scale = a->scale});
}

/* ---------------------------------------------------------------- the smallest sets */

static sac_status find_thresholds(twilight *s, const sac_layer_attention *a) {
    int64_t stride = a->shape->n_ctx;
    int n_heads = a->shape->n_heads;
    SAC_TRY(a->ops->softmax(a->stream, &(sac_softmax_args){.scores = s->weights,
                                                           .stride = stride,
                                                           .counts = s->counts,
                                                           .n_rows = n_heads,
                                                           .lse = s->lse,
                                                           .weights = s->weights}));
    return a->ops->top_p(a->stream, &(sac_top_p_args){.weights = s->weights,
                                                      .counts = s->counts,
                                                      .stride = stride,
                                                      .n_rows = n_heads,
                                                      .p = s->p,
                                                      .threshold = s->threshold,
                                                      .n_kept = s->n_kept});
}

/* Row of a head's listed place. */
static int32_t row_at(const sac_choice *choice, int n_heads, int head, int64_t i) {
    if (sac_choice_is_all(choice)) return (int32_t)i;
    const sac_choice_lists *l = &choice->lists;
    return l->rows[sac_choice_begin(l, head / (n_heads / l->n_lists)) + i];
}

/* 1 when force_last adds a row to what the head keeps. */
static int64_t forced(const twilight *s, const sac_layer_attention *a, const sac_choice *choice, int head) {
    int64_t last = s->counts[head] - 1;
    if (!s->force_last) return 0;
    if (last < 0 || row_at(choice, a->shape->n_heads, head, last) != a->kv.n_rows - 1) return 1;
    return !(s->weights[head * a->shape->n_ctx + last] >= s->threshold[head]);
}

/* Marks what heads [first, end) keep: rows, or places in the list when it is compact. */
static void mark_kept(twilight *s, const sac_layer_attention *a, const sac_choice *choice, int first, int end,
                      int64_t n_marks) {
    int64_t stride = a->shape->n_ctx;
    memset(s->marks, 0, (size_t)n_marks);
    for (int h = first; h < end; h++) {
        const float *w = s->weights + h * stride;
        for (int64_t i = 0; i < s->counts[h]; i++)
            if (w[i] >= s->threshold[h])
                s->marks[choice->kind == SAC_CHOICE_PLACES ? i : row_at(choice, a->shape->n_heads, h, i)] = 1;
    }
    if (s->force_last) s->marks[n_marks - 1] = 1;
}

/* Lists of what is kept, by row, or by place in a compact list. */
static sac_choice_lists list_kept(twilight *s, const sac_layer_attention *a, const sac_choice *choice) {
    int n_heads = a->shape->n_heads, n_lists = s->unite ? a->shape->n_kv_heads : n_heads;
    int64_t n_marks = choice->kind == SAC_CHOICE_PLACES ? s->counts[0] : a->kv.n_rows, n = 0;
    for (int i = 0; i < n_lists; i++) {
        s->start[i] = n;
        mark_kept(s, a, choice, i * (n_heads / n_lists), (i + 1) * (n_heads / n_lists), n_marks);
        for (int64_t j = 0; j < n_marks; j++)
            if (s->marks[j]) s->rows[n++] = (int32_t)j;
    }
    s->start[n_lists] = n;
    return (sac_choice_lists){s->rows, {s->start, s->start}, n_lists};
}

/* Of a compact list: the rows that any head keeps are gathered, turned to where they stood in it; the heads'
 * lists then count these rows. */
static sac_status cut_compact(twilight *s, const sac_layer_attention *a, sac_choice *choice,
                              sac_choice_lists kept) {
    int64_t n_all = sac_choice_begin(&choice->lists, 1), n_kept = sac_choice_begin(&kept, kept.n_lists),
            n = 0;
    sac_gathered *room = choice->room;
    int32_t *query_turn = room->turn.host;
    memset(s->marks, 0, (size_t)n_all);
    for (int64_t i = 0; i < n_kept; i++) s->marks[kept.rows[i]] = 1;
    for (int64_t i = 0; i < n_all; i++) {
        if (!s->marks[i]) continue;
        s->number[i] = (int32_t)n;
        s->part[n] = choice->lists.rows[i];
        room->turn_keys[n++] = choice->lists.rows[i] - (int32_t)i;
    }
    for (int64_t i = 0; i < n_kept; i++) s->rows[i] = s->number[s->rows[i]];
    const int64_t start[2] = {0, n};
    choice->kind = SAC_CHOICE_VIEW;
    choice->lists = kept;
    choice->view = (sac_choice_view){.kv = sac_gathered_view(room, a, n), .rows = s->part};
    SAC_TRY(a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = choice->view.kv,
                                                               .src = a->kv,
                                                               .lists = &(sac_row_lists){s->part, start, 1},
                                                               .turn_back = room->turn_keys,
                                                               .rotation = &a->rotation}));
    query_turn[0] = a->position[0] - (int32_t)(n_all - 1);
    return sac_turn_queries(a, a->q, query_turn);
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    twilight *s = state;
    bool cuts = a->layer >= s->skip && s->p < 1;
    if (a->layer >= s->skip) SAC_TRY(pack_rows(s, a));
    choice->wants_rows = cuts;
    SAC_TRY(s->base->policy->select(s->base->state, a, choice));
    if (!cuts) return SAC_OK;
    if (a->shape->device) return sac_twilight_cut_there(s, a, choice);
    bool compact = choice->kind == SAC_CHOICE_PLACES;
    if (compact) {
        SAC_TRY(estimate_compact(s, a, choice));
    } else {
        SAC_TRY(estimate(s, a));
        gather_scores(s, a, choice);
    }
    SAC_TRY(find_thresholds(s, a));
    sac_choice_lists kept = list_kept(s, a, choice);
    choice->n_chosen = 0;
    for (int h = 0; h < a->shape->n_heads; h++)
        choice->n_chosen += (double)(s->n_kept[h] + forced(s, a, choice, h));
    if (sac_choice_is_all(choice)) a->stats->n_selections++; /* bases count theirs */
    if (compact) return cut_compact(s, a, choice, kept);
    choice->lists = kept;
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
    .check_base = check_base,
    .wrap = wrap,
    .counted = sac_twilight_counted,
};
