/* doublesparse.c - find the tokens by a few channels, read them by all.
 *
 * Double Sparsity (Yang et al., arXiv:2408.07092). Few channels of a head carry most of q . k, and they are
 * the same ones for all tokens. A copy of each key's r best channels, its label, is scored against the same
 * channels of the query; the k best tokens are then attended to with whole keys. The first layers stay dense;
 * prompts are dense.
 *
 * Channels are ranked by the mean of |q_c k_c| over tokens, queries and keys after rope and of the same
 * token, as in the paper's calibration. The paper calibrates on a corpus, once for a model; here the first
 * prompt of a sequence is the corpus, so no file has to fit the model, and later tokens use the channels of
 * that prompt. Where key-value heads serve groups of query heads, which the paper leaves open, a group has
 * one set of channels (the mean goes over its heads) and by default one set of tokens, by the soft vote of
 * its heads.
 *
 * On a device labels and choices stay there: labels of 16 bits, one list a group by its vote or one a head.
 */
#include "key_block.h"

#include <math.h>
#include <string.h>

enum { K, CHANNELS, BITS, SKIP, HEADS };
enum { VOTE, UNION, QUERY };

static const char *const widths[] = {"16", "8", "4", "2", NULL};
static const int width_bits[] = {16, 8, 4, 2};
static const char *const sharings[] = {"vote", "union", "query", NULL};

static const sac_method_param params[] = {
    {"k", 2048, 1, 1 << 24, "tokens that a head chooses", SAC_WHOLE},
    {"channels", 0, 0, 1024, "of a key in its label; 0 = an eighth of the head", SAC_WHOLE},
    {"bits", 0, 0, 3, "of a label's channel: a half, or codes with a range for each label", widths},
    {"skip", 2, 0, 1 << 16, "first layers that stay dense", SAC_WHOLE},
    {"heads", VOTE, 0, 2, "tokens of a group: its heads' soft vote, what any head chose, or each its own",
     sharings},
    {0}};

typedef struct doublesparse {
    int64_t k;
    int r, bits, skip, sharing, n_layers;
    int32_t *channels;      /* [n_layers - skip][n_kv_heads][r], ascending */
    int64_t *n_known;       /* [n_layers] rows that have labels */
    uint16_t *labels;       /* of 16 bits: [n_layers - skip][n_kv_heads][n_ctx][r] */
    sac_packed_rows *codes; /* of fewer: [n_layers - skip] */
    uint8_t *code;          /* [r] */
    sac_key_block keys;
    float *importance; /* [n_kv_heads][head_dim] */
    float *label;      /* [n_heads][r] */
    float *scores;     /* [n_heads][n_ctx] */
    float *votes;      /* [n_kv_heads][n_ctx] */
    float *lse;        /* [n_heads] */
    int32_t *best;     /* [n_heads][k] */
    uint8_t *marks;    /* [n_ctx] */
    int32_t *rows;     /* of unions: [n_kv_heads][n_ctx] */
    int64_t *start;    /* [n_heads + 1] */
    int64_t *there;    /* the same on a device */
    bool is_there;     /* it has been sent: lists are always as long */
} doublesparse;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[K] >= (double)shape->n_ctx || p[SKIP] >= (double)shape->n_layers;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (shape->device && (p[BITS] != 0 || p[HEADS] == UNION))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "doublesparse with bits or heads=union runs on the CPU only so far: leave bits and union out");
    if (p[CHANNELS] <= shape->head_dim) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "doublesparse: channels=%g: a head of this model has %d",
                    p[CHANNELS], shape->head_dim);
}

static void take_labels(doublesparse *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n = (size_t)(s->n_layers - s->skip), r = (size_t)s->r;
    size_t rows = (size_t)shape->n_kv_heads * (size_t)shape->n_ctx;
    s->channels = sac_arena_take(arena, n * (size_t)shape->n_kv_heads * r * sizeof *s->channels);
    if (s->bits == 16) {
        s->labels = sac_arena_take(arena, n * rows * r * sizeof *s->labels);
        return;
    }
    s->code = sac_arena_take(arena, r);
    s->codes = sac_arena_take(arena, n * sizeof *s->codes);
    for (size_t i = 0; i < n; i++) {
        sac_packed_rows codes = sac_key_copy_take(shape, s->r, s->bits, arena);
        if (s->codes) s->codes[i] = codes;
    }
}

/* What ops read and write. */
static void take_work(doublesparse *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n_heads = (size_t)shape->n_heads, n_kv = (size_t)shape->n_kv_heads, n_ctx = (size_t)shape->n_ctx;
    take_labels(s, shape, arena);
    s->importance = sac_arena_take(arena, n_kv * (size_t)shape->head_dim * sizeof(float));
    s->label = sac_arena_take(arena, n_heads * (size_t)s->r * sizeof(float));
    s->scores = sac_arena_take(arena, n_heads * n_ctx * sizeof(float));
    s->votes = sac_arena_take(arena, n_kv * n_ctx * sizeof(float));
    s->lse = sac_arena_take(arena, n_heads * sizeof(float));
    s->best = sac_arena_take(arena, n_heads * (size_t)s->k * sizeof *s->best);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    doublesparse *s = state;
    size_t n_kv = (size_t)shape->n_kv_heads, n_ctx = (size_t)shape->n_ctx;
    s->k = (int64_t)p[K];
    s->r = p[CHANNELS] > 0 ? (int)p[CHANNELS] : (shape->head_dim + 7) / 8;
    s->bits = width_bits[(int)p[BITS]];
    s->skip = (int)p[SKIP];
    s->sharing = (int)p[HEADS];
    s->n_layers = shape->n_layers;
    s->n_known = sac_arena_take(arena, (size_t)s->n_layers * sizeof *s->n_known);
    s->start = sac_arena_take(arena, ((size_t)shape->n_heads + 1) * sizeof *s->start);
    if (shape->device) return;
    take_work(s, shape, arena);
    sac_key_block_take(&s->keys, shape, arena);
    if (s->sharing != UNION) return;
    s->marks = sac_arena_take(arena, n_ctx);
    s->rows = sac_arena_take(arena, n_kv * n_ctx * sizeof *s->rows);
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    doublesparse *s = state;
    (void)p;
    take_work(s, shape, arena);
    s->there = sac_arena_take(arena, ((size_t)shape->n_heads + 1) * sizeof *s->there);
}

static void begin(void *state) {
    doublesparse *s = state;
    memset(s->n_known, 0, (size_t)s->n_layers * sizeof *s->n_known);
}

static int32_t *channels_of(const doublesparse *s, const sac_layer_attention *a, int head) {
    return s->channels + ((int64_t)(a->layer - s->skip) * a->shape->n_kv_heads + head) * s->r;
}

/* ---------------------------------------------------------------- which channels */

/* Adds |q_c k_c| of tokens [first, first + n) of the prompt, whose keys are loaded. */
static void add_importance(doublesparse *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    int d = a->shape->head_dim, group = a->shape->n_heads / a->shape->n_kv_heads;
    for (int64_t i = 0; i < n; i++)
        for (int h = 0; h < a->shape->n_heads; h++) {
            const float *q = sac_mat_row_f32(a->q, first + i) + h * d;
            const float *k = sac_key_block_row(&s->keys, h / group, i);
            float *sum = s->importance + h / group * d;
            for (int c = 0; c < d; c++) sum[c] += fabsf(q[c] * k[c]);
        }
}

static sac_status sum_importance(doublesparse *s, const sac_layer_attention *a) {
    int d = a->shape->head_dim, n_kv = a->shape->n_kv_heads;
    if (a->shape->device)
        return a->ops->channel_sums(a->stream, &(sac_channel_sums_args){.sums = s->importance,
                                                                        .q = a->q,
                                                                        .kv = a->kv,
                                                                        .first = a->past,
                                                                        .n_heads = a->shape->n_heads});
    memset(s->importance, 0, (size_t)n_kv * (size_t)d * sizeof(float));
    for (int64_t i = 0; i < a->q.rows;) {
        int64_t n = sac_key_block_next(i, a->q.rows);
        SAC_TRY(sac_key_block_load(&s->keys, a, a->past + i, n));
        add_importance(s, a, i, n);
        i += n;
    }
    return SAC_OK;
}

static sac_status choose_channels(doublesparse *s, const sac_layer_attention *a) {
    int d = a->shape->head_dim;
    SAC_TRY(sum_importance(s, a));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->importance,
                                                      .stride = d,
                                                      .n = d,
                                                      .n_rows = a->shape->n_kv_heads,
                                                      .k = s->r,
                                                      .indices = channels_of(s, a, 0)});
}

/* ---------------------------------------------------------------- labels */

static uint16_t *label_row(const doublesparse *s, const sac_layer_attention *a, int head, int64_t row) {
    int64_t of_layer = (int64_t)(a->layer - s->skip) * a->shape->n_kv_heads + head;
    return s->labels + (of_layer * a->shape->n_ctx + row) * s->r;
}

/* The layer's as keys of few channels. */
static sac_kv_view labels_of_layer(const doublesparse *s, const sac_layer_attention *a) {
    uint16_t *labels = label_row(s, a, 0, 0);
    return (sac_kv_view){.k = labels,
                         .v = labels,
                         .dtype = SAC_DTYPE_F16,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = s->r,
                         .n_rows = a->kv.n_rows,
                         .row_stride = s->r,
                         .head_stride = a->shape->n_ctx * s->r};
}

static sac_status label_rows_there(doublesparse *s, const sac_layer_attention *a) {
    int64_t *known = &s->n_known[a->layer], first = *known;
    *known = a->kv.n_rows;
    return a->ops->pick_channels(a->stream, &(sac_pick_channels_args){.dst = labels_of_layer(s, a),
                                                                      .src = a->kv,
                                                                      .channels = channels_of(s, a, 0),
                                                                      .n_sets = a->shape->n_kv_heads,
                                                                      .first = first,
                                                                      .n = a->kv.n_rows - first});
}

static void put_label(doublesparse *s, const sac_layer_attention *a, int head, int64_t row,
                      const float *key) {
    const int32_t *channels = channels_of(s, a, head);
    for (int c = 0; c < s->r; c++) s->label[c] = key[channels[c]];
    if (s->bits < 16) {
        sac_key_copy_put(&s->codes[a->layer - s->skip], head, row, s->label, s->code);
        return;
    }
    uint16_t *label = label_row(s, a, head, row);
    for (int c = 0; c < s->r; c++) label[c] = sac_f32_to_f16(s->label[c]);
}

/* Labels of rows that have come since the last call. */
static sac_status label_rows(doublesparse *s, const sac_layer_attention *a) {
    if (a->shape->device) return label_rows_there(s, a);
    for (int64_t *known = &s->n_known[a->layer]; *known < a->kv.n_rows;) {
        int64_t n = sac_key_block_next(*known, a->kv.n_rows);
        SAC_TRY(sac_key_block_load(&s->keys, a, *known, n));
        for (int h = 0; h < a->shape->n_kv_heads; h++)
            for (int64_t i = 0; i < n; i++) put_label(s, a, h, *known + i, sac_key_block_row(&s->keys, h, i));
        *known += n;
        if (s->codes) s->codes[a->layer - s->skip].n = *known;
    }
    return SAC_OK;
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    doublesparse *s = state;
    if (a->layer < s->skip) return SAC_OK;
    if (s->n_known[a->layer] == 0) SAC_TRY(choose_channels(s, a));
    return label_rows(s, a);
}

/* ---------------------------------------------------------------- a step */

/* The same channels of the query, for every head. */
static sac_status label_query(doublesparse *s, const sac_layer_attention *a) {
    int n_heads = a->shape->n_heads, group = n_heads / a->shape->n_kv_heads, d = a->shape->head_dim;
    if (a->shape->device) {
        sac_kv_view q = {a->q.data, a->q.data, a->q.dtype, n_heads, d, 1, a->q.stride, d};
        sac_kv_view label = {s->label, s->label, SAC_DTYPE_F32, n_heads, s->r, 1, n_heads * s->r, s->r};
        return a->ops->pick_channels(a->stream, &(sac_pick_channels_args){.dst = label,
                                                                          .src = q,
                                                                          .channels = channels_of(s, a, 0),
                                                                          .n_sets = a->shape->n_kv_heads,
                                                                          .n = 1});
    }
    const float *q = sac_mat_row_f32(a->q, 0);
    for (int h = 0; h < n_heads; h++)
        for (int c = 0; c < s->r; c++) s->label[h * s->r + c] = q[h * d + channels_of(s, a, h / group)[c]];
    return SAC_OK;
}

/* Scores of all rows for every query head, by the labels. */
static sac_status score_labels(doublesparse *s, const sac_layer_attention *a, int64_t n_rows) {
    int n_heads = a->shape->n_heads;
    SAC_TRY(label_query(s, a));
    if (s->codes)
        return a->ops->packed_attention(a->stream,
                                        &(sac_packed_attention_args){.q = s->label,
                                                                     .parts = &s->codes[a->layer - s->skip],
                                                                     .n_parts = 1,
                                                                     .n_heads = n_heads,
                                                                     .scale = a->scale,
                                                                     .scores = s->scores,
                                                                     .stride = a->shape->n_ctx});
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = s->scores,
                                                                .stride = a->shape->n_ctx,
                                                                .q = s->label,
                                                                .kv = labels_of_layer(s, a),
                                                                .n_heads = n_heads,
                                                                .n = n_rows,
                                                                .scale = a->scale});
}

/* The k best for each query head, or by the vote of each group. */
static sac_status choose_rows(doublesparse *s, const sac_layer_attention *a, int64_t n_rows) {
    int64_t stride = a->shape->n_ctx;
    int n_sets = a->shape->n_heads, group = n_sets / a->shape->n_kv_heads;
    const float *scores = s->scores;
    if (s->sharing == VOTE && group > 1) {
        SAC_TRY(a->ops->softmax(
            a->stream,
            &(sac_softmax_args){
                .scores = s->scores, .stride = stride, .n = n_rows, .n_rows = n_sets, .lse = s->lse}));
        n_sets = a->shape->n_kv_heads;
        SAC_TRY(a->ops->soft_vote(a->stream, &(sac_soft_vote_args){.scores = s->scores,
                                                                   .stride = stride,
                                                                   .n = n_rows,
                                                                   .n_rows = group,
                                                                   .lse = s->lse,
                                                                   .votes = s->votes,
                                                                   .n_groups = n_sets}));
        scores = s->votes;
    }
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = scores,
                                                      .stride = stride,
                                                      .n = n_rows,
                                                      .n_rows = n_sets,
                                                      .k = s->k,
                                                      .indices = s->best});
}

/* One list a group: what any of its heads chose. */
static void unite(doublesparse *s, const sac_attention_shape *shape, int64_t n_rows) {
    int group = shape->n_heads / shape->n_kv_heads;
    int64_t n = 0;
    for (int kv = 0; kv < shape->n_kv_heads; kv++) {
        const int32_t *best = s->best + (int64_t)kv * group * s->k;
        memset(s->marks, 0, (size_t)n_rows);
        for (int64_t i = 0; i < group * s->k; i++) s->marks[best[i]] = 1;
        s->start[kv] = n;
        for (int64_t row = 0; row < n_rows; row++)
            if (s->marks[row]) s->rows[n++] = (int32_t)row;
    }
    s->start[shape->n_kv_heads] = n;
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    doublesparse *s = state;
    int64_t n_rows = a->kv.n_rows;
    int n_lists = s->sharing == QUERY ? a->shape->n_heads : a->shape->n_kv_heads;
    if (a->layer < s->skip || n_rows <= s->k) {
        choice->all = true;
        return SAC_OK;
    }
    SAC_TRY(label_rows(s, a));
    SAC_TRY(score_labels(s, a, n_rows));
    SAC_TRY(choose_rows(s, a, n_rows));
    if (s->sharing == UNION)
        unite(s, a->shape, n_rows);
    else
        for (int i = 0; i <= n_lists; i++) s->start[i] = i * s->k;
    if (!s->is_there && a->shape->device)
        SAC_TRY(sac_to_device(a, s->there, s->start, ((size_t)n_lists + 1) * sizeof *s->start));
    s->is_there = true;
    *choice = (sac_choice){.lists = {s->sharing == UNION ? s->rows : s->best, s->start, n_lists},
                           .device_start = s->there,
                           .n_chosen = (double)(a->shape->n_heads * s->k)};
    a->stats->n_selections++;
    return SAC_OK;
}

const sac_decode_policy sac_decode_doublesparse = {
    .name = "doublesparse",
    .source = "Yang et al., Double Sparsity, arXiv:2408.07092",
    .params = params,
    .state_bytes = sizeof(doublesparse),
    .check = check,
    .is_off = is_off,
    .take = take,
    .take_device = take_device,
    .begin = begin,
    .prompt = prompt,
    .select = select_rows,
};
