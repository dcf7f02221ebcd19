/* twilight.h - the state of Twilight, between its choice on the CPU (twilight.c) and on a device
 * (twilight_device.c). */
#ifndef SAC_TWILIGHT_H
#define SAC_TWILIGHT_H

#include "gathered.h"
#include "key_block.h"

typedef struct sac_twilight {
    double p;
    bool unite, force_last;
    int bits, skip, n_layers;
    sac_decode *base;
    sac_packed_rows *copy; /* [n_layers - skip], keys only; n counts the rows packed; on a device its codes
                              are there */
    sac_key_block keys;
    uint8_t *codes; /* [head_dim] */
    float *scores;  /* [n_heads][n_ctx], by row */
    float *weights; /* [n_heads][n_ctx], by place in the head's list */
    float *lse, *threshold;
    int64_t *counts, *n_kept; /* [n_heads] */
    float *query;             /* [n_heads * head_dim], turned to a compact position */
    uint8_t *marks;           /* [n_ctx] */
    int32_t *rows;            /* [lists][n_ctx] */
    int64_t *start;           /* [n_heads + 1] */
    int32_t *part;            /* [n_ctx] rows of a compact list that are left */
    int32_t *number;          /* [n_ctx] of each place, among those that are left */
    /* On a GPU scores, threshold, n_kept, rows and start are there, the CPU's others are not taken, and what
     * is read is counted there: */
    sac_buffer
        sums; /* int64_t [n_layers][2] rows of the lists, rows that heads kept; since the session began */
    int64_t *known; /* [n_layers][2] what of them is in the stats */
    bool is_ahead;  /* there is more there than is known */
} sac_twilight;

static inline int sac_twilight_n_lists(const sac_twilight *s, const sac_attention_shape *shape) {
    return s->unite ? shape->n_kv_heads : shape->n_heads;
}

void sac_twilight_take_there(sac_twilight *s, const sac_attention_shape *shape, const sac_memory *memory);

/* Packs rows that have come since the last call. */
sac_status sac_twilight_pack_there(sac_twilight *s, const sac_layer_attention *a);

/* The base's choice, cut down. */
sac_status sac_twilight_cut_there(sac_twilight *s, const sac_layer_attention *a, sac_choice *choice);

/* As `counted` of a policy. */
sac_status sac_twilight_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                sac_layer_stats *stats);

#endif
