/* scheme.h - what the matrices of a model are rounded to, by a name: "q4_k_m", "w4a16:g=128". One list for files that
 * are written (models/write) and for rounding while a model is loaded (models/round_weights.h).
 *
 * Names of GGUF are the types and mixes of llama.cpp, which type each tensor gets is its published rule
 * (src/llama-quant.cpp), rows that hold no whole blocks included. Names of compressed-tensors are for the matrices of
 * the decoder's layers alone. */
#ifndef SAC_MODELS_SCHEME_H
#define SAC_MODELS_SCHEME_H

#include "rounding.h"
#include "weight.h"

#include <jansson.h>

typedef struct sac_scheme {
    char name[24];   /* as a user would give it, without its settings */
    bool is_gguf;    /* blocks, of embedding and head too */
    sac_dtype type;  /* of most matrices; of the codes where it is not GGUF's */
    int mix;         /* of GGUF: which tensors get another (scheme.c) */
    int file_type;   /* general.file_type */
    int64_t group;   /* elements of a row with a scale; 0: the row */
    sac_x_rounding x_rounding;
} sac_scheme;

/* BAD_ARGUMENT, with the names that there are. "q4_k" and "q5_k" are q4_k_m and q5_k_m, as in llama.cpp. */
sac_status sac_scheme_parse(sac_scheme *out, const char *text, sac_error *err);

/* NULL-terminated, for lists. */
const char *const *sac_scheme_names(void);

/* What the rule of llama.cpp looks at. */
typedef struct sac_scheme_model {
    int n_layers;
    bool has_head; /* a matrix of its own */
    bool is_70b;   /* 80 layers whose key heads are shared */
} sac_scheme_model;

/* Of GGUF: the type of a matrix of this name ("blk.3.attn_v.weight") and length of rows. */
sac_dtype sac_scheme_block_type(const sac_scheme *s, const sac_scheme_model *m, const char *name, int layer,
                                int64_t cols);

/* Of compressed-tensors: whether a matrix with rows of this length is rounded; otherwise it stays as it is. */
bool sac_scheme_takes_rows(const sac_scheme *s, int64_t cols);

/* Of compressed-tensors: its "quantization_config"; ignored: names and patterns ("re:...") for "ignore". NULL when
 * there is no memory. */
json_t *sac_scheme_config(const sac_scheme *s, const char *const *ignored, size_t n_ignored);

#endif
