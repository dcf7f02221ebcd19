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

static void add_messages(serve_trace *t, const serve_request *r, const sac_model *model) {
    uint64_t h = r->adapter ? sac_hash_quick(0, r->adapter, strlen(r->adapter)) : 0; /* they share no rows */
    size_t media = 0;
    if (r->chat.tools) {
        h = sac_hash_quick(h, r->chat.tools, strlen(r->chat.tools));
        add(t, h, weigh_text(model, r->chat.tools, strlen(r->chat.tools)));
    }
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++) {
            const sac_part *p = &r->messages[i].parts[k];
            h = sac_hash_quick(h, r->messages[i].role, strlen(r->messages[i].role));
            if (p->kind == SAC_PART_TEXT) {
                size_t n_bytes = strlen(p->text);
                h = sac_hash_quick(h, p->text, n_bytes);
                add(t, h, weigh_text(model, p->text, n_bytes));
            } else {
                const serve_media_ref *m = &r->media[media++];
                h = sac_hash_quick(h, m->key, sizeof m->key);
                add(t, h, (double)m->n_tokens);
            }
        }
}

serve_trace *serve_trace_open(const serve_request *r, const sac_model *model) {
    serve_trace *t = take(r->n_parts);
    if (!t) return NULL;
    if (r->is_chat) add_messages(t, r, model);
    for (size_t i = 0; !r->is_chat && i < r->n_prompts; i++) /* compared with no other text */
        t->n_tokens += r->prompts[i].ids ? (double)r->prompts[i].n
                                         : weigh_text(model, r->prompts[i].text, r->prompts[i].n);
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
