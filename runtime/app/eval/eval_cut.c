#define _GNU_SOURCE
#include "eval_cut.h"
#include "status.h"
#include "utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct cutter {
    run *r;
    bool raw;
    int64_t room;     /* tokens of a prompt */
    int64_t n_format; /* of them the chat format's */
    const char *text; /* as it came */
    int32_t *ids;     /* of it, [n] */
    size_t n;
} cutter;

static sac_status tokenize(const run *r, const char *text, bool start, int32_t **ids, size_t *n,
                           sac_error *err) {
    size_t n_bytes = strlen(text);
    *ids = malloc((n_bytes + 8) * sizeof **ids); /* a token is a byte or more */
    if (!*ids) return sac_fail_no_memory(err);
    SAC_TRY(sac_tokenize_text(r->model, text, n_bytes, start, false, *ids, n_bytes + 8, n, err));
    if (*n > n_bytes + 8) *n = n_bytes + 8;
    return SAC_OK;
}

/* Tokens that the chat format adds to a text; it may share a token with the text's ends, so one more for each. */
static sac_status measure_format(cutter *c, sac_error *err) {
    static const char sample[] = "a";
    conversation talk = {0};
    size_t n = 0, n_sample = 0;
    int32_t *ids = NULL;
    if (c->raw) return SAC_OK;
    sac_status st =
        c->r->s->system ? conversation_add_message(&talk, "system", c->r->s->system, err) : SAC_OK;
    if (st == SAC_OK) st = conversation_add_message(&talk, "user", sample, err);
    if (st == SAC_OK)
        st = sac_session_prompt(c->r->session, talk.messages, talk.n_messages, NULL, 0, &n, err);
    conversation_free(&talk);
    if (st == SAC_OK) st = tokenize(c->r, sample, false, &ids, &n_sample, err);
    free(ids);
    c->n_format = n > n_sample ? (int64_t)(n - n_sample) + 2 : 2;
    return st;
}

/* Tokens of the whole prompt of a text. */
static sac_status measure(const cutter *c, const char *text, int64_t *n_prompt, sac_error *err) {
    size_t n = 0;
    int32_t *ids = NULL;
    sac_status st = tokenize(c->r, text, c->raw, &ids, &n, err);
    free(ids);
    *n_prompt = (int64_t)n + c->n_format;
    return st;
}

/* A cut may leave parts of characters at its two ends: they go. */
static size_t drop_broken(char *s, size_t n_bytes) {
    size_t n = 0, step;
    bool cut;
    for (const char *p = s, *end = s + n_bytes; p < end; p += step) {
        if (!sac_utf8_next(p, end, &step, &cut)) continue;
        memmove(s + n, p, step);
        n += step;
    }
    s[n] = 0;
    return n;
}

/* Tokens [first, first + n) as text, behind what `to` has. */
static sac_status append(const cutter *c, size_t first, size_t n, char *to, size_t room, size_t *n_bytes,
                         sac_error *err) {
    size_t more = 0;
    SAC_TRY(
        sac_detokenize_ids(c->r->model, c->ids + first, n, true, to + *n_bytes, room - *n_bytes, &more, err));
    if (more >= room - *n_bytes) return sac_fail(err, SAC_INTERNAL, "a text grew where it was cut");
    *n_bytes += drop_broken(to + *n_bytes, more);
    return SAC_OK;
}

static sac_status keep_ends(const cutter *c, size_t n_kept, char **out, sac_error *err) {
    size_t half = n_kept / 2, n_bytes = 0, room = 3 * strlen(c->text) + 64; /* a byte may become U+FFFD */
    char *text = malloc(room);
    *out = text;
    if (!text) return sac_fail_no_memory(err);
    SAC_TRY(append(c, 0, half, text, room, &n_bytes, err));
    return append(c, c->n - half, half, text, room, &n_bytes, err);
}

/* Tokens of two halves put together are about as many as before: a few tries find what fits. */
static sac_status cut(cutter *c, int64_t n_prompt, char **out, int64_t *left_out, sac_error *err) {
    int64_t kept = (int64_t)c->n;
    for (int tries = 0; tries < 6 && n_prompt > c->room; tries++) {
        kept -= n_prompt - c->room + (tries ? 2 : 0);
        if (kept < 2) break;
        free(*out);
        *out = NULL;
        SAC_TRY(keep_ends(c, (size_t)kept, out, err));
        SAC_TRY(measure(c, *out, &n_prompt, err));
    }
    if (n_prompt <= c->room) *left_out = (int64_t)c->n - kept / 2 * 2;
    return SAC_OK;
}

sac_status eval_cut_middle(run *r, const char *text, bool raw, char **out, int64_t *left_out,
                           sac_error *err) {
    sac_memory_report memory;
    sac_session_memory(r->session, &memory);
    cutter c = {.r = r, .raw = raw, .room = memory.n_ctx - r->sampling.max_tokens, .text = text};
    int64_t n_prompt = 0;
    *left_out = 0;
    *out = strdup(text);
    sac_status st = *out ? measure_format(&c, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) st = measure(&c, text, &n_prompt, err);
    if (st == SAC_OK && n_prompt > c.room) {
        st = tokenize(r, text, false, &c.ids, &c.n, err);
        if (st == SAC_OK) st = cut(&c, n_prompt, out, left_out, err);
    }
    free(c.ids);
    return st;
}
