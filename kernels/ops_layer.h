/* ops_layer.h - arguments of the ops that every layer and the tower need (see ops.h). */
#ifndef SAC_OPS_LAYER_H
#define SAC_OPS_LAYER_H

#include "device.h"

#include <stdbool.h>

typedef enum sac_activation {
    SAC_ACT_NONE,
    SAC_ACT_GELU,       /* x * Phi(x), by erf */
    SAC_ACT_GELU_TANH,  /* tanh approximation */
    SAC_ACT_QUICK_GELU, /* x * sigmoid(1.702 x): CLIP */
    SAC_ACT_SILU,       /* x * sigmoid(x) */
} sac_activation;

/* y = act(x w^T + bias), or y += act(x w^T + bias) when accumulate is set (the residual of a block).
 * Any dtype of w (blocks run along k). Variants may round x on the way in to the precision of w's own format:
 * q8_0 blocks of 32 with f16 scales for 8- and 4-bit weights, as llama.cpp does; for F32, F16 and BF16
 * weights x keeps f32 precision unless `fast` is set, which allows bf16 products with f32 sums. */
typedef struct sac_linear_args {
    sac_mat y;         /* [m][n] */
    sac_mat x;         /* [m][k] */
    sac_tensor w;      /* [n][k] */
    const float *bias; /* [n] or NULL */
    sac_activation act;
    bool accumulate;
    bool fast;
    bool
        steady; /* on the CPU a row's bits are those that it has alone, at some cost in speed for many rows */
} sac_linear_args;

/* y[i] = table[ids[i]], dequantised. */
typedef struct sac_embed_args {
    sac_mat y;          /* [n][hidden] */
    sac_tensor table;   /* [vocab][hidden] */
    const int32_t *ids; /* [n], each in [0, vocab) */
} sac_embed_args;

/* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
typedef struct sac_rmsnorm_args {
    sac_mat y, x;   /* [rows][n] */
    const float *w; /* [n] */
    float eps;
} sac_rmsnorm_args;

/* y = (x - mean) / sqrt(var + eps) * w + b; y may be x. */
typedef struct sac_layernorm_args {
    sac_mat y, x;
    const float *w, *b;
    float eps;
} sac_layernorm_args;

/* Rotary position embedding in place on every head's first rot_dim channels (Su et al., arXiv:2104.09864).
 * Pairs are (i, i + rot_dim/2), Hugging Face's layout, or (2i, 2i + 1) when interleaved (GGUF's for the llama
 * family). Turning back takes pos[row] positions away again: R(-p) x, without the table's attention factor.
 */
typedef struct sac_rotation {
    const float *cos_sin; /* [positions][rot_dim/2][2], cos and sin times `factor` */
    int rot_dim;
    bool interleaved;
    float factor; /* yarn's attention factor, else 1 */
} sac_rotation;

typedef struct sac_rope_args {
    sac_mat x; /* [rows][n_heads * head_dim] */
    int n_heads, head_dim;
    sac_rotation rotation;
    const int32_t *pos; /* [rows], rows of cos_sin */
    bool back;
} sac_rope_args;

/* y = silu(gate) * up; y may be gate or up. */
typedef struct sac_swiglu_args {
    sac_mat y, gate, up;
} sac_swiglu_args;

/* Keys and values of one layer where they lie: element (row, head, channel) of k is k[row * k_row + head *
 * k_head + channel]. */
typedef struct sac_kv_view {
    void *k, *v;
    sac_dtype dtype; /* F32, F16 or BF16 */
    int n_heads, head_dim;
    int64_t n_rows;
    int64_t row_stride, head_stride; /* elements, of k and of v */
} sac_kv_view;

/* Writes k and v [n][n_heads * head_dim] to rows [first, first + n) of the view, rounded to its dtype. */
typedef struct sac_kv_store_args {
    sac_kv_view kv;
    sac_mat k, v;
    int64_t first;
} sac_kv_store_args;

/* Row numbers of keys and values, each list ascending: one list for all heads, one for each key-value head or
 * one for each query head. */
typedef struct sac_row_lists {
    const int32_t *rows;  /* the lists, one after the other */
    const int64_t *start; /* [n_lists + 1]: list i is rows[start[i]] .. rows[start[i + 1] - 1] */
    int n_lists;          /* 1, kv.n_heads or n_heads */
} sac_row_lists;

/* o = softmax(scale q k^T) v, streamed over the keys with a running maximum (Dao et al., arXiv:2205.14135):
 * no n x n matrix. Query head h reads key-value head h / (n_heads / kv.n_heads). n_batch independent problems
 * lie batch_rows apart in q and o and, unless kv_batch_rows says otherwise, in the rows of kv (a tower's
 * pictures; chunks of a prompt with keys of their own); a decoder's plain attention has n_batch 1. Which
 * keys query i (of a batch's n_q) sees: all n_kv rows; when causal only row j <= first + i; when window > 0
 * only j > first + i - window. With `lists` a head's keys are the rows of its list (n_kv bounds nothing), and
 * the causal test uses the row number. lse[i][h], where asked for, is the logarithm of the softmax's
 * denominator, ln sum exp(scale q k), and -infinity for a query that sees no key: two results over disjoint
 * keys can be joined by it. A device may read rows of the view that no query sees and multiply them by 0:
 * they must hold numbers (zeroed once is enough). */
typedef struct sac_attention_args {
    sac_mat o, q; /* [n_batch * batch_rows or n_q][n_heads * head_dim]; o may be q */
    sac_kv_view kv;
    const sac_row_lists *lists; /* NULL = rows 0..n_kv-1; not with batches */
    float *lse;                 /* [n_q][n_heads] or NULL; not with batches */
    int64_t n_q, n_kv,
        first; /* with lists a device takes n_kv as about the longest list, to share out work */
    int64_t n_batch, batch_rows; /* 1, 0 for one problem */
    bool uneven; /* with lists: only a device knows how long they are, and it shares out work by that; n_kv is
                    what the longest may have */
    int n_heads;
    float scale;
    bool causal;
    int64_t window;        /* 0 = none */
    int64_t kv_batch_rows; /* 0 = batch_rows */
    int64_t list_block; /* with lists: queries that share n_lists of them, lists->start has n_lists for every
                           block of so many, the last may be shorter; 0 = all queries do */
} sac_attention_args;

/* One token each of several sequences, on its way into their attention: of each, q is turned as rope does, in
 * place; k, turned too, and v go to row `first` of its view, rounded to their own type and then to the
 * view's. All of the same heads and the same kind of rotation; rows that are written do not overlap. */
typedef struct sac_token_store {
    sac_mat q, k, v; /* [1][n_heads * head_dim], [1][kv heads * head_dim] x 2 */
    sac_rotation rotation;
    const int32_t *pos; /* [1] */
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_token_store;

typedef struct sac_store_many_args {
    const sac_token_store *each;
    int n;
} sac_store_many_args;

/* Several calls of attention, or of packed_step, that do not write what another reads: one query of each of
 * several sequences, where a device gains by reading all their keys in one go. It knows plain steps of one
 * model only (the same heads, types, scale, window and causal; attention_many: no lists, no lse), and refuses
 * all where it refuses one. */
typedef struct sac_attention_many_args {
    const sac_attention_args *each;
    int n;
} sac_attention_many_args;

/* Attention over two disjoint sets of keys, found apart, becomes that over both (sac_attention_args: lse):
 * o = (o e^lse + other e^other_lse) / (e^lse + e^other_lse), o itself where neither saw a key. */
typedef struct sac_join_attention_args {
    sac_mat o, other;             /* [n][n_heads * head_dim] */
    const float *lse, *other_lse; /* [n][n_heads] */
    int n_heads;
} sac_join_attention_args;

/* One token's way into a layer's attention, where a device gains by doing it in one go: with a = x /
 * sqrt(mean (x^2) + eps) * norm, q = a wq^T (+ bias), turned by rope at pos[0], to the output; k and v
 * likewise (v is not turned) to row `first` of the view. Weights in F32, F16 or BF16. A device may round a to
 * x's type, and may read `pos` and the table while the op before still runs: both come by upload, not from an
 * op. */
typedef struct sac_qkv_step_args {
    sac_mat q;         /* [1][n_heads * head_dim] */
    sac_mat x;         /* [1][hidden] */
    const float *norm; /* [hidden] */
    float eps;
    sac_tensor wq, wk, wv;                 /* [heads * head_dim][hidden] */
    const float *q_bias, *k_bias, *v_bias; /* or NULL */
    sac_rotation rotation;
    const int32_t *pos;
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_qkv_step_args;

/* The way into the MLP of one token, or of one each of a few sequences: y = silu(a gate^T) * (a up^T), a as
 * above for each row. */
typedef struct sac_gate_up_step_args {
    sac_mat y, x; /* [rows][n], [rows][hidden] */
    const float *norm;
    float eps;
    sac_tensor gate, up; /* [n][hidden] */
} sac_gate_up_step_args;

/* Pixels to rows of the patch embedding's input: y[(tile * g + gy) * g + gx][(c * p + py) * p + px] = (pixel
 * / 255 - mean[c]) / std[c], with g = size / p patches a side; a remainder of size / p at the right and
 * bottom is not read (a convolution without padding). */
typedef struct sac_patchify_args {
    sac_mat y;            /* [n_tiles * g * g][3 * p * p] */
    const uint8_t *tiles; /* [n_tiles][size][size][3] RGB */
    int64_t n_tiles;
    int size, patch;
    float mean[3], std[3];
} sac_patchify_args;

/* Mean over stride x stride windows of each tile's grid of tokens; a remainder is not read.
 * y[(t * (g/s) + oy) * (g/s) + ox] = mean of x[(t * g + oy*s + dy) * g + ox*s + dx]. */
typedef struct sac_pool_tokens_args {
    sac_mat y, x; /* [n_tiles * (g/s)^2][n], [n_tiles * g^2][n] */
    int64_t n_tiles;
    int grid, stride;
} sac_pool_tokens_args;

/* y[i] = x[source[i]], or `fill` where source[i] is -1. */
typedef struct sac_gather_rows_args {
    sac_mat y, x;
    const int32_t *source; /* [y.rows] */
    const float *fill;     /* [cols]; may be NULL when no source is -1 */
} sac_gather_rows_args;

/* y[target[i]] = x[i], or y[target[i]] += x[i] when accumulate is set. No target twice; x is not y. */
typedef struct sac_scatter_rows_args {
    sac_mat y, x;
    const int32_t *target; /* [x.rows] rows of y */
    bool accumulate;
} sac_scatter_rows_args;

#endif
