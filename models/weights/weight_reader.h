/* weight_reader.h - how a matrix is stored, and which tensors of a checkpoint it consists of. A way of storing is a
 * file <name>_weights.c with a reader, and a line in SAC_WEIGHT_READERS; what its numbers mean is a format (weight.h).
 *
 * A checkpoint may hold several: what quantisers leave alone (embeddings, head, vision tower) stays in floats. */
#ifndef SAC_MODELS_WEIGHT_READER_H
#define SAC_MODELS_WEIGHT_READER_H

#include "checkpoint.h"
#include "json.h"
#include "weight.h"

/* Asked in this order. */
#define SAC_WEIGHT_READERS(X)                                                                                \
    X(awq)                                                                                                   \
    X(gptq)                                                                                                  \
    X(packed)                                                                                                \
    X(fp4)                                                                                                   \
    X(fp8)                                                                                                   \
    X(nf4)                                                                                                   \
    X(hqq)                                                                                                   \
    X(llm_int8)                                                                                              \
    X(int8)                                                                                                  \
    X(plain)

typedef struct sac_weight_source {
    const sac_checkpoint *checkpoint;
    const json_t *quantization; /* quantization_config of config.json, or NULL */
} sac_weight_source;

typedef struct sac_weight_reader {
    /* Whether a configuration is this reader's (*is_mine), and UNSUPPORTED for what it asks that is not done. NULL: it
     * needs none. */
    sac_status (*check)(const json_t *quantization, bool *is_mine, sac_error *err);
    /* Lists matrices that have other names in the files, or are of other shapes, as "<module>.weight", [n][k], of an
     * element type of the format's own, and checks their parts. NULL: what is in the files is what others look for. */
    sac_status (*name)(sac_checkpoint *c, const json_t *quantization, sac_error *err);
    /* Whether the matrix with these numbers is stored this way. */
    bool (*knows)(const sac_weight_source *s, const sac_checkpoint_tensor *numbers);
    /* All parts, where they are mapped, at any alignment. */
    sac_status (*read)(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err);
} sac_weight_reader;

#define X(name) extern const sac_weight_reader sac_weight_reader_##name;
SAC_WEIGHT_READERS(X)
#undef X

/* UNSUPPORTED for a quantization_config that no reader takes; NULL is fine. */
sac_status sac_weight_check_config(const json_t *quantization, sac_error *err);

/* Makes a sealed checkpoint's matrices known by the names that families look for, and checks all that they consist of.
 * BAD_FILE, with its name, for one that does not go with the configuration. */
sac_status sac_weight_name_matrices(sac_checkpoint *c, const json_t *quantization, sac_error *err);

/* The matrix whose numbers these are. UNSUPPORTED, with its name, for a type that cannot be computed with. */
sac_status sac_weight_read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                           sac_error *err);

/* Rows [first, first + n) of it, which are in it, where they lie. UNSUPPORTED, with the name, for a format that has not got
 * rows by themselves. */
sac_status sac_weight_rows(sac_weight *w, const char *name, int64_t first, int64_t n, sac_error *err);

/* A checkpoint's tensor as a matrix: what is behind its first dimension is one row. */
sac_tensor sac_checkpoint_matrix(const sac_checkpoint_tensor *t);

#endif
