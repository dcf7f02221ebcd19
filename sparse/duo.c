/* duo.c - some key-value heads read everything, the others only the first tokens and the last ones.
 *
 * DuoAttention (Xiao et al., arXiv:2410.10819). A few heads of a model fetch what stands anywhere in the
 * sequence, the retrieval heads; the others do as well with `start` first tokens, the sinks, and `recent` last
 * ones, the step's own counted: the streaming heads. Which are which is a property of the key-value head, and
 * a share of all heads of the model streams: those that lose least by it, whatever their layer. Keys and
 * queries stay at their true positions, and prompts are dense.
 *
 * The paper trains a gate for each head on made-up passkey texts, once for a model. Here what a head would
 * lose is measured: the softmax weight that the last `window` queries of a prompt give to keys that none of
 * them would read as a streaming head. A model may bring along the mean over a set of prompts
 * (duo.safetensors, models/duo_heads.c), which `saccade calibrate` makes. Without it each prompt is measured:
 * one with `window` queries ranks the heads anew, one with fewer leaves them as they are, and until a layer
 * has seen a prompt that is long enough its heads read everything.
 *
 * The middle stays stored also for streaming heads, whose rows lie beside those of retrieval heads: a step reads
 * less, and the cache is as large as ever. */
#include "attend.h"
#include "clock.h"
#include "starts.h"

enum { START, RECENT, SHARE, WINDOW, HEADS };

enum { AUTO, MODEL, PROMPT };
static const char *const rankings[] = {"auto", "model", "prompt", NULL};

static const sac_method_param params[] = {
    {"start", 64, 0, 1 << 24, "first tokens that a streaming head reads", SAC_WHOLE},
    {"recent", 256, 1, 1 << 24, "last tokens that a streaming head reads", SAC_WHOLE},
    {"share", 0.5, 0, 1, "of all key-value heads that stream, 0 = none", NULL},
    {"window", 32, 1, 1 << 20, "queries at the end of a prompt that rank the heads", SAC_WHOLE},
    {"heads", AUTO, 0, 0,
     "ranked by what came with the model, by each prompt, or auto: by the model's where there is such a file",
     rankings},
    {0}};

typedef struct duo {
    int64_t start, recent, window;
    double share;
    int n_kv_heads, n_all; /* of a layer, of all layers */
    const float *known;    /* [n_layers][n_kv_heads] the model's own losses, or NULL */
    /* Of heads [n_layers][n_kv_heads]: */
    double *lost;    /* share of the observers' weight on keys that streaming would leave out; negative:
                        not measured */
    bool *streams;   /* as ranked last */
    bool is_ranked;  /* no prompt has come since */
    sac_buffer sums; /* float [n_kv_heads][n_ctx] of a prompt's layer */
    int32_t *rows;   /* [n_kv_heads][n_ctx] a step's lists, where ops run */
    sac_starts starts;
} duo;

static const float *known_losses(const double *p, const sac_attention_shape *shape) {
    return p[HEADS] == PROMPT ? NULL : shape->head_losses;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[HEADS] != MODEL || shape->head_losses) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "decode policy duo: heads=model needs a duo.safetensors in the model's folder, which "
                    "'saccade calibrate' makes");
}

/* The fewest rows of which a streaming head leaves some out; where prompts rank the heads, of the shortest one
 * with a key that every observer would leave out. */
static double least_rows(const double *p, const sac_attention_shape *shape) {
    return p[START] + p[RECENT] + (known_losses(p, shape) ? 1 : p[WINDOW]);
}

/* Streaming heads among n, with what a decimal fraction lacks in binary. */
static int n_streaming(double share, int n) {
    return (int)(share * n + 1e-9);
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return n_streaming(p[SHARE], shape->n_layers * shape->n_kv_heads) == 0 ||
           least_rows(p, shape) > (double)shape->n_ctx;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    duo *s = state;
    s->start = (int64_t)p[START];
    s->recent = (int64_t)p[RECENT];
    s->share = p[SHARE];
    s->window = (int64_t)p[WINDOW];
    s->known = known_losses(p, shape);
    s->n_kv_heads = shape->n_kv_heads;
    s->n_all = shape->n_layers * shape->n_kv_heads;
    size_t n_all = (size_t)s->n_all, n_rows = (size_t)shape->n_kv_heads * (size_t)shape->n_ctx;
    s->lost = sac_take_host(memory, n_all * sizeof *s->lost);
    s->streams = sac_take_host(memory, n_all * sizeof *s->streams);
    s->sums = sac_take_both(memory, n_rows * sizeof(float));
    s->rows = sac_take_device(memory, n_rows * sizeof *s->rows);
    sac_starts_take(&s->starts, shape->n_kv_heads, memory);
}

static void begin(void *state) {
    duo *s = state;
    for (int h = 0; h < s->n_all; h++) s->lost[h] = s->known ? (double)s->known[h] : -1;
    s->is_ranked = false;
}

/* ---------------------------------------------------------------- which heads stream */

static sac_status sum_weights(duo *s, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows;
    SAC_TRY(a->ops->attention_sums(
        a->stream, &(sac_attention_sums_args){.sums = s->sums.device,
                                              .stride = n,
                                              .n_sums = s->n_kv_heads,
                                              .q = sac_mat_rows(a->q, a->q.rows - s->window, s->window),
                                              .first = n - s->window,
                                              .kv = a->kv,
                                              .n_kv = n,
                                              .n_heads = a->shape->n_heads,
                                              .scale = a->scale,
                                              .window = a->window}));
    return sac_fetch(a, s->sums, (size_t)s->n_kv_heads * (size_t)n * sizeof(float));
}

/* Keys [start, end) are those that even the first observer, who looks back farthest, would leave out. */
static sac_status measure(void *state, const sac_layer_attention *a) {
    duo *s = state;
    int64_t start_ns = sac_now_ns(), n = a->kv.n_rows, end = n - s->window - s->recent + 1;
    if (s->known || a->q.rows < s->window || end <= s->start) return SAC_OK;
    SAC_TRY(sum_weights(s, a));
    double n_softmaxes = (double)s->window * (a->shape->n_heads / s->n_kv_heads);
    for (int h = 0; h < s->n_kv_heads; h++) {
        const float *sums = (const float *)s->sums.host + h * n;
        double lost = 0;
        for (int64_t j = s->start; j < end; j++) lost += (double)sums[j];
        s->lost[a->layer * s->n_kv_heads + h] = lost / n_softmaxes;
    }
    s->is_ranked = false;
    a->stats->n_selections++;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* Measured heads that lose less than head h, or as much and come before it. */
static int n_better(const duo *s, int h) {
    int n = 0;
    for (int i = 0; i < s->n_all; i++)
        n += s->lost[i] >= 0 && (s->lost[i] < s->lost[h] || (s->lost[i] == s->lost[h] && i < h));
    return n;
}

/* When all layers have been measured: at the first step after a prompt. */
static void rank_heads(duo *s) {
    int n_measured = 0;
    for (int h = 0; h < s->n_all; h++) n_measured += s->lost[h] >= 0;
    int n = n_streaming(s->share, n_measured);
    for (int h = 0; h < s->n_all; h++) s->streams[h] = s->lost[h] >= 0 && n_better(s, h) < n;
    s->is_ranked = true;
}

/* ---------------------------------------------------------------- a step */

/* n lists of streaming heads or n of retrieval heads, one after the other. start as of choice_rows. */
static sac_status list_rows(const duo *s, const sac_layer_attention *a, bool streams, int n, int32_t *rows,
                            int64_t *start) {
    return a->ops->choice_rows(a->stream, &(sac_choice_rows_args){.rows = rows,
                                                                  .init = streams ? s->start : a->kv.n_rows,
                                                                  .local = streams ? s->recent : 0,
                                                                  .n_rows = a->kv.n_rows,
                                                                  .n_lists = n,
                                                                  .start = start});
}

/* A list for each head: neighbours of one kind are made together. */
static sac_status list_both_kinds(duo *s, const sac_layer_attention *a, const bool *streams) {
    int64_t *start = s->starts.at.host;
    start[0] = 0;
    for (int h = 0, first = 0; h < s->n_kv_heads; h++) {
        start[h + 1] = start[h] + (streams[h] ? s->start + s->recent : a->kv.n_rows);
        if (h + 1 < s->n_kv_heads && streams[h + 1] == streams[h]) continue;
        SAC_TRY(list_rows(s, a, streams[h], h + 1 - first, s->rows + start[first], NULL));
        first = h + 1;
    }
    return sac_send(a, s->starts.at, ((size_t)s->n_kv_heads + 1) * sizeof *start);
}

static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    duo *s = state;
    if (!s->is_ranked) rank_heads(s);
    const bool *streams = s->streams + a->layer * s->n_kv_heads;
    int n = 0;
    for (int h = 0; h < s->n_kv_heads; h++) n += streams[h];
    if (n == 0 || a->kv.n_rows <= s->start + s->recent) return SAC_OK; /* all */
    bool is_one = n == s->n_kv_heads;                                  /* one list serves them all */
    choice->lists = (sac_choice_lists){s->rows, s->starts.at, is_one ? 1 : s->n_kv_heads};
    if (!is_one) return list_both_kinds(s, a, streams);
    sac_starts_expect(&s->starts, 1, s->start + s->recent);
    return list_rows(s, a, true, 1, s->rows, s->starts.at.device);
}

/* A prompt changes nothing where the model has ranked the heads. */
static bool keeps_prefix(const void *state) {
    return ((const duo *)state)->known != NULL;
}

static const double *head_losses(const void *state) {
    return ((const duo *)state)->lost;
}

const sac_decode_policy sac_decode_duo = {
    .name = "duo",
    .source = "Xiao et al., DuoAttention, arXiv:2410.10819",
    .params = params,
    .state_bytes = sizeof(duo),
    .check = check,
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = measure,
    .select = select_rows,
    .keeps_prefix_now = keeps_prefix,
    .head_losses = head_losses,
};
