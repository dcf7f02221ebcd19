#include "trace.h"
#include "hash.h"

#include <stdlib.h>
#include <string.h>

static serve_trace *take(size_t n_parts) {
    serve_trace *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->hash = calloc(n_parts + 1, sizeof *t->hash);
    t->weight = calloc(n_parts + 1, sizeof *t->weight);
    if (t->hash && t->weight) return t;
    serve_trace_free(t);
    return NULL;
}

/* Text beyond is long, however many tokens it has: counting them would hold up a preparer. */
enum { COUNTED_BYTES = 1 << 18 };

static double weigh_text(const sac_model *m, const char *text, size_t n_bytes) {
    size_t n_ids = 0;
    double guess = (double)n_bytes / 4;
    if (n_bytes > COUNTED_BYTES) return guess;
    sac_status st = sac_tokenize_text(m, text, n_bytes, false, false, NULL, 0, &n_ids, NULL);
    return st == SAC_OK || st == SAC_TOO_LONG ? (double)n_ids : guess;
}

static void add(serve_trace *t, uint64_t hash, double n_tokens) {
    t->hash[t->n] = hash;
    t->weight[t->n++] = n_tokens;
    t->n_tokens += n_tokens;
}

/* Texts may begin alike and go on differently: they are compared piece by piece. */
enum { PIECE_BYTES = 1024 };

static size_t n_pieces(size_t n_bytes) {
    return n_bytes / PIECE_BYTES + 1;
}

/* Returns the hash of all so far. */
static uint64_t add_pieces(serve_trace *t, uint64_t h, const void *bytes, size_t n_bytes, double n_tokens) {
    for (size_t at = 0, n; at < n_bytes || at == 0; at += n) {
        n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
        h = sac_hash_quick(h, (const char *)bytes + at, n);
        add(t, h, n_bytes ? n_tokens * (double)n / (double)n_bytes : 0);
        if (n == 0) break;
    }
    return h;
}

static uint64_t add_text(serve_trace *t, uint64_t h, const sac_model *m, const char *text, size_t n_bytes) {
    return add_pieces(t, h, text, n_bytes, weigh_text(m, text, n_bytes));
}

/* They share no rows. */
static uint64_t begin_hash(const serve_request *r) {
    return r->adapter ? sac_hash_quick(0, r->adapter, strlen(r->adapter)) : 0;
}

static void add_messages(serve_trace *t, const serve_request *r, const sac_model *model) {
    uint64_t h = begin_hash(r);
    size_t media = 0;
    if (r->chat.tools) h = add_text(t, h, model, r->chat.tools, strlen(r->chat.tools));
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++) {
            const sac_part *p = &r->messages[i].parts[k];
            h = sac_hash_quick(h, r->messages[i].role, strlen(r->messages[i].role));
            if (p->kind == SAC_PART_TEXT) {
                h = add_text(t, h, model, p->text, strlen(p->text));
            } else {
                const serve_media_ref *m = &r->media[media++];
                h = sac_hash_quick(h, m->key, sizeof m->key);
                add(t, h, (double)m->n_tokens);
            }
        }
}

/* The first prompt: the others run behind it in the same slot, and count as tokens alone. */
static void add_prompts(serve_trace *t, const serve_request *r, const sac_model *model) {
    for (size_t i = 0; i < r->n_prompts; i++) {
        const serve_prompt *p = &r->prompts[i];
        double n = p->ids ? (double)p->n : weigh_text(model, p->text, p->n);
        if (i > 0)
            t->n_tokens += n;
        else if (p->ids)
            add_pieces(t, begin_hash(r), p->ids, p->n * sizeof *p->ids, n);
        else
            add_pieces(t, begin_hash(r), p->text, p->n, n);
    }
}

static size_t most_pieces(const serve_request *r) {
    size_t n = r->chat.tools ? n_pieces(strlen(r->chat.tools)) : 0;
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++) {
            const sac_part *p = &r->messages[i].parts[k];
            n += p->kind == SAC_PART_TEXT ? n_pieces(strlen(p->text)) : 1;
        }
    if (!r->is_chat && r->n_prompts > 0) n += n_pieces(r->prompts[0].n * sizeof *r->prompts[0].ids);
    return n;
}

serve_trace *serve_trace_open(const serve_request *r, const sac_model *model) {
    serve_trace *t = take(most_pieces(r));
    if (!t) return NULL;
    if (r->is_chat)
        add_messages(t, r, model);
    else
        add_prompts(t, r, model);
    return t;
}

void serve_trace_free(serve_trace *t) {
    if (!t) return;
    free(t->hash);
    free(t->weight);
    free(t);
}

double serve_trace_shared(const serve_trace *a, const serve_trace *b) {
    double shared = 0;
    if (!a || !b) return 0;
    for (size_t i = 0; i < a->n && i < b->n && a->hash[i] == b->hash[i]; i++) shared += a->weight[i];
    return shared;
}
