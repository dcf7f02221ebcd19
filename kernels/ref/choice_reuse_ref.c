#include "ref.h"

#include <math.h>
#include <string.h>

static bool is_alike(const sac_choice_reuse_args *a) {
    double dot = 0, own = 0, theirs = 0;
    for (int64_t c = 0; c < a->n; c++) {
        dot += (double)a->q[c] * (double)a->cached[c];
        own += (double)a->q[c] * (double)a->q[c];
        theirs += (double)a->cached[c] * (double)a->cached[c];
    }
    return dot >= a->theta * sqrt(own * theirs);
}

sac_status sac_ref_choice_reuse(const sac_stream *s, const sac_choice_reuse_args *a) {
    (void)s;
    assert(a->q && a->cached && a->hits && a->skip && a->n >= 0);
    bool may = !a->empty && (a->max_hits <= 0 || a->hits[0] < a->max_hits);
    bool reuse = may && (a->theta <= -1 || (a->theta <= 1 && is_alike(a)));
    *a->skip = reuse;
    a->hits[0] = reuse ? a->hits[0] + 1 : 0;
    a->hits[1] += reuse;
    if (!reuse) memcpy(a->cached, a->q, (size_t)a->n * sizeof *a->q);
    return SAC_OK;
}
