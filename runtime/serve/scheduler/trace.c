#include "trace.h"
#include "hash.h"

#include <stdlib.h>
#include <string.h>

bool serve_trace_make(serve_trace *t, const serve_request *r) {
    *t = (serve_trace){0};
    t->hash = calloc(r->n_parts + 1, sizeof *t->hash);
    t->weight = calloc(r->n_parts + 1, sizeof *t->weight);
    if (!t->hash || !t->weight) {
        serve_trace_free(t);
        return false;
    }
    uint64_t h = 0; /* a guess, which the session checks */
    size_t media = 0;
    for (size_t i = 0; i < r->n_messages; i++)
        for (size_t k = 0; k < r->messages[i].n_parts; k++) {
            const sac_part *p = &r->messages[i].parts[k];
            h = sac_hash_quick(h, r->messages[i].role, strlen(r->messages[i].role));
            if (p->kind == SAC_PART_TEXT) {
                h = sac_hash_quick(h, p->text, strlen(p->text));
                t->weight[t->n] = (double)strlen(p->text) / 4;
            } else {
                const serve_media_ref *m = &r->media[media++];
                h = sac_hash_quick(h, m->key, sizeof m->key);
                t->weight[t->n] = 64.0 * (double)m->n_frames;
            }
            t->hash[t->n++] = h;
        }
    return true;
}

void serve_trace_free(serve_trace *t) {
    free(t->hash);
    free(t->weight);
    *t = (serve_trace){0};
}

double serve_trace_shared(const serve_trace *a, const serve_trace *b) {
    double shared = 0;
    for (size_t i = 0; i < a->n && i < b->n && a->hash[i] == b->hash[i]; i++) shared += a->weight[i];
    return shared;
}
