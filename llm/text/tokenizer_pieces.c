#include "tokenizer_impl.h"

#include <stdlib.h>

sac_status sac_pieces_add(sac_pieces *p, sac_piece piece, sac_error *err) {
    if (p->n == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 256;
        sac_piece *bigger = realloc(p->piece, capacity * sizeof *bigger);
        if (!bigger) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu pieces of text", capacity);
        p->piece = bigger;
        p->capacity = capacity;
    }
    p->piece[p->n++] = piece;
    return SAC_OK;
}
