#include "draft_model.h"

#include "clock.h"
#include "tokenizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next;
    sac_model *model;
    char path[];
} entry;

struct sac_draft_models {
    pthread_mutex_t lock;
    entry *first;
};

sac_status sac_draft_models_create(sac_draft_models **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    pthread_mutex_init(&(*out)->lock, NULL);
    return SAC_OK;
}

void sac_draft_models_free(sac_draft_models *d) {
    if (!d) return;
    for (entry *e = d->first, *next; e; e = next) {
        next = e->next;
        e->model->pool = NULL; /* another's */
        sac_model_free(e->model);
        free(e);
    }
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* Where both have a token with an id it must be the same one. Ids that only one of them knows never come to the other. */
static sac_status compare_tokens(const sac_model *of, const sac_model *draft, const char *path, sac_error *err) {
    const sac_tokenizer *a = of->loaded.tokenizer, *b = draft->loaded.tokenizer;
    int32_t n = sac_tokenizer_n_vocab(a), n_same = 0;
    if (n > sac_tokenizer_n_vocab(b)) n = sac_tokenizer_n_vocab(b);
    for (int32_t id = 0; id < n; id++) {
        const sac_text_span x = sac_token_text(a, id), y = sac_token_text(b, id);
        if (!x.text || !y.text) continue;
        if (x.n_bytes != y.n_bytes || memcmp(x.text, y.text, x.n_bytes) != 0)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "draft model %s: its token %d is \"%.*s\", the model's is \"%.*s\": give one with the same tokens", path,
                            id, (int)(y.n_bytes < 60 ? y.n_bytes : 60), y.text, (int)(x.n_bytes < 60 ? x.n_bytes : 60), x.text);
        n_same++;
    }
    if (n_same > n / 2) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "draft model %s: of %d tokens it has %d of the model's: give one with the same tokens",
                    path, n, n_same);
}

static sac_status open_model(sac_model **out, const sac_model *of, const char *path, sac_error *err) {
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = 1, o.vision_cache_bytes = 0, o.mmproj = "none", o.fast = of->fast;
    sac_status st = sac_model_open(out, path, &o, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "draft model");
    if ((*out)->loaded.has_vision)
        st = sac_fail(err, SAC_UNSUPPORTED,
                      "draft model %s has a vision half, and a draft sees no pictures: give its language model alone (saccade "
                      "quantize writes one as .gguf)",
                      path);
    else
        st = compare_tokens(of, *out, path, err);
    if (st != SAC_OK) {
        sac_model_free(*out);
        return st;
    }
    sac_pool_free((*out)->pool);
    (*out)->pool = of->pool; /* it runs while the other waits */
    return SAC_OK;
}

static sac_status open_entry(sac_draft_models *d, const sac_model *of, const char *path, sac_model **out, sac_error *err) {
    const size_t n = strlen(path) + 1;
    entry *e = malloc(sizeof *e + n);
    if (!e) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    memcpy(e->path, path, n);
    const sac_status st = open_model(&e->model, of, path, err);
    if (st != SAC_OK) {
        free(e);
        return st;
    }
    e->next = d->first;
    d->first = e;
    *out = e->model;
    return SAC_OK;
}

static sac_status find(const sac_model *of, const char *path, sac_model **out, sac_error *err) {
    sac_draft_models *d = of->draft_models;
    sac_status st = SAC_OK;
    *out = NULL;
    pthread_mutex_lock(&d->lock);
    for (entry *e = d->first; e && !*out; e = e->next)
        if (!strcmp(e->path, path)) *out = e->model;
    if (!*out) st = open_entry(d, of, path, out, err);
    pthread_mutex_unlock(&d->lock);
    return st;
}

/* As long as the other sequence; but beyond the length that it was trained on a small model is of no help. */
static sac_session_config config_of(const sac_model *draft, int64_t n_ctx) {
    sac_session_config c;
    const int64_t most = draft->loaded.decoder.config.max_position;
    sac_session_config_default(&c);
    c.n_ctx = most && n_ctx > most ? most : n_ctx;
    return c;
}

sac_status sac_draft_model_open(sac_session **out, const sac_model *of, const sac_draft *draft, int64_t n_ctx, sac_error *err) {
    sac_model *m;
    SAC_TRY(find(of, draft->rest, &m, err));
    const sac_session_config c = config_of(m, n_ctx);
    const sac_status st = sac_session_create(out, m, &c, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "draft model");
}

sac_status sac_draft_model_plan(const sac_model *of, const sac_draft *draft, sac_memory_report *r, sac_error *err) {
    sac_model *m;
    sac_memory_report its;
    SAC_TRY(find(of, draft->rest, &m, err));
    const sac_session_config c = config_of(m, r->n_ctx);
    const sac_status st = sac_session_plan(m, &c, &its, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "draft model");
    const int most = (int)SAC_COUNT(r->parts);
    if (r->n_parts < most) r->parts[r->n_parts++] = (sac_memory_part){"draft model's sequence", its.total_bytes, false};
    if (r->n_parts < most) r->parts[r->n_parts++] = (sac_memory_part){"draft model's workspace", its.workspace_bytes, true};
    r->total_bytes += its.total_bytes;
    r->workspace_bytes += its.workspace_bytes;
    r->weight_bytes += its.weight_bytes;
    return SAC_OK;
}

/* ---------------------------------------------------------------- guesses */

/* The text of rows [0, n) as the draft's tokens, into its room for a prompt: how many, or -1 where it has no room. */
static int64_t text_of(const sac_session *s, sac_session *draft, int64_t n) {
    const sac_decoder_state *d = &s->decoder;
    const int vocab = draft->model->loaded.decoder.config.vocab;
    int64_t n_text = 0;
    int span = 0;
    for (int64_t row = 0; row < n; row++) {
        while (span < d->n_visual && row >= d->visual[span].first + d->visual[span].n) span++;
        const bool shows = span < d->n_visual && row >= d->visual[span].first;
        if (shows || s->ids[row] < 0 || s->ids[row] >= vocab) continue;
        if (n_text == draft->memory.n_ctx) return -1;
        draft->prompt[n_text++] = s->ids[row];
    }
    return n_text;
}

/* Its sequence becomes the first n of its room: what is there already is kept. *n_run: tokens that it ran for that. */
static sac_status follow(sac_session *draft, int64_t n, int64_t *n_run, sac_error *err) {
    const int64_t held = draft->decoder.cache.n_rows;
    int64_t same = 0;
    while (same < held && same < n - 1 && draft->ids[same] == draft->prompt[same]) same++;
    if (same < held) same = sac_decoder_rewind(&draft->decoder, same);
    *n_run = n - same;
    return sac_session_append(draft, draft->prompt + same, (size_t)(n - same), NULL, err);
}

static int32_t likeliest(const sac_session *draft, int n_vocab) {
    const float *logits = draft->decoder.logits;
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

sac_status sac_draft_model_guess(sac_session *s, int64_t past, int most, int32_t *out, int *n, double *behind_s, sac_error *err) {
    sac_session *draft = s->ahead.drafter;
    const int own = s->model->loaded.decoder.config.vocab, its = draft->model->loaded.decoder.config.vocab;
    const int64_t start_ns = sac_now_ns(), n_text = text_of(s, draft, past + 1);
    int64_t n_run;
    *n = 0;
    *behind_s = 0;
    if (n_text < 1) return SAC_OK;
    if (most > draft->memory.n_ctx - n_text) most = (int)(draft->memory.n_ctx - n_text);
    SAC_TRY(follow(draft, n_text, &n_run, err));
    if (n_run > SAC_DRAFT_MOST + 1) *behind_s = sac_seconds_since(start_ns);
    while (*n < most) {
        out[*n] = likeliest(draft, own < its ? own : its);
        if (++*n < most) SAC_TRY(sac_session_append(draft, &out[*n - 1], 1, NULL, err));
    }
    return SAC_OK;
}
