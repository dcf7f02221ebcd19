/* layer_rows.h - hidden rows between a decoder's layers, kept for whoever drafts from them (eagle.h). A decoder that is told of none
 * pays a test of a pointer a layer; what it computes is the same. On the CPU, in f32. */
#ifndef SAC_LLM_LAYER_ROWS_H
#define SAC_LLM_LAYER_ROWS_H

#include "device.h"

enum { SAC_LAYER_ROWS = 3 };

/* The inputs of three layers, of the rows of one sequence that passes have run. Rows that came of elsewhere (of another session, of a
 * store) have none: what is kept begins behind the last of them. */
typedef struct sac_layer_rows {
    int layer[SAC_LAYER_ROWS]; /* ascending; the input of layer 0 is the embeddings */
    int64_t hidden;
    float *rows;        /* [n_ctx][SAC_LAYER_ROWS][hidden]; borrowed */
    int64_t first, end; /* rows of the sequence that are kept */
    int64_t n_read;     /* leading ones of these that their reader has taken, with the token behind each */
} sac_layer_rows;

/* Hidden rows x of the sequence's rows from `at` on, before the layer runs. Every layer sees the same rows in the same order. */
void sac_layer_rows_keep(sac_layer_rows *r, int layer, int64_t at, sac_mat x);

/* The sequence has n rows, and other tokens may follow. */
void sac_layer_rows_cut(sac_layer_rows *r, int64_t n);

#endif
