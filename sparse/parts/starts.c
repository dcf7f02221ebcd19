#include "starts.h"

#include "attend.h"

void sac_starts_take(sac_starts *s, int n_lists, const sac_memory *memory) {
    s->at = sac_take_both(memory, ((size_t)n_lists + 1) * sizeof(int64_t));
}

void sac_starts_expect(sac_starts *s, int n_lists, int64_t length) {
    int64_t *start = s->at.host;
    for (int i = 0; i <= n_lists; i++) start[i] = i * length;
}

sac_status sac_starts_set(sac_starts *s, const sac_layer_attention *a, int n_lists, int64_t length) {
    if (s->sent == length) return SAC_OK;
    sac_starts_expect(s, n_lists, length);
    s->sent = 0; /* should it fail */
    SAC_TRY(sac_send(a, s->at, ((size_t)n_lists + 1) * sizeof(int64_t)));
    s->sent = length;
    return SAC_OK;
}
