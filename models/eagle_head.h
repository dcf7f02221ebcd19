/* eagle_head.h - the folder of an EAGLE-3 head (llm/eagle.h): config.json and safetensors, in the layout of the paper's authors
 * ("architectures": ["LlamaForCausalLMEagle3"], tensors midlayer.*) or in that of the library `speculators`
 * ("speculators_model_type": "eagle3", tensors layers.0.*). */
#ifndef SAC_MODELS_EAGLE_HEAD_H
#define SAC_MODELS_EAGLE_HEAD_H

#include "checkpoint.h"
#include "eagle.h"
#include "json.h"

typedef struct sac_eagle_head {
    sac_eagle eagle;
    sac_checkpoint files;
    sac_arena arena; /* vectors in f32, ids, what may not be read where it lies */
    size_t n_bytes;  /* of files and arena */
} sac_eagle_head;

/* config.json, for a model with this decoder: UNSUPPORTED or BAD_FILE for what is no head, not one of this model's, or not done;
 * the message has the key, not the file. */
sac_status sac_eagle_read_config(sac_eagle_config *c, const json_t *config, const sac_decoder_config *of,
                                 sac_error *err);

/* h->eagle from the sealed h->files, by its config; opens h->arena. A tensor that is missing, of another shape or not known is
 * named. */
sac_status sac_eagle_bind(sac_eagle_head *h, const sac_decoder *of, sac_error *err);

/* On failure nothing is left open. */
sac_status sac_eagle_head_open(sac_eagle_head *h, const char *folder, const sac_decoder *of, sac_error *err);
void sac_eagle_head_free(sac_eagle_head *h); /* a zeroed one is fine */

#endif
