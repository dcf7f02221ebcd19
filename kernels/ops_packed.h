/* ops_packed.h - arguments of the ops over keys and values packed in few bits (see ops.h). */
#ifndef SAC_OPS_PACKED_H
#define SAC_OPS_PACKED_H

#include "ops_layer.h"

/* Rows of keys and values as codes of 2, 4 or 8 bits, x = code * scale + min (packed_rows.h has the layout).
 * Parameters are IEEE halves. Keys: one range a channel over every k_group rows (a multiple of 16, or of
 * capacity or more), k_scale [n_heads][groups][head_dim]; or, k_group 0, one range a row and head, [n_heads]
 * [capacity]. Values: one range a row for every v_group channels (all heads' channels, whole heads, or a
 * multiple of 16 within a head, whose last group may be shorter), v_scale [groups][capacity]; with v_channel
 * [n_heads * head_dim] they are then multiplied by it. */
typedef struct sac_packed_rows {
    int64_t n, capacity; /* rows stored; rows that the layout has room for */
    int n_heads, head_dim, bits;
    uint32_t *k, *v; /* v may be NULL where only scores are wanted */
    uint16_t *k_scale, *k_min, *v_scale, *v_min, *v_channel;
    int64_t k_group;
    int v_group;
} sac_packed_rows;

/* One query against packed rows of several parts, one after the other: o = softmax(scale q k^T) v. With o
 * NULL the scores are only written; with scores and o they are read, not computed. Rows whose score is below
 * min_score[head] do not count, and their values need not be read. lse as in attention. With `weights` what
 * stands in scores is exp(score - lse) instead, written or read, min_score is compared with that, and where
 * it is read lse becomes the logarithm of the sum of what counts. Variants may round a
 * head's q (times the keys' scale) to 16 bits, and its weights (times the values' scale) to 15 bits of the
 * largest of 256 rows. */
typedef struct sac_packed_attention_args {
    float *o;       /* [n_heads * head_dim], or NULL; may be q */
    const float *q; /* [n_heads * head_dim] */
    const sac_packed_rows *parts;
    int n_parts; /* at least one, all of the same heads */
    int n_heads;
    float scale;
    float *scores; /* [n_heads][stride] or NULL */
    int64_t stride;
    bool weights;
    const float *min_score; /* [n_heads] or NULL; not where weights are written */
    float *lse;             /* [n_heads] or NULL */
} sac_packed_attention_args;

/* Which rows of a view: for each head its own list (n_lists heads), one list for all, or, rows NULL, the rows
 * from `first` on. List entries are counted from `first`. */
typedef struct sac_pack_rows {
    const int32_t *rows; /* [n_lists][n] */
    int64_t n, first;
    int n_lists;
} sac_pack_rows;

/* channel[head * head_dim + c] = sqrt(max |v|) over the rows, 1 where that is 0: what the values of packed
 * rows may be divided by. */
typedef struct sac_pack_channels_args {
    uint16_t *channel; /* [n_heads * head_dim] halves */
    sac_kv_view kv;    /* k is not read */
    sac_pack_rows rows;
} sac_pack_channels_args;

/* The rows of kv as rows `to` .. of p: the ranges that p's kinds ask for, then codes. p.v_channel, where p
 * has one, is read. Without p.v keys alone. A device may know only keys with one range a channel for all rows
 * and values with ranges over whole heads, both from row 0 on; or keys alone with a range a row. */
typedef struct sac_pack_rows_args {
    sac_packed_rows p; /* n is to + rows.n */
    sac_kv_view kv;
    sac_pack_rows rows;
    int64_t to; /* above 0: keys alone, with a range a row */
} sac_pack_rows_args;

/* scores[h][i] = scale * (q_h . key), of row first + i of packed keys for i < n, or of row rows[i] of the
 * head's own list of `rows`; with turn_back the key, unpacked, is first turned back by turn_back[i]. lse[h] =
 * ln sum_i exp(scores[h][i]), -infinity without scores. Where keys are in 4 bits, which tell far less, a
 * variant may round a head's q to f16 (times a power of two). */
typedef struct sac_packed_scores_args {
    float *scores; /* [n_heads][stride] */
    int64_t stride, n;
    sac_mat q;                /* [1][n_heads * head_dim] */
    sac_packed_rows keys;     /* values are not read */
    const int32_t *rows;      /* [n_lists][n] or NULL */
    int n_lists;              /* 1, keys.n_heads or n_heads */
    const int32_t *turn_back; /* [n_lists][n] or NULL */
    const sac_rotation *rotation;
    int n_heads;
    float scale;
    int64_t first;       /* 0 with rows or turn_back */
    float *lse;          /* [n_heads] or NULL */
    const int32_t *skip; /* or NULL */
} sac_packed_scores_args;

/* votes[i] = what soft_vote makes of packed_scores' scores of rows first + i, i < n, and their lse, where a
 * device gains by doing all of it in one go. */
typedef struct sac_packed_vote_args {
    float *votes; /* [n] */
    int64_t n;
    sac_mat q;            /* [1][n_heads * head_dim] */
    sac_packed_rows keys; /* values are not read */
    int n_heads;
    float scale;
    int64_t first;
    const int32_t *skip; /* or NULL */
} sac_packed_vote_args;

/* A step over packed rows and a plain tail, where a device gains by doing both in one go: q = softmax(scale q
 * k^T) v over all rows of the parts and of the tail. lse as in attention; variants may round as those of
 * packed_attention do. */
typedef struct sac_packed_step_args {
    sac_mat q;                    /* [1][n_heads * head_dim], replaced by the output */
    const sac_packed_rows *parts; /* all of the tail's heads, values included */
    int n_parts;                  /* may be 0 */
    sac_kv_view tail;             /* n_rows may be 0 when there are parts */
    int n_heads;
    float scale;
    float *lse; /* [n_heads] or NULL */
} sac_packed_step_args;

typedef struct sac_packed_step_many_args {
    const sac_packed_step_args *each;
    int n;
} sac_packed_step_many_args;

#endif
