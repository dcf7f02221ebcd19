/* mistral3.h - what Mistral 3 (mistral3.c) and models built like it have in common: Pixtral's tower, a projector that joins squares
 * of patches, and a language model under text_config. */
#ifndef SAC_MODELS_MISTRAL3_H
#define SAC_MODELS_MISTRAL3_H

#include "config.h"

/* What the configuration's class says where a half is missing, and the text_config that names no type. */
typedef struct sac_mistral3_usual {
    const char *text_type;
    json_t *(*text)(void), *(*vision)(void); /* new objects; NULL: no memory */
} sac_mistral3_usual;

/* text_config, whose type must be one that the family's YAML lists, vision_config, spatial_merge_size (2 where it is missing), and
 * what the projector's norm has. */
sac_status sac_mistral3_read_halves(sac_model_config *c, const json_t *config, const sac_mistral3_usual *usual, sac_error *err);
/* "tie_word_embeddings", true where it is missing; the picture's token; the tokens that end an answer, of which those beside text_config
 * stand before its own. */
sac_status sac_mistral3_read_tokens(sac_model_config *c, const json_t *config, sac_error *err);

struct sac_mmproj;
/* Of a vision half in GGUF: the square that pictures fit into. */
sac_status sac_mistral3_mmproj_size(struct sac_mmproj *p, sac_error *err);

#endif
