#include "draft_head.h"

#include "clock.h"
#include "eagle_head.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next;
    sac_eagle_head head;
    char path[];
} entry;

struct sac_draft_heads {
    pthread_mutex_t lock;
    entry *first;
};

sac_status sac_draft_heads_create(sac_draft_heads **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    pthread_mutex_init(&(*out)->lock, NULL);
    return SAC_OK;
}

void sac_draft_heads_free(sac_draft_heads *d) {
    if (!d) return;
    for (entry *e; (e = d->first);) {
        d->first = e->next;
        sac_eagle_head_free(&e->head);
        free(e);
    }
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static sac_status add(sac_draft_heads *d, const sac_model *m, const char *path, entry **out, sac_error *err) {
    const size_t n = strlen(path) + 1;
    entry *e = *out = malloc(sizeof *e + n);
    if (!e) return sac_fail(err, SAC_NO_MEMORY, "no memory for a head");
    memcpy(e->path, path, n);
    const sac_status st = sac_eagle_head_open(&e->head, path, &m->loaded.decoder, err);
    if (st != SAC_OK) {
        free(e);
        return sac_fail_prefix(err, st, "draft eagle3");
    }
    e->next = d->first;
    d->first = e;
    return SAC_OK;
}

/* The one of a path, opened if there is none yet. */
static sac_status find(const sac_model *m, const char *path, const sac_eagle_head **out, sac_error *err) {
    sac_draft_heads *d = m->draft_heads;
    sac_status st = SAC_OK;
    pthread_mutex_lock(&d->lock);
    entry *e = d->first;
    while (e && strcmp(e->path, path) != 0) e = e->next;
    if (!e) st = add(d, m, path, &e, err);
    pthread_mutex_unlock(&d->lock);
    if (st == SAC_OK) *out = &e->head;
    return st;
}

static bool has_head(const sac_draft *d) {
    return d->method && d->method->from == SAC_DRAFT_OF_HEAD;
}

sac_status sac_draft_head_plan(const sac_model *m, const sac_draft *draft, const sac_decoder_state *decoder,
                               sac_memory_report *report, sac_error *err) {
    const sac_eagle_head *head;
    sac_eagle_state state;
    sac_arena arena = sac_arena_measure();
    if (!has_head(draft)) return SAC_OK;
    if (decoder->prefill.policy->keep)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "draft eagle3 and prefill policy %s: it drops tokens; use another of the two",
                        decoder->prefill.policy->name);
    SAC_TRY(find(m, draft->rest, &head, err));
    sac_eagle_take(&state, &head->eagle, decoder->n_ctx, draft->most, &m->ops, &arena);
    if (report->n_parts < (int)SAC_COUNT(report->parts))
        report->parts[report->n_parts++] =
            (sac_memory_part){"draft head's sequence", arena.used_bytes, false};
    report->total_bytes += arena.used_bytes;
    report->weight_bytes += head->n_bytes;
    return SAC_OK;
}

sac_status sac_draft_head_take(sac_session *s, sac_error *err) {
    const sac_eagle_head *head;
    const sac_draft *draft = &s->ahead.draft;
    sac_eagle_state *state = &s->ahead.head;
    if (!has_head(draft)) return SAC_OK;
    SAC_TRY(find(s->model, draft->rest, &head, err));
    sac_eagle_take(state, &head->eagle, s->decoder.n_ctx, draft->most, &s->model->ops, &s->arena);
    if (!state->ids || (state->scratch_bytes && !state->scratch))
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the draft's head");
    s->decoder.layer_rows = &state->rows;
    return SAC_OK;
}

/* Whether the answer has a token left to draft when so many rows have been read: a chunk goes before each step until few are left. */
static bool is_worth(const sac_session *s, int64_t past, int64_t behind, int64_t few) {
    const int64_t steps = (behind - few + SAC_EAGLE_CHUNK - 1) / SAC_EAGLE_CHUNK;
    return steps < s->reply.limit - s->reply.result.n_tokens && steps < s->memory.n_ctx - past;
}

sac_status sac_draft_head_guess(sac_session *s, const sac_ops *ops, const sac_stream *stream, int64_t past, int most, int32_t *out,
                                int *n, double *behind_s, sac_error *err) {
    const sac_eagle_run r = {&s->ahead.head, &sac_model_decoder(s->model)->embed, ops, stream};
    const sac_layer_rows *kept = &r.s->rows;
    const int64_t start_ns = sac_now_ns(), few = SAC_DRAFT_MOST + 1;
    sac_status st = SAC_OK;
    int64_t n_read;
    *n = 0;
    *behind_s = 0;
    SAC_TRY(sac_session_check_cancel(s, err));
    if (past - kept->first - kept->n_read > few) {
        if (!is_worth(s, past, past - kept->first - kept->n_read, few)) return SAC_OK;
        st = sac_eagle_follow(&r, s->ids, past, &n_read);
        *behind_s = sac_seconds_since(start_ns);
        if (st == SAC_OK && past - kept->first - kept->n_read > few) return SAC_OK;
    }
    if (st == SAC_OK) st = sac_eagle_guess(&r, s->ids, past, most, out, n);
    return st == SAC_OK ? st : sac_fail(err, st, "draft eagle3: a product or attention of the head failed");
}
