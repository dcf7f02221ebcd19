/* window_sums.h - how much the last queries of a prompt look at each key: one pass over a layer's keys for
 * all methods that ask it.
 *
 * The window of SnapKV and PyramidKV, MInference's estimate and ZipVL's recent probes are the same queries,
 * and their scores sums of the same softmax weights. Where a session's prefill and decode policies observe
 * equally many queries (`observes`), the first to ask runs the pass, by query head, and the other adds up
 * what is there. */
#ifndef SAC_WINDOW_SUMS_H
#define SAC_WINDOW_SUMS_H

#include "policy.h"

struct sac_window_sums {
    int64_t window;   /* queries that are observed */
    bool is_done;     /* of the layer at hand */
    float *sums;      /* [n_heads][n_ctx] */
    float *diagonals; /* [n_heads][n_ctx] by distance, for methods that ask; or NULL */
};

/* Queries that both policies observe, 0 when they have nothing to share. */
int64_t sac_shared_window(const sac_prefill *prefill, const sac_decode *decode,
                          const sac_attention_shape *shape);

void sac_window_sums_take(sac_window_sums *w, const sac_attention_shape *shape, bool diagonals,
                          sac_arena *arena);

/* A layer begins. */
static inline void sac_window_sums_begin(sac_window_sums *w) {
    w->is_done = false;
}

/* Sums of the layer's last queries (window of them, or all when there are fewer), by query head. */
sac_status sac_window_sums_find(const sac_layer_attention *a);

#endif
