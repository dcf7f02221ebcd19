/* eagle.h - an EAGLE-3 head: one layer that drafts for a model from hidden rows of three of its layers (Li et al. 2025,
 * arXiv:2503.01840, sec. 3).
 *
 *   g = fc(low, middle, high)                   of a row that the model has run; of a drafted one what the head made of it, h
 *   a = (norm(embed(the token behind it)), norm(g))                               twice as wide
 *   h = g + o(attention(q(a), k(a), v(a)));  h += mlp(norm(h))                    over the head's own keys and values
 *   what follows that token = head(norm(h)), among tokens of the head's own numbering
 *
 * Drafts are a chain here, each the likeliest token, not the paper's tree. Only on the CPU, in f32. */
#ifndef SAC_LLM_EAGLE_H
#define SAC_LLM_EAGLE_H

#include "arena.h"
#include "decoder.h"
#include "layer_rows.h"

/* The folders of the paper's authors have none of the flags; those of the `speculators` library may. */
typedef struct sac_eagle_config {
    sac_decoder_config layer;     /* its one layer; .vocab is the model's */
    int n_draft;                  /* tokens that it may draft */
    int target_hidden;            /* of the model */
    int at[SAC_LAYER_ROWS];       /* the model's layers whose inputs it reads, ascending */
    bool norm_before_residual;    /* what attention is added to is norm(g) */
    bool norm_output;             /* of a drafted row g is norm(h) */
    bool norm_before_fc;          /* the three rows are normed before fc, together */
    bool fc_norm;                 /* each by itself */
    bool qk_norm, attention_bias; /* what its layer has */
} sac_eagle_config;

/* Weights are borrowed from the head's mapping and arena. */
typedef struct sac_eagle {
    sac_eagle_config config;
    sac_weight fc;                                /* [hidden][3 * target_hidden] */
    sac_weight embed;                             /* [vocab][hidden] its own; no data: the model's */
    sac_weight head;                              /* [n_draft][hidden] */
    const float *embed_norm, *hidden_norm, *norm; /* [hidden] */
    const float *fc_norm;    /* [3 * target_hidden], of norm_before_fc and fc_norm; or NULL */
    sac_decoder_layer layer; /* q, k and v have 2 * hidden inputs; attn_norm NULL */
    const int32_t *to_model; /* [n_draft] ids of the model */
} sac_eagle;

/* Of one sequence. */
typedef struct sac_eagle_state {
    const sac_eagle *head;
    int64_t n_ctx;       /* of the model's sequence */
    int most;            /* tokens drafted at a time */
    sac_layer_rows rows; /* that the model keeps for it; row first + i is row i here */
    float *cos_sin;      /* [n_ctx + most][rot_dim / 2][2], of which so many rows were needed so far: */
    int64_t n_turned;
    int32_t *positions;  /* [n_ctx + most] */
    float *k, *v;        /* [n_ctx + most][kv_heads * head_dim] */
    float *logits;       /* [n_draft] of the last row that was run */
    /* [sac_eagle_chunk] rows each */
    float *hidden, *fresh, *pair, *q, *new_k, *new_v, *norm, *gate, *up, *three;
    int32_t *ids;
    uint8_t *scratch; /* of its products, which may be wider than the model's */
    size_t scratch_bytes;
} sac_eagle_state;

/* Rows run together. */
enum { SAC_EAGLE_CHUNK = 256 };

/* Takes its memory, with the scratch of these ops, out of the arena, which may only measure. */
void sac_eagle_take(sac_eagle_state *s, const sac_eagle *head, int64_t n_ctx, int most, const sac_ops *ops, sac_arena *arena);

typedef struct sac_eagle_run {
    sac_eagle_state *s;
    const sac_weight *embed; /* the model's */
    const sac_ops *ops;
    const sac_stream *stream; /* whose shared scratch is left alone */
} sac_eagle_run;

/* Reads rows of the model up to `past`, SAC_EAGLE_CHUNK at most, with the token behind each, ids[row + 1]; s->logits are those of
 * the last one. *n_read: how many; 0 where none is kept or all were read. */
sac_status sac_eagle_follow(const sac_eagle_run *r, const int32_t *ids, int64_t past, int64_t *n_read);

/* What may follow ids[past], of a sequence whose rows before `past` are kept: at most `most` tokens into out, *n of them; none
 * where the row before `past` is not kept, or more than a chunk of rows is left to be read, of which this call reads one.
 * past + most <= n_ctx. */
sac_status sac_eagle_guess(const sac_eagle_run *r, const int32_t *ids, int64_t past, int most, int32_t *out,
                           int *n);

#endif
