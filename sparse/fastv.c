/* FastV: after a few layers, half of the visual tokens do without the rest of the model.
 *
 * Source: Chen et al., ECCV 2024, arXiv:2403.06764, section 4, and its published code. The attention of layer
 * `layer` - 1, summed over heads, ranks the prompt's visual tokens; round((1 - ratio) * number) of them go on
 * with all text tokens, at their true positions, and the others leave the hidden states before layer
 * `layer`, so that later layers neither compute nor store them. All pictures are one pool.
 *
 * The paper averages attention over all queries, the code takes the last token's row: query=last, as the
 * code. mode=attn restricts attention only, as ZipVL's comparison does: tokens that would leave stay in the
 * hidden states, but in later layers they neither ask nor are seen by the prompt (outputs 0). Their keys and
 * values are stored, so steps read them.
 *
 * Ours: a later prompt of the conversation ranks its own visual tokens; the prompt's last token stays even
 * where it is visual, because its logits are wanted. */
#include "attend.h"
#include "clock.h"
#include "part.h"

#include <math.h>

enum { LAYER, RATIO, MODE, QUERY };
enum { MODE_DROP, MODE_ATTN };
enum { QUERY_LAST, QUERY_ALL };

static const char *const modes[] = {"drop", "attn", NULL};
static const char *const queries[] = {"last", "all", NULL};
static const sac_method_param params[] = {
    [LAYER] = {"layer", 2, 1, 4096, "first layer that goes on without the dropped tokens", SAC_WHOLE},
    [RATIO] = {"ratio", 0.5, 0, 1, "share of visual tokens that are dropped", NULL},
    [MODE] = {"mode", MODE_DROP, 0, 1, "drop: from the model; attn: from attention only", modes},
    [QUERY] = {"query", QUERY_LAST, 0, 1, "whose attention ranks: the last token's, or all tokens'", queries},
    {0}};

typedef struct fastv {
    int layer, mode, query;
    double ratio;
    int64_t n_ctx;
    sac_buffer sums, scores; /* float [n_ctx] by row; by visual token */
    sac_buffer best;         /* int32_t [n_ctx] visual tokens that stay */
    int32_t *visual;         /* [n_ctx] visual tokens, counted from the first query */
    int32_t *kept;           /* [n_ctx] tokens that stay, counted from the first query */
    int64_t n_kept;          /* 0: none is dropped */
    int32_t *positions;      /* [n_ctx] of the kept, for whoever watches */
    sac_part_scratch part;
} fastv;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[RATIO] == 0 || (int)p[LAYER] >= shape->n_layers;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    fastv *s = state;
    *s = (fastv){.layer = (int)p[LAYER],
                 .mode = (int)p[MODE],
                 .query = (int)p[QUERY],
                 .ratio = p[RATIO],
                 .n_ctx = shape->n_ctx};
    size_t n = (size_t)shape->n_ctx;
    s->sums = sac_take_both(memory, n * sizeof(float));
    s->scores = sac_take_both(memory, n * sizeof(float));
    s->best = sac_take_both(memory, n * sizeof(int32_t));
    s->visual = sac_take_host(memory, n * sizeof(int32_t));
    s->kept = sac_take_host(memory, n * sizeof(int32_t));
    s->positions = sac_take_host(memory, n * sizeof(int32_t));
    if (s->mode == MODE_ATTN) sac_part_scratch_take(&s->part, shape, memory);
}

static void begin(void *state) {
    ((fastv *)state)->n_kept = 0;
}

/* Tokens of the queries that lie in visual spans; spans and positions ascend. */
static int64_t find_visual(const sac_layer_attention *a, int32_t *visual) {
    int64_t n = 0;
    int span = 0;
    for (int64_t i = 0; i < a->q.rows; i++) {
        while (span < a->n_visual && a->position[i] >= a->visual[span].first + a->visual[span].n) span++;
        if (span < a->n_visual && a->position[i] >= a->visual[span].first) visual[n++] = (int32_t)i;
    }
    return n;
}

static sac_status sum_attention(fastv *s, const sac_layer_attention *a) {
    int64_t n_probes = s->query == QUERY_LAST ? 1 : a->q.rows;
    return a->ops->attention_sums(
        a->stream, &(sac_attention_sums_args){.sums = s->sums.device,
                                              .stride = s->n_ctx,
                                              .n_sums = 1,
                                              .q = sac_mat_rows(a->q, a->q.rows - n_probes, n_probes),
                                              .first = a->kv.n_rows - n_probes,
                                              .kv = a->kv,
                                              .n_kv = a->kv.n_rows,
                                              .n_heads = a->shape->n_heads,
                                              .scale = a->scale,
                                              .window = a->window});
}

/* All tokens but the visual ones that are not among the best; the last in any case. */
static void list_kept(fastv *s, int64_t n_tokens, int64_t n_visual, int64_t n_best) {
    const int32_t *best = s->best.host;
    int64_t v = 0, b = 0;
    s->n_kept = 0;
    for (int64_t i = 0; i < n_tokens; i++) {
        bool keep = i == n_tokens - 1;
        if (v < n_visual && s->visual[v] == i) {
            if (b < n_best && best[b] == v) b++, keep = true;
            v++;
        } else
            keep = true;
        if (keep) s->kept[s->n_kept++] = (int32_t)i;
    }
}

static sac_status choose(fastv *s, const sac_layer_attention *a) {
    int64_t start_ns = sac_now_ns(), n_visual = find_visual(a, s->visual);
    int64_t n_best = (int64_t)nearbyint((1 - s->ratio) * (double)n_visual);
    if (n_best == n_visual) return SAC_OK;
    SAC_TRY(sum_attention(s, a));
    SAC_TRY(sac_fetch(a, s->sums, (size_t)a->kv.n_rows * sizeof(float)));
    const float *sums = s->sums.host;
    float *scores = s->scores.host;
    for (int64_t i = 0; i < n_visual; i++) scores[i] = sums[a->past + s->visual[i]];
    SAC_TRY(sac_send(a, s->scores, (size_t)n_visual * sizeof *scores));
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->scores.device,
                                                       .stride = n_visual,
                                                       .n = n_visual,
                                                       .n_rows = 1,
                                                       .k = n_best,
                                                       .indices = s->best.device}));
    SAC_TRY(sac_fetch(a, s->best, (size_t)n_best * sizeof(int32_t)));
    list_kept(s, a->q.rows, n_visual, n_best);
    int64_t spent_ns = sac_now_ns() - start_ns;
    a->stats->n_selections++;
    a->stats->select_ns += spent_ns;
    a->stats->attend_ns -= spent_ns;
    return SAC_OK;
}

static void show(const sac_layer_attention *a, const int32_t *positions, int64_t n) {
    if (a->observer.fn) a->observer.fn(a->observer.ctx, a->layer, positions, n, a->n_seen);
}

/* Later layers of mode=attn: the kept tokens among themselves, after all earlier rows. */
static sac_status attend_kept(fastv *s, const sac_layer_attention *a) {
    double n = (double)s->n_kept;
    sac_count_prefill(a, n, (n * (n + 1) / 2 + n * (double)a->past) * a->shape->n_heads);
    for (int64_t i = 0; i < s->n_kept; i++) s->positions[i] = a->position[s->kept[i]];
    show(a, s->positions, s->n_kept);
    return sac_attend_part(a, s->kept, s->n_kept, &s->part);
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    fastv *s = state;
    if (a->layer == 0) s->n_kept = 0;
    if (a->layer == s->layer - 1) SAC_TRY(choose(s, a));
    if (a->layer < s->layer || s->n_kept == 0) return sac_attend_prompt_dense(a);
    if (s->mode == MODE_ATTN) return attend_kept(s, a);
    show(a, a->position, a->q.rows);
    return sac_attend_prompt_dense(a);
}

static const int32_t *keep(void *state, const sac_layer_attention *a, int64_t *n) {
    fastv *s = state;
    *n = s->n_kept;
    return s->mode == MODE_DROP && a->layer == s->layer - 1 && s->n_kept > 0 ? s->kept : NULL;
}

const sac_prefill_policy sac_prefill_fastv = {
    .name = "fastv",
    .source = "Chen et al., ECCV 2024, arXiv:2403.06764",
    .params = params,
    .state_bytes = sizeof(fastv),
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .attend = attend,
    .keep = keep,
};
