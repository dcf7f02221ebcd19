#include "suggest.h"

#include <string.h>

#define NAME_MAX_BYTES 60

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment), over three rows of its table. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][NAME_MAX_BYTES + 1], n_a = strlen(a), n_b = strlen(b);
    for (size_t j = 0; j <= n_b; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *over = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], over[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

void suggest_offer(suggestion *s, const char *name) {
    size_t n_typed = strlen(s->typed), n = strlen(name);
    if (n_typed > NAME_MAX_BYTES || n > NAME_MAX_BYTES) return;
    size_t d = distance(s->typed, name), allowed = n >= 6 ? 2 : 1;
    if (n_typed >= 3 && !strncmp(s->typed, name, n_typed)) d = allowed = 1;
    if (d > allowed || (s->best && d >= s->distance)) return;
    s->best = name;
    s->distance = d;
}
