/* block.h - one decoder block: rows of hidden states in, rows out. The rows may be a chunk of a prompt, the
 * token of a step, or one token each of several sequences: this is the only place where a block is computed.
 *
 *   in:   a = rmsnorm(h);  q, k, v = linear(a) (+ bias);  rope(q, k);  k and v to their sequences' caches
 *   attention is between the two, and the caller's: it belongs to a sequence, not to a row
 *   out:  h += linear(o, attention) (+ bias);  b = rmsnorm(h);  h += linear(down, act(gate(b)) * up(b))
 *
 * What sets one family's block apart from another's is a field of sac_decoder_layer, which the family fills,
 * and is looked at in block.c, block_latent.c and block_linear.c alone. Today: biases, a norm of each head of q and k
 * between products and rope (Qwen3), a norm of what a part makes before it is added to h, and the gate's activation
 * (Gemma); no norm before a part, and one of all heads together (OLMo 2); a factor of what is added (Granite); experts
 * in the place of the MLP (experts.h), or beside one of its own width (GraniteMoE's and GLM-4.5's shared experts), which
 * may have a gate of each row (Qwen3.5's); queries, keys and values made of latents (DeepSeek, latent_attention.h); a
 * gate of each channel that attention gives, and a layer whose attention is linear (linear_attention.h), which has
 * neither `in` nor caches (Qwen3.5). Whether a layer's attention slides, and by which table it is turned, is not told
 * here but by decoder_attend.c.
 * The next ones go so:
 *   embeddings by layer                 a table and its gate; at the end of `out`
 * Fused ops know the plain block only: where such a field is set they are not asked. Nor are they where a row has an
 * adapter: its low-rank products come between a product and what follows it. */
#ifndef SAC_LLM_BLOCK_H
#define SAC_LLM_BLOCK_H

#include "experts.h"
#include "latent_attention.h"
#include "linear_attention.h"
#include "ops.h"

/* What an adapter that is kept apart adds to a matrix of a layer: y += b (a x). The same rank in both; without data
 * where the adapter leaves the matrix as it is. */
typedef struct sac_low_rank {
    sac_weight a, b; /* [rank][inputs], [outputs][rank] with the adapter's scaling in it */
} sac_low_rank;

/* One adapter's parts of one layer. */
typedef struct sac_adapted_layer {
    sac_low_rank q, k, v, o, gate, up, down;
} sac_adapted_layer;

/* What one layer computes with. Matrices are [outputs][inputs]; pointers are borrowed from the model. */
typedef struct sac_decoder_layer {
    const float *attn_norm, *mlp_norm; /* [hidden]; NULL where absent */
    const float *attn_post_norm, *mlp_post_norm; /* [hidden], of what is added to h; NULL where absent */
    sac_weight q, k, v, o; /* [heads * head_dim][hidden], [kv..][hidden] x 2, [hidden][heads * head_dim]; of gated
                              attention q is twice as high, behind each head's rows those of its gate */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL where absent */
    const float *q_norm, *k_norm;     /* [head_dim], the same for every head, or of all of them; NULL where absent */
    sac_weight gate, up, down;        /* [width][hidden] x 2, [hidden][width]: sac_block_mlp_width */
    sac_weight router;                /* [experts][hidden], and in the place of the three above, or beside them: */
    const float *router_bias;         /* [experts]; NULL where absent */
    const sac_expert *experts;        /* [experts]; NULL: the layer has none */
    const sac_adapted_layer *adapted; /* [adapters of the decoder]; NULL without */
    sac_linear_layer linear;          /* in the place of q, k, v and o where the layer's attention is linear */
    sac_weight shared_router;         /* [1][hidden], of the gate of the MLP beside experts */
    sac_latent_layer latent;          /* where queries, keys and values are made of latents */
} sac_decoder_layer;

/* Sizes that all layers share. */
typedef struct sac_block_shape {
    int n_heads, n_kv_heads, head_dim;
    int intermediate; /* channels of the MLP of a layer without experts */
    float rms_eps;
    sac_activation gate_act; /* SAC_ACT_NONE: SiLU */
    bool whole_qk_norm;      /* q_norm and k_norm are of all heads together */
    bool gated_attention;    /* what attention gives is multiplied by a gate; layers have a q_norm */
    float residual_scale;    /* of what a part makes; 0: 1 */
    sac_expert_shape experts;
    sac_linear_shape linear;
    sac_latent_shape latent; /* neither adapters nor biases of q, k and v beside it */
} sac_block_shape;

/* Channels of the layer's MLP, be it alone or beside experts; 0: it has none. */
static inline int sac_block_mlp_width(const sac_block_shape *s, const sac_decoder_layer *w) {
    return w->experts ? s->experts.shared : s->intermediate;
}

/* n rows on their way through a block. Matrices have n rows, in the type of activations; but q, between in and out, in
 * that which sac_block_query_type says. Where q, k and v, or
 * gate and up, lie side by side in the same rows, a device may make them by one product. */
typedef struct sac_block_rows {
    const sac_ops *ops;
    const sac_stream *stream;
    sac_block_shape shape;
    sac_mat hidden; /* [n][hidden] in and out */
    sac_mat q; /* [n][heads * head_dim] the queries; then the output of attention; .dtype: of activations */
    sac_mat k, v;     /* [n][kv heads * head_dim] scratch */
    sac_mat norm;     /* [n][hidden] scratch */
    sac_mat query_gate; /* [n][heads * head_dim] of gated attention, between in and out */
    sac_mat wide;       /* [n][2 * heads * head_dim] scratch of gated attention: queries and gates, head by head */
    sac_mat gate, up; /* [n][the widest MLP's channels] scratch */
    sac_expert_rows experts;
    sac_linear_rows linear;
    bool steps;       /* every row is the token of a step: its bits are those that it has alone */
    int64_t n_prompt; /* under `steps`: but for so many at the beginning, which have the bits of a prompt's chunk. More than
                         SAC_LINEAR_FEW_ROWS, or 0; the decoder has no adapters then */
    bool fast;        /* bf16 products allowed */
    int adapter;      /* of all rows: 0 none, otherwise the one after that many less one in `adapted` */
    const int *row_adapters; /* [n] of each row, where they differ; NULL: `adapter` */
    sac_mat low; /* [n][at least the rank of any] scratch; no data where the decoder has no adapters */
} sac_block_rows;

/* Rows [first, first + n) of them, all of steps or all of prompts; scratch of experts and states is shared. */
sac_block_rows sac_block_rows_from(const sac_block_rows *r, int64_t first, int64_t n);

/* Rows of one sequence that follow one another: how they are turned, and where their keys and values go. */
typedef struct sac_block_part {
    int64_t n; /* rows */
    sac_rotation rotation;
    const int32_t *pos; /* [n] positions, where ops read them */
    sac_kv_view kv;
    int64_t first; /* row of the view that the first key and value go to */
} sac_block_part;

/* Attention is fast where queries, keys and values are of one type: where activations and the rows of a cache have
 * two different ones of 16 bits, queries are in the type of the rows, and so is what attention makes of them. */
sac_dtype sac_block_query_type(sac_dtype activations, sac_dtype rows);

/* q, whose rows are in the type of activations or in that of queries, in place to the other one. */
sac_status sac_block_convert(const sac_block_rows *r, sac_mat q, sac_dtype to);

/* Norm, queries, keys and values of all rows; then those of the parts, which are the first rows, turned and
 * stored. Rows beyond the parts are left to sac_block_store. */
sac_status sac_block_in(const sac_block_rows *r, const sac_decoder_layer *w, const sac_block_part *parts,
                        int n_parts);

/* Turns queries and keys of the parts, whose rows begin at row `at`, and stores their keys and values; queries are in
 * their type then. */
sac_status sac_block_store(const sac_block_rows *r, int64_t at, const sac_block_part *parts, int n_parts);

/* The two halves of sac_block_in for a policy that picks its queries: keys and values of all rows, one part;
 * queries of the rows at hand, turned, in the type of activations. The hidden rows of the latter may be those of r->norm. */
sac_status sac_block_in_without_queries(const sac_block_rows *r, const sac_decoder_layer *w,
                                        const sac_block_part *part);
sac_status sac_block_queries(const sac_block_rows *r, const sac_decoder_layer *w,
                             const sac_rotation *rotation, const int32_t *pos);

/* A layer whose attention is linear, in three: the products of all rows; the parts of the rows from `at` on, by the layer's
 * number among such layers; the rest of all rows. */
sac_status sac_block_linear_in(const sac_block_rows *r, const sac_decoder_layer *w);
sac_status sac_block_linear_recur(const sac_block_rows *r, const sac_decoder_layer *w, int number, int64_t at,
                                  const sac_linear_part *parts, int n_parts);
sac_status sac_block_linear_out(const sac_block_rows *r, const sac_decoder_layer *w);

/* The output of attention, in q, in the type of activations again, into the hidden rows; then the MLP. */
sac_status sac_block_out(const sac_block_rows *r, const sac_decoder_layer *w);

/* The two halves of sac_block_out for a policy that picks its queries: what is to be added to hidden rows,
 * left in r->norm; and the MLP of the hidden rows. */
sac_status sac_block_attended(const sac_block_rows *r, const sac_decoder_layer *w);
sac_status sac_block_mlp(const sac_block_rows *r, const sac_decoder_layer *w);

/* y = linear(w, rmsnorm(hidden)): the logits of the rows, with the norm after the last block. */
sac_status sac_block_head(const sac_block_rows *r, const float *norm, const sac_weight *w, sac_mat y);

#endif
