/* decoder.h - a pre-norm transformer decoder: Llama (Vicuna, Yi, SmolLM2), Mistral and Qwen2 differ in sizes,
 * biases, windows and rope only, so one graph serves them.
 *
 *   h = embed(ids) or visual embeddings
 *   for each layer:  a = rmsnorm(h);  q,k,v = linear(a) (+ bias);  rope(q, k);  store k, v
 *                    h += o_proj(attention(q, cache));  h += down(silu(gate(b)) * up(b)),  b = rmsnorm(h)
 *   logits = head(rmsnorm(h))
 *
 * Prefill runs layers outside and chunks of tokens inside: a layer's linear parts run chunk by chunk, its
 * queries and keys are kept whole, and attention sees all of them at once, because a prefill policy may have
 * to look at a whole layer before it chooses (ZipVL). */
#ifndef SAC_LLM_DECODER_H
#define SAC_LLM_DECODER_H

#include "block.h"
#include "kv_cache.h"
#include "layer_rows.h"
#include "measure.h"
#include "ops.h"
#include "policy.h"
#include "rope.h"
#include "token_told.h"
#include "window_sums.h"

enum { SAC_DECODER_MAX_LAYERS = 1024 };

/* Some of a decoder's layers. */
typedef struct sac_layer_set {
    uint64_t bits[SAC_DECODER_MAX_LAYERS / 64];
} sac_layer_set;

static inline bool sac_layer_set_has(const sac_layer_set *s, int layer) {
    return s->bits[layer / 64] >> (layer % 64) & 1;
}
static inline void sac_layer_set_add(sac_layer_set *s, int layer) {
    s->bits[layer / 64] |= (uint64_t)1 << (layer % 64);
}

typedef struct sac_decoder_config {
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, vocab;
    int64_t max_position;   /* trained context */
    int64_t most_context;   /* tokens within which this graph is the model's; 0: any (Ministral 3) */
    int64_t sliding_window; /* 0 = none */
    bool some_slide;        /* the window is of the layers in `sliding` alone; otherwise of all */
    sac_layer_set sliding;
    float rms_eps;
    bool tied_head;
    sac_rope_config rope;
    bool two_ropes; /* the layers in `second` are turned by second_rope, which is not dynamic (Gemma 3, SmolLM3) */
    sac_layer_set second;
    sac_rope_config second_rope;
    bool whole_qk_norm;      /* norms of queries and keys are of all heads together (OLMo 2) */
    bool gated_attention;    /* what attention gives is multiplied by a gate (Qwen3.5; block.h) */
    float residual_scale;    /* of what a part of a layer makes, before it is added; 0: 1 (Granite) */
    float logit_divisor;     /* 0: 1 (Granite) */
    sac_activation gate_act; /* SAC_ACT_NONE: SiLU */
    float embed_scale;       /* of the embeddings of tokens; 0: 1 */
    float attention_scale;   /* of queries times keys; 0: 1 / sqrt(head_dim) */
    float softcap;           /* of scores, see sac_attention_args; 0: none */
    float logit_softcap;     /* c: logits l become c tanh(l / c); 0: none */
    sac_expert_shape experts;
    sac_layer_set sparse;    /* the layers that have experts in the place of their MLP, or beside one */
    sac_linear_shape linear; /* of the layers in linear_layers, whose attention is linear; at least one layer's is not */
    sac_layer_set linear_layers;
    bool sees_spans;         /* the rows of a picture see one another, in a prompt */
    int n_deep; /* after each of so many first layers, something is added to the rows of pictures (DeepStack,
                   arXiv:2406.04334): see sac_decoder_deep */
    sac_latent_shape latent; /* queries, keys and values are made of latents (DeepSeek) */
} sac_decoder_config;

/* Weights are borrowed from the model's mapping and arena. */
typedef struct sac_decoder {
    sac_decoder_config config;
    sac_weight embed; /* [vocab][hidden] */
    sac_weight head;  /* [vocab][hidden]; equals embed when tied */
    const float *final_norm;
    sac_decoder_layer *layers;               /* [n_layers] */
    const struct sac_controller *controller; /* what came with the model for ADORE (sparse/controller.h), or
                                                NULL */
    const float *head_losses;                /* for DuoAttention: [attending layers][n_kv_heads], or NULL */
    int n_adapters;                          /* that are kept apart, in every layer */
    int64_t most_rank;                       /* of theirs */
} sac_decoder;

/* What a session runs with. */
typedef struct sac_decoder_options {
    int64_t n_ctx, chunk;                     /* tokens; rows of a linear layer at a time */
    const char *prefill, *decode, *kv, *rope; /* lines "name:key=value,..." */
    bool fast;                                /* bf16 products allowed */
    bool measure_mass;                        /* methods are compared with dense attention: slow */
    bool own_numbers;                         /* rows may be numbered otherwise than by their place */
    sac_dtype activations;    /* F32 on the CPU; on a device what its weights were placed for */
    const sac_device *device; /* NULL: the CPU */
    int n_ahead;              /* drafted tokens that a step may run behind its own */
    const char *drafting;     /* line of the decode policy through which the model drafts them itself; NULL: it does not */
    sac_page_pool *pages;     /* that rows of keys and values are in; NULL: they have memory for the whole context */
} sac_decoder_options;

/* What runs of a sequence: a prompt, from its first piece to its logits, or the token of a step. */
typedef enum sac_decoder_use { SAC_FOR_PROMPT, SAC_FOR_STEP } sac_decoder_use;

/* What a device is told and tells of the logits of so many rows. Pinned memory of the host, which ops read and write: */
typedef struct sac_told_room {
    int64_t n_rows;
    sac_score_edit *edits;          /* [n_rows][SAC_MOST_EDITS] */
    uint32_t *masks;                /* [n_rows][(vocab + 31) / 32] */
    double *u, *total;              /* [n_rows], as all that follow */
    float *scale, *largest, *drawn;
    int32_t *n_edits, *is_masked, *largest_at, *drawn_at;
    int32_t *best_at;               /* [n_rows][SAC_MOST_BEST], and copies go there */
    float *best;                    /* likewise */
    int32_t *device_best_at;        /* the same on the device */
    float *device_best;
} sac_told_room;
size_t sac_told_room_bytes(int64_t n_rows, int64_t vocab); /* pinned */
void sac_told_room_lay(sac_told_room *r, void *pinned, int64_t n_rows, int64_t vocab);
void sac_told_room_take(sac_told_room *r, int64_t n_rows, sac_arena *device);

/* One session's buffers, out of its arena, and its attention; and what is lent to it while something runs. Not to
 * be moved once open. */
typedef struct sac_decoder_state {
    sac_attention_shape shape;
    sac_rope_config rope; /* the model's, or what a position scheme made of it */
    char rope_line[64];   /* how it was asked for */
    int64_t n_ctx, chunk, n_spare;
    int n_ahead, vocab;
    int n_deep;
    sac_kv_cache cache;       /* of the layers with keys and values alone, as methods count them (sac_decoder_attending) */
    sac_linear_states states; /* of the others */
    sac_prefill prefill;
    sac_decode decode;
    const sac_device *device; /* NULL: the CPU; where activations, rows and the device_ copies below are */
    sac_dtype dtype;          /* of activations, as the options have it */
    float *cos_sin;           /* [n_ctx][rot_dim/2][2], of the sequence's rows */
    float *second_cos_sin;    /* the same for layers that have a table of their own */
    int64_t n_cos_sin;        /* rows of it that are made */
    bool is_long;             /* with the factors of long sequences (sac_rope_is_long), and so are the keys in the cache */
    sac_row_numbers numbers;  /* what they are made of */
    int32_t *positions;       /* [n_ctx + n_spare] of the hidden rows at hand */
    float *logits;            /* [vocab] of the last token that was run; not of it where told.is_told */
    sac_token_wanted wanted;  /* the caller's: what is read of the logits of a step, so that on a device the rest may stay there */
    sac_token_told told;      /* what came of it */
    float *ahead_logits;      /* [1 + n_ahead][vocab] of the rows of the last pass (decoder_ahead.h), on the host; or NULL */
    bool ahead_stays;         /* but these have stayed on the device, which has told of each row what the op `largest` says: */
    int32_t *ahead_largest_at; /* [1 + n_ahead], pinned; NULL on the CPU */
    float *ahead_largest;      /* likewise */
    float *device_cos_sin, *device_second_cos_sin; /* the same memory as cos_sin's on the CPU */
    int32_t *device_positions;
    int64_t n_positions; /* a device's steps: up to this row it has positions that are the row's number; 0 =
                            not known */
    int32_t *step_id;        /* [1 + n_ahead] on a device: pinned, so that its ops read the tokens of a step where they lie */
    sac_told_room told_room; /* on a device; its part of the device's memory is lent */
    sac_window_sums window_sums;   /* .window 0: prefill and decode policy share nothing */
    sac_mass mass;                 /* when it is measured */
    int64_t last_row;              /* hidden row of the last token run */
    sac_layer_stats *stats;        /* [shape.n_layers], since the last reset */
    const sac_visual_span *visual; /* of the prompt at hand; borrowed */
    int n_visual;
    sac_kept_observer observer;
    bool fast;
    int adapter; /* what the rows that are run next have: 0 none, else the one before that number (block.h) */

    /* Lent while something runs (sac_decoder_lend), NULL in between; in the memory of the decoder's device. A prompt
     * has n_ctx rows of hidden and queries and a chunk of the others; a step has the rows of its tokens,
     * n_spare + 1 + n_ahead. */
    void *hidden;              /* hidden states; row 0 is row first_row of the sequence */
    void *deep;                /* [n_deep * hidden] each, of a prompt; the same rows */
    void *queries;             /* [heads * head_dim] each, then the attention output; the same rows */
    void *query_gates;         /* of gated attention: [heads * head_dim] each; the same rows */
    void *wide;                /* of gated attention: [2 * heads * head_dim] each */
    void *norm;                /* [hidden] each */
    void *k, *v;               /* [kv_heads * head_dim] each */
    void *gate, *up;           /* [sac_decoder_mlp_width] each */
    sac_expert_rows experts;
    sac_linear_rows linear;
    void *low;                 /* [most_rank] each */
    float *device_logits;      /* [vocab], in a step [1 + n_ahead][vocab]; NULL on the CPU */
    int32_t *device_ids;       /* [chunk] on a device, for a prompt */
    int32_t *picked_positions; /* [chunk] of queries that a prefill policy picks; or NULL */
    int64_t first_row;

    sac_decode drafting;             /* of what the model drafts itself (decoder_draft.h); .policy NULL: nothing */
    sac_layer_stats *drafting_stats; /* [shape.n_layers] */
    sac_layer_rows *layer_rows;      /* what a drafting head reads of its layers (layer_rows.h); borrowed, NULL: nothing */
} sac_decoder_state;

/* Bytes by purpose: of a sequence as long as it lives, and of what it is lent. */
typedef struct sac_decoder_plan {
    size_t kv_bytes, state_bytes, rope_bytes, logits_bytes, method_bytes;
} sac_decoder_plan;
typedef struct sac_decoder_loan {
    size_t staging_bytes, hidden_bytes, activation_bytes;
} sac_decoder_loan;

/* Resolves the options; takes no arena memory yet. On failure there is nothing to free. */
sac_status sac_decoder_state_open(sac_decoder_state *s, const sac_decoder *d, const sac_decoder_options *o,
                                  sac_error *err);
/* What sac_decoder_state_take takes, of the device's memory and of the host's (on the CPU they are one). */
void sac_decoder_state_plan(sac_decoder_state *s, const sac_decoder *d, sac_decoder_plan *device,
                            sac_decoder_plan *host);
sac_status sac_decoder_state_take(sac_decoder_state *s, const sac_decoder *d, sac_arena *device,
                                  sac_arena *host, sac_error *err);
void sac_decoder_state_free(sac_decoder_state *s);
/* What it takes besides, of pinned memory of the host, where the decoder is on a device: logits, and what is found among them. */
size_t sac_decoder_pinned_bytes(const sac_decoder_state *s, const sac_decoder *d);

/* What a sequence needs only while it runs comes out of memory that other sequences have at other times. What was in
 * it does not matter: a packed format's staging area on a device is zeroed in `stream`'s order, because attention
 * may read its rows before they are written and multiply them by 0. A step's rows are those from the
 * end of the sequence on. To be given back, and lent again, for every prompt and every step. */
sac_status sac_decoder_lend(sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use,
                            const sac_stream *stream, sac_arena *arena, sac_error *err);
void sac_decoder_give_back(sac_decoder_state *s);
/* What sac_decoder_lend takes of the arena, which is of the memory where the decoder runs. */
sac_decoder_loan sac_decoder_loan_plan(const sac_decoder_state *s, const sac_decoder *d, sac_decoder_use use);
size_t sac_decoder_loan_bytes(const sac_decoder_loan *l);

/* Keeps the first n tokens of the sequence, or none: returns how many are left. None are kept where a method
 * chose by what came after them: what it left may be wrong for another question. Packed formats keep all or
 * none; on a device none. Where layers have a state in the place of keys and values: all, or as many as that was saved of. */
int64_t sac_decoder_rewind(sac_decoder_state *s, int64_t n);
/* What it would return. */
int64_t sac_decoder_can_keep(const sac_decoder_state *s, int64_t n);

/* Whether the rows of a prompt depend on nothing but the tokens up to each and on the session's settings, and can be cut
 * anywhere: then they serve every prompt that begins alike, in this sequence and in others. */
bool sac_decoder_shares(const sac_decoder_state *s);
/* Whether two sequences of a decoder, both of which share, make the same rows of the same tokens. */
bool sac_decoder_same_rows(const sac_decoder_state *a, const sac_decoder_state *b);
/* Of a prompt of n tokens that was run from its first one: the leading rows that every longer prompt makes, bit for bit
 * on the CPU. */
int64_t sac_decoder_rows_to_share(const sac_decoder_state *s, int64_t n);
/* Whether a prompt of n tokens is run as so few rows that their bits are others than in a longer one. */
bool sac_decoder_is_few(const sac_decoder_state *s, int64_t n);
/* The sequence has rows [0, n) now: whoever calls this has written those that it did not have. Methods learn of them when
 * the next prompt runs. */
void sac_decoder_add_rows(sac_decoder_state *s, int64_t n);

/* Channels of the widest of its layers' MLPs, experts apart, whose scratch latents use before attention. */
static inline int64_t sac_decoder_mlp_width(const sac_decoder_config *c) {
    const int mlp = c->experts.shared > c->intermediate ? c->experts.shared : c->intermediate,
              latent = sac_latent_width(&c->latent) > c->latent.q_rank ? sac_latent_width(&c->latent) : c->latent.q_rank;
    return mlp > latent ? mlp : latent;
}

/* Inputs of the widest of a layer's matrices. */
static inline int64_t sac_decoder_widest(const sac_decoder_config *c) {
    const int64_t widths[] = {c->hidden, sac_decoder_mlp_width(c), c->experts.intermediate,
                              (int64_t)c->n_heads * c->head_dim, sac_linear_values(&c->linear)};
    int64_t most = 0;
    for (size_t i = 0; i < SAC_COUNT(widths); i++) most = widths[i] > most ? widths[i] : most;
    return most;
}

/* Whether the layer has experts in the place of its MLP. */
static inline bool sac_decoder_is_sparse(const sac_decoder_config *c, int layer) {
    return c->experts.n && sac_layer_set_has(&c->sparse, layer);
}

/* Whether the layer's attention is linear: it has a state of each sequence in the place of keys and values. */
static inline bool sac_decoder_is_linear(const sac_decoder_config *c, int layer) {
    return c->linear.n_heads && sac_layer_set_has(&c->linear_layers, layer);
}

/* Of the layers before this one as many as have attention over keys and values: its number among those, where it is one.
 * Caches, formats and methods know these layers alone, by that number. With n_layers: how many there are. */
static inline int sac_decoder_attending(const sac_decoder_config *c, int layer) {
    int n = layer;
    for (int i = 0; c->linear.n_heads && i < layer; i++) n -= sac_decoder_is_linear(c, i);
    return n;
}

/* Experts of all layers together. */
static inline size_t sac_decoder_n_experts(const sac_decoder_config *c) {
    size_t n = 0;
    for (int i = 0; i < c->n_layers; i++) n += sac_decoder_is_sparse(c, i) ? (size_t)c->experts.n : 0;
    return n;
}

/* Whether the layer attends to a window only. */
static inline bool sac_decoder_slides(const sac_decoder_config *c, int layer) {
    return c->sliding_window && (!c->some_slide || sac_layer_set_has(&c->sliding, layer));
}

/* Whether cached rows of the sequence, of n_held tokens, may serve as the beginning of one of n_total: not where keys were
 * rotated with other frequencies than a fresh run would use, as dynamic rope scaling does beyond the trained length, and
 * LongRoPE on the other side of it. */
bool sac_decoder_may_reuse(const sac_decoder_state *s, int64_t n_held, int64_t n_total);
/* The same of rows that other sequences made (sac_decoder_rows_to_share). */
bool sac_decoder_may_take(const sac_decoder_state *s, int64_t n_total);
/* Whether the keys in the cache are of no use for a sequence of n_total tokens: all of them are to be run anew, as a prompt.
 * A step that is asked for all the same is refused. */
bool sac_decoder_turns_anew(const sac_decoder_state *s, int64_t n_total);

/* Of the first n tokens of a prompt of n_total as many as may be taken from the cache for the bits of a prompt that is
 * run from its first token: the others are then run in chunks of as many rows as they would be (SAC_LINEAR_FEW_ROWS).
 * On a device rows are rounded by the shape of a call anyway: n. */
int64_t sac_decoder_whole_rows(const sac_decoder_state *s, int64_t n, int64_t n_total);

/* Called between layers (and with layer = n_layers at the end): report progress, or return CANCELLED. */
typedef sac_status (*sac_layer_fn)(void *ctx, int layer, int n_layers);

/* Numbers the rows of the prompt that is run next, of which the first n_reused are cached. `numbers` points
 * into the caller's memory while the sequence lasts; without ids every row's number is its place. */
void sac_decoder_number_rows(sac_decoder_state *s, sac_row_numbers numbers, int64_t n_reused);
/* The same where tokens follow the cached ones that are no part of a prompt: they are counted on. */
void sac_decoder_count_on(sac_decoder_state *s);

/* Embeddings of ids into hidden rows [first, first + n). */
sac_status sac_decoder_embed(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                             const sac_stream *stream, int64_t first, int64_t n, const int32_t *ids);

/* Hidden rows [first, first + n), where the decoder runs and in its type: whoever has embeddings of another
 * kind than text (of pictures) writes them here before the prompt is run. */
sac_mat sac_decoder_hidden(const sac_decoder_state *s, int64_t first, int64_t n);

/* What is added to the rows [first, first + n) of a prompt that show pictures (.visual): n_deep times a row of hidden,
 * side by side, for one layer after another. Whoever writes their embeddings writes these too. No data where n_deep
 * is 0. */
sac_mat sac_decoder_deep(const sac_decoder_state *s, int64_t first, int64_t n);

/* Runs n new tokens, whose embeddings stand in s->hidden rows [past, past + n), after the `past` tokens
 * already cached. Afterwards s->last_row is the hidden row of the last layer's output for the last token
 * (before the final norm); rows [past + n - n_out, past + n) hold those of the last n_out tokens, unless the
 * prefill method has dropped some. Others are left out of the last layer but for their keys and values. On
 * failure the sequence is cut back to at most `past` tokens. */
sac_status sac_decoder_prefill(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                               const sac_stream *stream, int64_t past, int64_t n, int64_t n_out,
                               sac_layer_fn on_layer, void *ctx, sac_error *err);

/* Logits of hidden rows [first, first + n) into out [n][vocab]. */
sac_status sac_decoder_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                              const sac_stream *stream, int64_t first, int64_t n, float *out);

/* Those of the last token run, into s->logits. */
sac_status sac_decoder_last_logits(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                                   const sac_stream *stream);

/* What the head made them of, right after that call: the token's hidden state behind the final norm, into out [hidden]. */
sac_status sac_decoder_last_hidden(const sac_decoder *d, sac_decoder_state *s, const sac_stream *stream, float *out);

/* One token after `past` cached ones; leaves its logits in s->logits, or what is wanted of them. */
sac_status sac_decoder_step(const sac_decoder *d, sac_decoder_state *s, const sac_ops *ops,
                            const sac_stream *stream, int64_t past, int32_t id, sac_error *err);

/* What methods did is counted anew; unless what a device has counted cannot be fetched, for then it could not
 * be told from what comes. */
void sac_decoder_reset_stats(sac_decoder_state *s, const sac_stream *stream);

#endif
