#ifndef SAC_OP_BLOCK_ATTENTION_H
#define SAC_OP_BLOCK_ATTENTION_H

#include "kv_view.h"

/* Attention, causal, of blocks of queries over lists of whole blocks of keys, as cover_blocks leaves them
 * (XAttention, arXiv:2503.16428, section 2.2). q's row i stands at row first + i of the keys; every `block` rows of
 * q, from row 0 on, are a block of queries, and key rows [j * block, (j + 1) * block) are block of keys j. Query
 * i and head h meet the rows, up to first + i, of the blocks in columns[i / block][h]: ascending numbers up to
 * the first that is negative. The block of keys with a query's own row is in its list, so that every query sees
 * something: o = softmax(scale q k^T) v over these. pairs, where asked for, are how many pairs of a query and a row
 * each list has. Rows of keys from first + q.rows on are not read. */
typedef struct sac_block_attention_args {
    sac_mat o, q; /* [n][n_heads * head_dim]; o may be q */
    sac_kv_view kv;
    const int32_t *columns; /* [blocks of q][n_heads][stride] */
    int64_t *pairs; /* [blocks of q][n_heads] or NULL */
    int64_t stride, block, first;
    int n_heads;
    float scale;
} sac_block_attention_args;

#endif
