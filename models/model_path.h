/* model_path.h - what a user gives as a model: a folder, a .gguf file, or something else that a message helps with. */
#ifndef SAC_MODELS_MODEL_PATH_H
#define SAC_MODELS_MODEL_PATH_H

#include "status.h"

#include <stdbool.h>

#define SAC_MODEL_PATH_BYTES 4096

/* *is_folder, and in `found` the folder or file. A folder of the Hugging Face cache (models--org--name) stands for the
 * snapshot that its refs/main names. NOT_FOUND: nothing is there, or a folder without config.json; BAD_FILE: a
 * file out of a folder. Each says what to give. */
sac_status sac_model_path_find(char found[SAC_MODEL_PATH_BYTES], bool *is_folder, const char *path,
                               sac_error *err);

#endif
