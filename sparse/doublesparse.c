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
 */
#include "attend.h"
#include "key_copy.h"
#include "starts.h"

#include <string.h>

enum { K, CHANNELS, BITS, SKIP, HEADS };
enum { VOTE, UNION, QUERY };
enum { MOST_PLAIN = 2048 /* labels that are packed at a time */ };

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
    int64_t *n_known; /* [n_layers] rows that have labels */
    /* Where ops run: */
    int32_t *channels; /* [n_layers - skip][n_kv_heads][r], ascending */
    uint16_t *labels;  /* of 16 bits: [n_layers - skip][n_kv_heads][n_ctx][r] */
    float *importance; /* [n_kv_heads][head_dim] */
    float *label;      /* [n_heads][r] */
    float *scores;     /* [n_heads][n_ctx] */
    float *votes;      /* [n_kv_heads][n_ctx] */
    float *lse;        /* [n_heads] */
    int32_t *best;     /* [n_heads][k] */
    int32_t *rows;     /* of unions: [n_kv_heads][n_ctx] */
    int64_t *pairs;    /* [n_kv_heads] of unions: lengths, which nobody asks for */
    sac_starts starts; /* of the lists; of unions the lengths differ */
    /* Of fewer bits: */
    sac_packed_rows *codes; /* [n_layers - skip], on the host */
    float *plain;           /* [n_kv_heads][n_plain][r] labels that are about to be packed */
    int64_t n_plain;
} doublesparse;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[K] >= (double)shape->n_ctx || p[SKIP] >= (double)shape->n_layers;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    long long most = sac_ops_traits_of(shape->device)->pattern_rows_max;
    if (p[HEADS] == UNION && shape->n_ctx > most)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "doublesparse with heads=union takes up to %lld tokens: use --ctx %lld or less, or leave "
            "heads out",
            most, most);
    if (p[CHANNELS] <= shape->head_dim) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "doublesparse: channels=%g: a head of this model has %d",
                    p[CHANNELS], shape->head_dim);
}

static void take_codes(doublesparse *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n = (size_t)(s->n_layers - s->skip);
    s->n_plain = shape->n_ctx < MOST_PLAIN ? shape->n_ctx : MOST_PLAIN;
    s->plain = sac_take_device(memory, (size_t)(shape->n_kv_heads * s->n_plain * s->r) * sizeof *s->plain);
    s->codes = sac_take_host(memory, n * sizeof *s->codes);
    for (size_t i = 0; i < n; i++) {
        sac_packed_rows codes = sac_key_copy_take(shape, shape->n_ctx, s->r, s->bits, memory);
        if (s->codes) s->codes[i] = codes;
    }
}

static void take_choice(doublesparse *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_heads = (size_t)shape->n_heads, n_kv = (size_t)shape->n_kv_heads, n_ctx = (size_t)shape->n_ctx;
    s->importance = sac_take_device(memory, n_kv * (size_t)shape->head_dim * sizeof(float));
    s->label = sac_take_device(memory, n_heads * (size_t)s->r * sizeof(float));
    s->scores = sac_take_device(memory, n_heads * n_ctx * sizeof(float));
    s->votes = sac_take_device(memory, n_kv * n_ctx * sizeof(float));
    s->lse = sac_take_device(memory, n_heads * sizeof(float));
    s->best = sac_take_device(memory, n_heads * (size_t)s->k * sizeof *s->best);
    sac_starts_take(&s->starts, shape->n_heads, memory);
    if (s->sharing != UNION) return;
    s->rows = sac_take_device(memory, n_kv * n_ctx * sizeof *s->rows);
    s->pairs = sac_take_device(memory, n_kv * sizeof *s->pairs);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    doublesparse *s = state;
    s->k = (int64_t)p[K];
    s->r = p[CHANNELS] > 0 ? (int)p[CHANNELS] : (shape->head_dim + 7) / 8;
    s->bits = width_bits[(int)p[BITS]];
    s->skip = (int)p[SKIP];
    s->sharing = (int)p[HEADS];
    s->n_layers = shape->n_layers;
    size_t n_sets = (size_t)(s->n_layers - s->skip) * (size_t)shape->n_kv_heads, r = (size_t)s->r;
    s->n_known = sac_take_host(memory, (size_t)s->n_layers * sizeof *s->n_known);
    s->channels = sac_take_device(memory, n_sets * r * sizeof *s->channels);
    if (s->bits == 16)
        s->labels = sac_take_device(memory, n_sets * (size_t)shape->n_ctx * r * sizeof *s->labels);
    else
        take_codes(s, shape, memory);
    take_choice(s, shape, memory);
}

static void begin(void *state) {
    doublesparse *s = state;
    memset(s->n_known, 0, (size_t)s->n_layers * sizeof *s->n_known);
}

static int32_t *channels_of(const doublesparse *s, const sac_layer_attention *a, int head) {
    return s->channels + ((int64_t)(a->layer - s->skip) * a->shape->n_kv_heads + head) * s->r;
}

/* ---------------------------------------------------------------- which channels */

static sac_status choose_channels(doublesparse *s, const sac_layer_attention *a) {
    int d = a->shape->head_dim;
    SAC_TRY(a->ops->channel_sums(
        a->stream,
        &(sac_channel_sums_args){
            .sums = s->importance, .q = a->q, .kv = a->kv, .first = a->past, .n_heads = a->shape->n_heads}));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->importance,
                                                      .stride = d,
                                                      .n = d,
                                                      .n_rows = a->shape->n_kv_heads,
                                                      .k = s->r,
                                                      .indices = channels_of(s, a, 0)});
}

/* ---------------------------------------------------------------- labels */

/* The layer's as keys of few channels. */
static sac_kv_view labels_of_layer(const doublesparse *s, const sac_layer_attention *a) {
    int64_t before = (int64_t)(a->layer - s->skip) * a->shape->n_kv_heads * a->shape->n_ctx;
    uint16_t *labels = s->labels + before * s->r;
    return (sac_kv_view){.k = labels,
                         .v = labels,
                         .dtype = SAC_DTYPE_F16,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = s->r,
                         .n_rows = a->kv.n_rows,
                         .row_stride = s->r,
                         .head_stride = a->shape->n_ctx * s->r};
}

/* Keys without their first n rows. */
static sac_kv_view keys_from(sac_kv_view kv, int64_t n) {
    kv.k = (char *)kv.k + (size_t)(n * kv.row_stride) * sac_dtype_row_bytes(kv.dtype, 1);
    kv.n_rows -= n;
    return kv;
}

/* Codes of rows [first, first + n), the channels of each put together first. */
static sac_status pack_some(doublesparse *s, const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_packed_rows *codes = &s->codes[a->layer - s->skip];
    sac_kv_view plain = {.k = s->plain,
                         .v = s->plain,
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = s->r,
                         .n_rows = n,
                         .row_stride = s->r,
                         .head_stride = s->n_plain * s->r};
    SAC_TRY(a->ops->pick_channels(a->stream, &(sac_pick_channels_args){.dst = plain,
                                                                       .src = keys_from(a->kv, first),
                                                                       .channels = channels_of(s, a, 0),
                                                                       .n_sets = a->shape->n_kv_heads,
                                                                       .n = n}));
    codes->n = first + n;
    return a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = *codes, .kv = plain, .rows = {NULL, n, 0, 1}, .to = first});
}

static sac_status pack_labels(doublesparse *s, const sac_layer_attention *a, int64_t first, int64_t end) {
    for (int64_t n; first < end; first += n) {
        n = end - first < s->n_plain ? end - first : s->n_plain;
        SAC_TRY(pack_some(s, a, first, n));
    }
    return SAC_OK;
}

/* Labels of rows that have come since the last call. */
static sac_status label_rows(doublesparse *s, const sac_layer_attention *a) {
    int64_t *known = &s->n_known[a->layer], first = *known, n = a->kv.n_rows - first;
    *known = a->kv.n_rows;
    if (n <= 0) return SAC_OK;
    if (s->codes) return pack_labels(s, a, first, a->kv.n_rows);
    return a->ops->pick_channels(a->stream, &(sac_pick_channels_args){.dst = labels_of_layer(s, a),
                                                                      .src = a->kv,
                                                                      .channels = channels_of(s, a, 0),
                                                                      .n_sets = a->shape->n_kv_heads,
                                                                      .first = first,
                                                                      .n = n});
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
    int n_heads = a->shape->n_heads, d = a->shape->head_dim;
    sac_kv_view q = {.k = a->q.data,
                     .v = a->q.data,
                     .dtype = a->q.dtype,
                     .n_heads = n_heads,
                     .head_dim = d,
                     .n_rows = 1,
                     .row_stride = a->q.stride,
                     .head_stride = d};
    sac_kv_view label = {.k = s->label,
                         .v = s->label,
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = n_heads,
                         .head_dim = s->r,
                         .n_rows = 1,
                         .row_stride = n_heads * s->r,
                         .head_stride = s->r};
    return a->ops->pick_channels(a->stream, &(sac_pick_channels_args){.dst = label,
                                                                      .src = q,
                                                                      .channels = channels_of(s, a, 0),
                                                                      .n_sets = a->shape->n_kv_heads,
                                                                      .n = 1});
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

/* One list a group: what any of its heads chose, as columns that one query meets. */
static sac_status list_union(doublesparse *s, const sac_layer_attention *a) {
    int n_kv = a->shape->n_kv_heads;
    SAC_TRY(a->ops->pattern_rows(a->stream,
                                 &(sac_pattern_rows_args){.rows = s->rows,
                                                          .start = s->starts.at.device,
                                                          .pairs = s->pairs,
                                                          .columns = s->best,
                                                          .n_columns = s->k * (a->shape->n_heads / n_kv),
                                                          .width = 1,
                                                          .first = a->kv.n_rows - 1,
                                                          .block = 1,
                                                          .n_blocks = 1,
                                                          .n_rows = a->kv.n_rows,
                                                          .n_lists = n_kv}));
    return sac_fetch(a, s->starts.at, ((size_t)n_kv + 1) * sizeof(int64_t));
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    doublesparse *s = state;
    int64_t n_rows = a->kv.n_rows;
    int n_lists = s->sharing == QUERY ? a->shape->n_heads : a->shape->n_kv_heads;
    if (a->layer < s->skip || n_rows <= s->k) return SAC_OK; /* all */
    SAC_TRY(label_rows(s, a));
    SAC_TRY(score_labels(s, a, n_rows));
    SAC_TRY(choose_rows(s, a, n_rows));
    SAC_TRY(s->sharing == UNION ? list_union(s, a) : sac_starts_set(&s->starts, a, n_lists, s->k));
    choice->lists = (sac_choice_lists){s->sharing == UNION ? s->rows : s->best, s->starts.at, n_lists};
    choice->n_chosen = (double)(a->shape->n_heads * s->k);
    a->stats->n_selections++;
    return SAC_OK;
}

const sac_decode_policy sac_decode_doublesparse = {
    .name = "doublesparse",
    .source = "Yang et al., Double Sparsity, arXiv:2408.07092",
    .params = params,
    .budget = "k",
    .state_bytes = sizeof(doublesparse),
    .check = check,
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = prompt,
    .select = select_rows,
    .may_omit_own = true,
};
