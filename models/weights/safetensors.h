/* safetensors.h - reading .safetensors files: u64 length (little endian), a JSON object
 *   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
 * of that length, then the tensors' bytes, which the offsets count from. Nothing is copied; a tensor's bytes
 * may lie at any alignment, because the header's length may be anything. */
#ifndef SAC_MODELS_SAFETENSORS_H
#define SAC_MODELS_SAFETENSORS_H

#include "checkpoint.h"

#define SAC_SAFETENSORS_MAX_HEADER ((size_t)100000000) /* the reference reader's limit */

/* Adds the tensors of one file's bytes, which must outlive the checkpoint. `file` goes into their entries;
 * header_bytes (may be NULL) is where the tensors' bytes begin. Checked: length, offsets inside and in order,
 * end - begin equal to shape times element size, ranges disjoint. Types without arithmetic here (I64, F8,
 * ...) are listed with dtype -1. */
sac_status sac_safetensors_parse(sac_checkpoint *c, int file, const uint8_t *data, size_t n_bytes,
                                 size_t *header_bytes, sac_error *err);

/* Maps one file and seals the table. On failure c may be partly filled: sac_checkpoint_free. */
sac_status sac_safetensors_open_file(sac_checkpoint *c, const char *path, sac_error *err);

/* What a file's "__metadata__" says under `key`, to text [capacity]; "" where it says nothing. BAD_FILE where that is no
 * string or too long. */
sac_status sac_safetensors_metadata(const sac_checkpoint *c, int file, const char *key, char *text, size_t capacity,
                                    sac_error *err);

/* Maps a folder's model.safetensors, or the shards that its model.safetensors.index.json names (plain file
 * names of the same folder), and seals the table. On failure c may be partly filled: sac_checkpoint_free. */
sac_status sac_safetensors_open_folder(sac_checkpoint *c, const char *folder, sac_error *err);

#endif
