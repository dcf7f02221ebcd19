#include "tokenizer_prefix.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    const sac_prefix_entry *x = a, *y = b;
    int c = memcmp(x->text, y->text, x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes);
    if (c) return c;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

void sac_prefix_set_make(sac_prefix_set *set, sac_prefix_entry *entry, size_t n) {
    if (n) qsort(entry, n, sizeof *entry, compare);
    set->entry = entry;
    set->n = (uint32_t)n;
    uint32_t at = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        while (at < n && (unsigned char)entry[at].text[0] < byte) at++;
        set->first[byte] = at;
    }
    set->first[256] = (uint32_t)n;
}

void sac_prefix_set_free(sac_prefix_set *set) {
    free(set->entry);
    memset(set, 0, sizeof *set);
}

/* First entry of [low, high) whose byte at `depth` is at least `byte`; all are longer than depth. */
static uint32_t lower_bound(const sac_prefix_set *set, uint32_t low, uint32_t high, uint32_t depth,
                            unsigned byte) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)set->entry[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sac_prefix_step(const sac_prefix_set *set, sac_prefix_walk *w, char c) {
    unsigned char byte = (unsigned char)c;
    if (w->depth == 0) {
        w->low = set->first[byte];
        w->high = set->first[byte + 1];
    } else {
        while (w->low < w->high && set->entry[w->low].n_bytes == w->depth)
            w->low++; /* shorter ones sort first */
        w->low = lower_bound(set, w->low, w->high, w->depth, byte);
        w->high = lower_bound(set, w->low, w->high, w->depth, byte + 1u);
    }
    w->depth++;
    return w->low < w->high;
}
