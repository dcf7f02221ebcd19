/* vote_chunks.h - chunks of a prompt that vote and attend together, where the ops have room for several.
 *
 * Once a layer's keys stand, what TokenSelect does for a chunk of the prompt depends on no other chunk. One
 * at a time they leave most of a GPU idle; here the scan of keys, the vote, the choice and the attention of
 * several of them are one launch each. Keys that are turned back for the vote are so once for the layer, not once for
 * each scan. */
#ifndef SAC_VOTE_CHUNKS_H
#define SAC_VOTE_CHUNKS_H

#include "policy.h"

typedef struct sac_vote_chunks {
    int64_t init, k, local, chunk; /* tokens: first, chosen, last, and of a chunk */
    bool rsqrt_d;                  /* scores of the vote are scaled as in attention */
    bool votes_true, reads_true;   /* the vote, and attention over a list, are at the tokens' own positions: nothing is turned */
    int64_t n_at_once;             /* chunks; below 2 there is no room for them */
    int64_t stride;                /* of scores and votes */
    float *scores;                 /* [n_at_once][n_heads][stride]; where ops run, as all of these */
    float *votes;                  /* [n_at_once][stride] */
    float *lse;                    /* [n_at_once][n_heads] */
    float *query;                  /* [n_at_once][n_heads * head_dim] */
    int32_t *chosen;               /* [n_at_once][k] */
    int32_t *rows;                 /* [n_at_once][init + k + local] */
    int32_t *turn_keys;            /* the same, for lists whose places are positions */
    void *keys, *values;           /* [n_kv_heads][n_at_once][init + k + local][head_dim], queries' type */
    void *unturned;                /* [n_kv_heads][n_ctx][head_dim], the layer's keys without positions, for the vote */
    int32_t *all_rows;             /* [n_ctx] 0, 1 .., with it */
    sac_buffer turns;              /* int32_t, of each query, then of each chunk's mean */
    sac_buffer starts;             /* int64_t [n_at_once + 2][2]: {0, i lists}, last {0, all rows} */
    int64_t n_turns;
} sac_vote_chunks;

/* Settings are filled in before; n_at_once is set here. Where one chunk keeps the ops busy nothing is taken. */
void sac_vote_chunks_take(sac_vote_chunks *s, const sac_attention_shape *shape, const sac_memory *memory);

/* Whole chunks of the prompt from query `first` on that may go together, at most until query `end`: the
 * sequence before the end of the first is longer than init + k + local, and, where means are turned back to
 * position `local`, so is all that precedes it than that. 0: none. */
int64_t sac_vote_chunks_fit(const sac_vote_chunks *s, const sac_layer_attention *a, int64_t first,
                            int64_t end);

/* Attends to n chunks from query `first` on, as many as fit. */
sac_status sac_vote_chunks_attend(sac_vote_chunks *s, const sac_layer_attention *a, int64_t first, int64_t n);

#endif
