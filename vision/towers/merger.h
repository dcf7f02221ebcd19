/* merger.h - from a tower's features to the language model's embeddings: what a family calls its projector,
 * merger or connector. One file and one table each, as with towers. */
#ifndef SAC_VISION_MERGER_H
#define SAC_VISION_MERGER_H

#include "grid.h"
#include "ops.h"
#include "place_weight.h"
#include "weight_slot.h"

#define SAC_MERGERS(X) X(mlp) X(patch) X(deepstack) X(shuffle) X(smolvlm) X(gemma3) X(glm) X(mistral3) X(joined)

enum { SAC_MERGER_MAX_SYMBOLS = 4 };

typedef struct sac_merger_kind sac_merger_kind;

typedef struct sac_merger {
    const sac_merger_kind *kind;
    int in, hidden, out;
    int width; /* of the MLP that ends it (GLM-4.1V); 0: it has none */
    sac_activation act;
    int joins; /* features that make one row of y; 1 unless the kind says otherwise */
    bool pools_first; /* features are averaged over squares before the projector, not what comes of it (mlp) */
    float norm_eps;
    int n_deep; /* further rows of `out` for each row of y: what the decoder adds after its first layers (DeepStack) */
    void *weights; /* kind->weights_bytes */
    void *layers;  /* [n_deep], kind->layer_bytes each */
    float scale;   /* of what it makes (mlp); 0: 1 */
} sac_merger;

/* Embeddings of a picture as weighted sums of what comes of its features (op_blend_rows.h), in tables that lie where
 * the merger runs. */
typedef struct sac_token_blend {
    int n; /* embeddings; 0: they are not blended */
    int32_t *source;
    float *weight; /* [n][SAC_BLEND_TAPS] */
    const float *newline; /* [out], the embedding where a source is -1; NULL: none is */
} sac_token_blend;

/* A call: the features of n pictures that have one grid. */
typedef struct sac_merger_run {
    const sac_merger *merger;
    const sac_ops *ops;
    const sac_stream *stream;
    bool fast; /* bf16 products allowed */
    int n;
    sac_grid grid;         /* of each picture's features */
    int pool;              /* embeddings are averaged over pool x pool squares of the grid; 1: they are not */
    sac_token_blend blend; /* or they are weighted sums */
    /* [n * features of a picture][in], of n_deep + 1 layers one behind another; scratch afterwards */
    sac_mat features;
    sac_mat mid;  /* [the same / joins][hidden], scratch */
    /* [the same / joins][out] in y's type, scratch where embeddings are pooled or blended; where features are pooled first,
     * room for these pooled too */
    void *raw;
    sac_mat y;    /* [n * tokens of a picture][out] */
    sac_mat deep; /* [the same][n_deep * out]; no data where n_deep is 0 */
} sac_merger_run;

struct sac_merger_kind {
    const char *name; /* "mlp" */
    const sac_weight_slot *slots;
    int n_slots;
    size_t weights_bytes, layer_bytes;
    bool joins_squares; /* merge_size x merge_size of the tower's features make one row */
    bool narrows;       /* its inner rows are as wide as y's, not as the joined features */
    bool pools;         /* or as one feature: joined ones are averaged */
    bool reduces;       /* joined features become as wide as one again first: inner rows have room for both */
    int (*symbols)(const sac_merger *m, sac_shape_symbol out[SAC_MERGER_MAX_SYMBOLS]);
    sac_status (*place)(sac_merger *m, sac_placer *p); /* as a tower's */
    sac_status (*run)(const sac_merger_run *r);
};

/* Of all that becomes of a token. */
static inline int64_t sac_merger_width(const sac_merger *m) {
    return (int64_t)m->out * (1 + m->n_deep);
}
static inline int sac_merger_joins(const sac_merger *m) {
    return m->joins > 1 ? m->joins : 1;
}

#define X(name) extern const sac_merger_kind sac_merger_##name;
SAC_MERGERS(X)
#undef X

#endif
