#include "starts.h"

#include "attend.h"

void sac_starts_take(sac_starts *s, int n_lists, const sac_memory *memory) {
    s->at = sac_take_both(memory, ((size_t)n_lists + 1) * sizeof(int64_t));
}

sac_status sac_starts_set(sac_starts *s, const sac_layer_attention *a, int n_lists, int64_t length) {
    int64_t *start = s->at.host;
    if (s->sent == length) return SAC_OK;
    for (int i = 0; i <= n_lists; i++) start[i] = i * length;
    s->sent = 0; /* should it fail */
    SAC_TRY(sac_send(a, s->at, ((size_t)n_lists + 1) * sizeof *start));
    s->sent = length;
    return SAC_OK;
}
