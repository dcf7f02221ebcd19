/* linear_attention.h - a layer whose attention is linear: it keeps no keys and values of a sequence but one state of a
 * fixed size, which every row changes (Gated DeltaNet, arXiv:2412.06464, as Qwen3.5 has it). In the place of attention:
 *
 *   m = silu(causal_conv(linear(qkv, x)));  q, k, v = columns of m
 *   o = delta_rule(q, k, v, linear(a, x), linear(b, x))
 *   y += linear(out, rmsnorm of each head of o * silu(linear(z, x)))
 *
 * Rows of a sequence go in their order, whatever they are cut into, and each once: a state cannot be taken back by some
 * rows. sac_linear_states says what a sequence keeps. */
#ifndef SAC_LLM_LINEAR_ATTENTION_H
#define SAC_LLM_LINEAR_ATTENTION_H

#include "arena.h"
#include "ops.h"

/* Sizes that all such layers share. */
typedef struct sac_linear_shape {
    int n_heads, n_key_heads; /* of values; of keys and queries. n_heads 0: the model has no such layers */
    int key_dim, value_dim;   /* of a head */
    int conv_width;           /* rows that the convolution sees */
    bool tiled; /* value head h reads key head h modulo n_key_heads (as files in GGUF have them), otherwise neighbours share one */
} sac_linear_shape;

static inline int64_t sac_linear_keys(const sac_linear_shape *s) {
    return (int64_t)s->n_key_heads * s->key_dim;
}
static inline int64_t sac_linear_values(const sac_linear_shape *s) {
    return (int64_t)s->n_heads * s->value_dim;
}
/* Columns of q, k and v together. */
static inline int64_t sac_linear_mixed(const sac_linear_shape *s) {
    return 2 * sac_linear_keys(s) + sac_linear_values(s);
}

/* What one layer computes with; borrowed from the model. */
typedef struct sac_linear_layer {
    sac_weight qkv, z;    /* [mixed][hidden], [values][hidden] */
    sac_weight a, b;      /* [n_heads][hidden] */
    sac_weight out;       /* [hidden][values] */
    const float *conv;    /* [conv_width][mixed]; NULL: the layer has attention */
    const float *a_log, *dt_bias; /* [n_heads] */
    const float *norm;    /* [value_dim] */
} sac_linear_layer;

/* What a sequence keeps of such layers, in the memory where its ops run. A state cannot be cut, so there is a second one of
 * fewer rows, saved while a prompt ran, that the sequence may go back to. */
typedef struct sac_linear_states {
    sac_linear_shape shape;
    int n_layers;
    float *data;        /* [n_layers] layers: the convolution's rows, then the heads' matrices; NULL without layers */
    float *saved;       /* the same */
    int64_t saved_rows; /* tokens that the saved ones are of; 0: none are */
    bool goes_back;     /* the next row goes on from the saved ones */
} sac_linear_states;

/* Bytes of all layers, of both kinds. */
size_t sac_linear_states_bytes(const sac_linear_states *s);
void sac_linear_states_take(sac_linear_states *s, sac_arena *arena);
/* Before the next rows of a sequence of `past` tokens: zeros at its beginning, what was saved where it goes back. On a device
 * in the stream's order, d NULL: the CPU. */
sac_status sac_linear_states_begin(sac_linear_states *s, int64_t past, const sac_device *d, const sac_stream *stream);
/* Saves a layer's, by its number among such layers. */
sac_status sac_linear_states_save(const sac_linear_states *s, int number, const sac_device *d, const sac_stream *stream);

/* Scratch for some rows, in the type of activations. */
typedef struct sac_linear_rows {
    void *mixed;   /* [rows][mixed] */
    void *z, *out; /* [rows][values] */
    void *a, *b;   /* [rows][n_heads] */
} sac_linear_rows;

/* Takes nothing where the model has no such layers. */
sac_linear_rows sac_linear_rows_take(const sac_linear_shape *shape, int64_t rows, sac_dtype t, sac_arena *arena);

/* Rows that follow one another of a sequence. */
typedef struct sac_linear_part {
    int64_t n;
    const sac_linear_states *states;
} sac_linear_part;

enum { SAC_LINEAR_TOGETHER = 32 /* most parts of a call */ };

/* y += what a layer makes of the rows x: first the products of all rows, then the parts, which follow one another, then the
 * rest of all rows. */
typedef struct sac_linear_call {
    const sac_ops *ops;
    const sac_stream *stream;
    const sac_linear_shape *shape;
    const sac_linear_rows *rows;
    const sac_linear_layer *weights;
    sac_mat y, x; /* [rows][hidden] */
    float rms_eps;
    bool fast, steps; /* as in sac_block_rows */
} sac_linear_call;
sac_status sac_linear_in(const sac_linear_call *c);
/* Parts whose rows begin at row `at`; `number`: of the layer among such layers. */
sac_status sac_linear_recur(const sac_linear_call *c, int number, int64_t at, const sac_linear_part *parts, int n_parts);
sac_status sac_linear_out(const sac_linear_call *c);

/* Multiply-adds of a row. */
double sac_linear_attention_cost(const sac_linear_shape *s, int64_t hidden);

#endif
