/* tokenselect.c - a constant number of tokens, chosen token by token by a vote of all heads.
 *
 * TokenSelect (arXiv:2411.02886). The queries of a chunk of the prompt, or of one step, are averaged; every
 * key between the first `init` and the last `local` tokens gets the sum over heads of softmax(q_h . k_h) over
 * these candidates (eq. 7, no 1/sqrt(d)); the k best, the first and the last tokens are attended to as if
 * they were the whole sequence: key i of the list at position i, the queries at its end. So a model sees no
 * longer text than it was trained on. In steps a query like the last selecting one (cosine >= theta over all
 * heads) reuses that one's choice: the Selection Cache (Algorithm 1).
 *
 * From the released code, where the paper is silent: query i of a chunk votes from position local + i, keys
 * from position 0; positions in the attention are those in the list. Ours: the vote is ranked by its
 * logarithm (same order, no underflow); query head h meets key head h / group in the vote too (gqa=mod gives
 * Algorithm 2's reading); the cache compares queries at the voting position, so that a turn of the head by
 * rope does not count as a new query; p replaces the k best by the smallest set that holds p of the vote
 * (Twilight's rule over TokenSelect's vote). Where attention keeps the tokens' positions (pos=orig) the vote may, too
 * (vote=true): then a score is what the true score is of the mean query, and no key is turned. And a chunk may
 * vote with several means, each of a run of its queries (means): their votes are added like those of heads. */
#include "tokenselect.h"

#include "attend.h"
#include "clock.h"

#include <string.h>

static const char *const scales[] = {"1", "rsqrt_d", NULL};
static const char *const selects[] = {"soft", "head", "topk", NULL};
static const char *const pairings[] = {"div", "mod", NULL};
static const char *const positions[] = {"compact", "orig", NULL};
static const char *const key_bits[] = {"16", "4", NULL};
static const char *const votes[] = {"local", "true", NULL};

static const sac_method_param params[] = {
    {"init", 128, 0, 1 << 24, "first tokens, always read", SAC_WHOLE},
    {"k", 2048, 1, 1 << 24, "tokens that the vote chooses", SAC_WHOLE},
    {"local", 512, 1, 1 << 24, "last tokens, always read", SAC_WHOLE},
    {"chunk", 512, 1, 1 << 24, "tokens of a prompt that choose together, at most local", SAC_WHOLE},
    {"theta", 0.9, -1, 2, "cosine from which a step reuses the last choice; above 1 never", NULL},
    {"scale", 0, 0, 1, "of scores in the vote", scales},
    {"select", TS_SOFT, 0, 2, "vote: softmaxes summed, each head's k best counted, or scores summed",
     selects},
    {"gqa", 0, 0, 1, "key head of query head h in the vote: h / group, or h mod key heads", pairings},
    {"pos", 0, 0, 1, "positions in attention: in the list, or the tokens' own", positions},
    {"max_hits", 0, 0, 1 << 24, "steps that may reuse a choice; 0 = any number", SAC_WHOLE},
    {"p", 0, 0, 1, "share of the vote to choose instead of k tokens; 0 = k tokens", NULL},
    {"kmin", 128, 1, 1 << 24, "with p: tokens, at least", SAC_WHOLE},
    {"kmax", 0, 0, 1 << 24, "with p: tokens, at most; 0 = any number", SAC_WHOLE},
    {"keys", 0, 0, 1, "that steps vote over: 16 as stored, or 4: a copy of them in 4 bits", key_bits},
    {"vote", 0, 0, 1, "positions in the vote: local (queries from local on, keys at 0), or true: the tokens' own",
     votes},
    {"means", 1, 1, 64, "of a chunk's queries that vote, each of a run of them", SAC_WHOLE},
    {0}};

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return sac_tokenselect_dense_up_to(p) >= shape->n_ctx || (p[TS_P] >= 1 && p[TS_KMAX] <= 0);
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    int64_t longest = (int64_t)(p[TS_INIT] + p[TS_LOCAL]) + sac_tokenselect_max_chosen(p, shape);
    if (longest > shape->n_ctx) longest = shape->n_ctx;
    if (sac_tokenselect_votes_true(p) && p[TS_POS] == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "tokenselect: vote=true scores keys at positions that pos=compact does not read them at: use "
                        "pos=orig with it");
    if (p[TS_MEANS] > 1 && p[TS_SELECT] != TS_SOFT)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "tokenselect: means=%g: only votes of the soft vote are added: use select=soft", p[TS_MEANS]);
    if (!shape->fixed_rotation && !sac_tokenselect_votes_true(p))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tokenselect needs keys without their positions, and this model's positions (dynamic "
                        "rope scaling, or numbers of their own) "
                        "cannot be taken back: use pos=orig,vote=true, or another method");
    if (p[TS_P] > 0 && p[TS_SELECT] != TS_SOFT)
        return sac_fail(err, SAC_BAD_ARGUMENT, "tokenselect: p is a share of the soft vote: use select=soft");
    if (p[TS_POS] == 0 && longest > shape->max_position && !is_off(p, shape))
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "tokenselect: init + local + %s = %lld tokens at once, and the model was trained on %lld: "
            "lower them, or use pos=orig",
            p[TS_P] > 0 ? "kmax" : "k", (long long)longest, (long long)shape->max_position);
    return SAC_OK;
}

static sac_status check_prefill(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[TS_CHUNK] > p[TS_LOCAL])
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "tokenselect: chunk=%g is more than local=%g, so a chunk would have to choose among its "
            "own tokens: give chunk <= local",
            p[TS_CHUNK], p[TS_LOCAL]);
    if (p[TS_KEYS] != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tokenselect: a prompt reads each key for many chunks at once, so that a copy of the "
                        "keys would not pay: keys=4 is a setting of the decode policy only");
    return check(p, shape, err);
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape,
                         const sac_memory *memory) {
    sac_tokenselect *s = state;
    sac_tokenselect_take(state, p, shape, memory);
    s->chunks.init = (int64_t)p[TS_INIT];
    s->chunks.k = (int64_t)p[TS_K];
    s->chunks.local = (int64_t)p[TS_LOCAL];
    s->chunks.chunk = (int64_t)p[TS_CHUNK];
    s->chunks.rsqrt_d = p[TS_SCALE] != 0;
    s->chunks.votes_true = sac_tokenselect_votes_true(p);
    s->chunks.reads_true = p[TS_POS] != 0;
    bool plain = p[TS_SELECT] == TS_SOFT && p[TS_GQA] == 0 && p[TS_P] <= 0 && p[TS_MEANS] == 1;
    if (plain) sac_vote_chunks_take(&s->chunks, shape, memory); /* it knows no other vote */
}

/* ---------------------------------------------------------------- prompts */

/* One chunk, as a prompt of its own after all that precedes it. */
static sac_status attend_chunk(sac_tokenselect *s, const sac_layer_attention *chunk, bool is_last) {
    double n = (double)chunk->q.rows, n_rows = (double)chunk->kv.n_rows;
    int64_t start = sac_now_ns(), n_chosen;
    sac_choice choice = {0};
    SAC_TRY(sac_tokenselect_query(s, chunk));
    SAC_TRY(sac_tokenselect_choose(s, chunk, chunk->kv.n_rows - (int64_t)(s->p[TS_INIT] + s->p[TS_LOCAL]),
                                   s->chosen, &n_chosen));
    chunk->stats->n_selections++;
    SAC_TRY(sac_tokenselect_list(s, chunk, s->chosen, n_chosen, &choice));
    int64_t spent = sac_now_ns() - start;
    chunk->stats->select_ns += spent;
    chunk->stats->attend_ns -= spent;
    int64_t n_listed = sac_choice_begin(&choice.lists, 1);
    double n_read = (double)n_listed;
    sac_count_prefill(chunk, n * n_read / n_rows,
                      (n * (n_read - n) + n * (n + 1) / 2) * chunk->shape->n_heads);
    if (is_last && chunk->observer.fn) {
        SAC_TRY(sac_fetch(chunk, s->rows, (size_t)n_listed * sizeof(int32_t)));
        chunk->observer.fn(chunk->observer.ctx, chunk->layer, s->rows.host, n_listed, chunk->kv.n_rows);
    }
    return sac_attend_choice(chunk, &choice);
}

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    sac_tokenselect *s = state;
    int64_t chunk = (int64_t)s->p[TS_CHUNK], n = a->q.rows, first = 0;
    while (first < n &&
           a->past + (first + chunk < n ? first + chunk : n) <= sac_tokenselect_dense_up_to(s->p))
        first += chunk;
    if (first > 0) { /* the short beginning, all at once */
        sac_layer_attention beginning = sac_prompt_chunk(a, 0, first < n ? first : n);
        SAC_TRY(sac_attend_prompt_dense(&beginning));
    }
    /* whoever wants to see the last choice gets it from a chunk alone */
    int64_t together = sac_vote_chunks_fit(&s->chunks, a, first, a->observer.fn ? n - 1 : n);
    if (together > 1) {
        SAC_TRY(sac_vote_chunks_attend(&s->chunks, a, first, together));
        first += together * chunk;
    }
    for (; first < n; first += chunk) {
        sac_layer_attention part = sac_prompt_chunk(a, first, n - first < chunk ? n - first : chunk);
        SAC_TRY(attend_chunk(s, &part, first + chunk >= n));
    }
    return SAC_OK;
}

/* What the trained length leaves beside the first and the last tokens, where the list stands in it. */
static int64_t most_budget(const double *p, const sac_attention_shape *shape) {
    return p[TS_POS] == 0 ? shape->max_position - (int64_t)(p[TS_INIT] + p[TS_LOCAL]) : shape->n_ctx;
}

#define SOURCE "Wu et al., TokenSelect, arXiv:2411.02886"

const sac_prefill_policy sac_prefill_tokenselect = {
    .name = "tokenselect",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(sac_tokenselect),
    .check = check_prefill,
    .is_off = is_off,
    .take = take_prefill,
    .attend = attend_prompt,
    .turns_keys = true,
};

const sac_decode_policy sac_decode_tokenselect = {
    .name = "tokenselect",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(sac_tokenselect),
    .check = check,
    .budget = "k",
    .most_budget = most_budget,
    .is_off = is_off,
    .take = sac_tokenselect_take_steps,
    .begin = sac_tokenselect_begin,
    .prompt = sac_tokenselect_forget,
    .prompt_without_queries = true,
    .select = sac_tokenselect_select,
    .turns_keys = true,
    .keeps_prefix = true,
    .cut = sac_tokenselect_cut,
    .counted = sac_tokenselect_counted,
};
