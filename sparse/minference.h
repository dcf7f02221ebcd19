/* minference.h - what the two files of MInference share: its pattern (minference.c), and how it is filled in
 * and read on a device (minference_device.c). */
#ifndef SAC_MINFERENCE_H
#define SAC_MINFERENCE_H

#include "sparse.h"

enum {
    SAC_MINFERENCE_MAX_DEVICE_ROWS = 800000
}; /* pattern_rows on any card: its marks lie in shared memory */
enum { BLOCK = 64, FIRST_COLUMNS = 30, NEAR_DIAGONALS = 100 };
enum { VERTICAL_SLASH, BLOCK_SPARSE, A_SHAPE };

/* On a device `there` has what ops read and write, and of the rest only `pairs` and `numbers` are taken. */
typedef struct minference {
    int pattern, n_heads, dense_layers;
    int64_t v, s, blocks, last_q, n_ctx;
    float *columns, *diagonals; /* [n_heads][n_ctx] estimates; scores of block_sparse */
    float *block_scores;        /* [n_heads][blocks of n_ctx] */
    float *mean_q;              /* [n_heads * head_dim] */
    int32_t *best_columns;      /* [n_heads][v] ascending */
    int32_t *best_diagonals;    /* [n_heads][s] ascending */
    int32_t *best_blocks;       /* [n_heads][blocks met] ascending */
    int32_t *rows;              /* [n_heads][n_ctx] lists of a block of queries */
    int64_t *start;             /* [n_heads + 1] */
    int64_t *pairs;             /* [blocks of n_ctx][lists] */
    int32_t *numbers;           /* [s] diagonals of a_shape */
    struct {
        int n_lists;     /* for a block of queries: heads', or one */
        int64_t at_once; /* blocks of queries whose lists there is room for */
        float *columns,
            *diagonals;         /* [n_heads][n_ctx]; of block_sparse [at_once][n_heads][blocks of n_ctx] */
        float *mean_q, *mean_k; /* [at_once][n_heads * head_dim]; [n_kv_heads][blocks of n_ctx][head_dim] */
        float *infinite;        /* [NEAR_DIAGONALS] */
        int32_t *best_columns, *best_diagonals; /* as above; or [at_once][n_heads][blocks] */
        int32_t *rows;                          /* [at_once][lists][as long as they get] */
        int64_t *start, *pairs;                 /* [at_once * lists + 1]; as above */
        bool has_constants;
    } there;
} minference;

void sac_minference_take_host(minference *m, sac_arena *arena);
void sac_minference_take_device(minference *m, const sac_attention_shape *shape, sac_arena *arena);

/* What the last queries give to columns and diagonals, by head: [n_heads][stride]. */
sac_status sac_minference_sums(const minference *m, const sac_layer_attention *a, float *columns,
                               float *diagonals, int64_t stride);

/* A layer of a prompt whose pattern leaves something out. */
sac_status sac_minference_attend_on_device(minference *m, const sac_layer_attention *a);

#endif
