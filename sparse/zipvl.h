/* zipvl.h - the state of ZipVL, between its choice of tokens and settings (zipvl.c) and the attention over
 * them (zipvl_attend.c). */
#ifndef SAC_ZIPVL_H
#define SAC_ZIPVL_H

#include "join.h"
#include "policy.h"

/* Which queries meet which keys, T being the important tokens: T meets T and the others meet nothing; all
 * meet T; T meets T and the others the newest keys up to their own, and the sequence's first ones; all meet T and
 * the newest keys up to their own. */
typedef enum sac_zipvl_side { SAC_ZIPVL_TWO, SAC_ZIPVL_ONE, SAC_ZIPVL_BAND, SAC_ZIPVL_NEAR } sac_zipvl_side;

/* side=near: lists of the keys that a block of queries meets, where ops run. */
typedef struct sac_zipvl_lists {
    int64_t at_once;   /* blocks */
    int32_t *rows;     /* [at_once][n_ctx] */
    int64_t *start;    /* [at_once + 1] */
    int64_t *pairs;    /* [at_once] */
    sac_buffer strips; /* int32_t [n_strips] how far before a block they begin */
    int64_t n_strips;
} sac_zipvl_lists;

typedef struct sac_zipvl {
    const double *p;
    sac_zipvl_side side;
    int64_t band, sink, recent, random, n_ctx;
    sac_buffer sums, means; /* float [n_ctx] */
    sac_buffer probes;      /* int32_t [recent + random] */
    sac_buffer kept;        /* int32_t [n_ctx] T, counted from the first query */
    sac_buffer rows;        /* int32_t [n_ctx] of the view: earlier ones and T */
    sac_buffer start;       /* int64_t [2] of rows */
    sac_buffer least;       /* a threshold, then how many pass it as int64_t */
    sac_buffer draw;        /* int32_t [n_ctx] drawing probes; which output is whose, -1 = none */
    int64_t n_kept;
    int64_t at_once; /* rows that are moved at a time */
    /* Where ops run: */
    float *k, *v;   /* [n_kv_heads][n_ctx][head_dim] gathered */
    void *part;     /* [..][n_heads * head_dim] probes' queries; rows on their way, T's queries and outputs */
    int32_t *count; /* [at_once] 0, 1 .. */
    float *zeros;   /* [n_heads * head_dim] */
    sac_join_scratch join; /* where sink > 0 */
    sac_zipvl_lists lists; /* of side=near */
} sac_zipvl;

/* Room to gather T, or for lists. Not with side=one, which needs neither. */
void sac_zipvl_take_rooms(sac_zipvl *z, const sac_attention_shape *shape, const sac_memory *memory);

/* Attention where some tokens are left out: T is in kept, on both sides. Counted. */
sac_status sac_zipvl_attend(sac_zipvl *z, const sac_layer_attention *a);

#endif
