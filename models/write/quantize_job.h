/* quantize_job.h - what the ways of writing (quantize.h) share, inside models/write only. */
#ifndef SAC_MODELS_QUANTIZE_JOB_H
#define SAC_MODELS_QUANTIZE_JOB_H

#include "gguf_write.h"
#include "hash.h"
#include "model.h"
#include "out_file.h"
#include "quantize.h"
#include "round_plan.h"

#define SAC_WRITE_PATH 4096

typedef struct sac_quantize_job {
    const char *in, *out;
    const sac_quantize_options *options;
    sac_scheme scheme;
    sac_pool *pool;
    sac_quantize_plan plan;
    sac_out_progress progress;
    uint64_t bytes_reused; /* on the disk, of what a run before has left in OUT.part and this one writes over */
    sac_error *err;
    /* of a folder */
    json_t *config_json;
    sac_model_config config;
    sac_checkpoint weights; /* of a GGUF file too */
    sac_tensor_table table;
    sac_round_plan rounds;
} sac_quantize_job;

/* config.json, weights and their table; UNSUPPORTED for a model that is quantised. */
sac_status sac_quantize_open_folder(sac_quantize_job *j);

sac_status sac_quantize_to_folder(sac_quantize_job *j); /* of a folder */
sac_status sac_quantize_folder_to_gguf(sac_quantize_job *j);
sac_status sac_quantize_gguf(sac_quantize_job *j);
sac_status sac_quantize_check_gguf(sac_quantize_job *j); /* that its tensors can be rounded; writes nothing */

/* The plan has its sizes: tells them, and IO where the disk has no room. beside: a path on that disk. */
sac_status sac_quantize_begin(sac_quantize_job *j, const char *beside);

/* A hash of what a run is, reads and is told: program, format, prompts, the source's files by size and time. More may be added to it; _end frees
 * it and writes its 64 digits and a NUL. */
sac_status sac_quantize_stamp_begin(const sac_quantize_job *j, sac_sha256 **h);
void sac_quantize_stamp_end(sac_sha256 *h, char *text);

/* Plans and writes a file that is laid out, behind what a run before has left of it. */
sac_status sac_quantize_write_gguf(sac_quantize_job *j, sac_gguf_out *out);

/* Nothing is in the folder, or but an entry of that name (NULL: nothing). */
bool sac_folder_is_empty(const char *path, const char *but);

/* Every other file of the folder, into `to`. With `to` NULL only *n_bytes, which is added to. */
sac_status sac_quantize_carry_over(sac_quantize_job *j, const char *to, uint64_t *n_bytes);

#endif
