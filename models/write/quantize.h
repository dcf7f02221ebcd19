/* quantize.h - a model written anew with its language half in fewer bits: a Hugging Face folder in compressed-tensors'
 * layout, or a GGUF file. Names of formats are those of scheme.h.
 *
 * A folder keeps everything else that is in it: tower, projector, embedding and head in the type they have, tokenizer,
 * templates, processors; files of weights keep their names. A GGUF file is written from a folder whose language half is
 * of the architectures llama, qwen2, qwen3, qwen2vl, qwen3vl, gemma2, gemma3, granite, olmo2 or smollm3 (without its
 * pictures' half), or from a GGUF file, whose metadata it keeps.
 *
 * Memory does not grow with the model: a stretch of rows at a time is read, rounded and written. What is written bears
 * another name, OUT.part, until it is whole and on the disk. */
#ifndef SAC_MODELS_QUANTIZE_H
#define SAC_MODELS_QUANTIZE_H

#include "calibrator.h"

#include <stdbool.h>
#include <stdint.h>

/* What will be written, known before anything is. */
typedef struct sac_quantize_plan {
    uint64_t n_bytes;        /* of all files, exactly */
    uint64_t bytes_done;     /* of these, in files, or tensors of a GGUF file, that an interrupted run finished */
    uint64_t bytes_free;     /* on the disk, with what an interrupted run has left that is written over */
    uint64_t weights_before; /* bytes of the tensors that are read for it */
    int n_rounded;           /* matrices */
    int n_kept;              /* matrices of layers left as they are, because the format's groups do not fill their rows */
    char first_kept[128];
    bool drops_vision; /* GGUF of a model that sees */
    sac_calibration_plan calibration; /* zeroed without one */
    char chat_lost[32], chat_instead[32]; /* GGUF of a folder without chat templates: its family's built-in format, and
                                             the one that the file is read with; "" where they are the same */
} sac_quantize_plan;

typedef struct sac_quantize_options {
    const char *format;
    const char *program; /* what writes: its version and commit, of which OUT.part has to be; NULL: SAC_VERSION */
    int n_threads;                                             /* 0: one for each processor */
    void (*planned)(void *ctx, const sac_quantize_plan *plan); /* before the disk is touched; or NULL */
    void (*progress)(void *ctx, const char *stage, int64_t done, int64_t total); /* bytes; or NULL */
    void *ctx;
    bool is_calibrated;               /* by a calibrator, which sac_quantize_check does without */
    const sac_calibrator *calibrator; /* or NULL: to nearest */
} sac_quantize_options;

/* BAD_ARGUMENT: an unknown format, or an `out` that is there already (an empty folder may be, but no link and no mount
 * point), does not go with the format, or whose OUT.part is the source. UNSUPPORTED: a source that is quantised, or that
 * GGUF cannot say. IO: no room, another run that writes OUT.part, or a failed write; then nothing is at `out`, and the
 * finished files of weights of a folder, or the finished tensors of a GGUF file, are in OUT.part, from where a later call goes on. What OUT.part has
 * of another format, source, list of prompts or program is BAD_ARGUMENT. */
sac_status sac_quantize(const char *in, const char *out, const sac_quantize_options *options, sac_error *err);

/* What sac_quantize refuses by names, config.json, tensors' types and runs beside it, before a calibration is opened; not what a format
 * of GGUF cannot say of a folder, nor a disk that is full. Writes nothing. */
sac_status sac_quantize_check(const char *in, const char *out, const sac_quantize_options *options, sac_error *err);

#endif
