/* qwen2_vl.h - what Qwen2-VL, Qwen2.5-VL and Qwen3-VL have in common. */
#ifndef SAC_MODELS_QWEN2_VL_H
#define SAC_MODELS_QWEN2_VL_H

#include "family.h"

/* All but the tower. */
void sac_qwen2_vl_defaults(sac_model_config *c);

/* Reads vision_config, which may be NULL, into c->tower. */
typedef sac_status (*sac_qwen2_vl_tower_fn)(sac_model_config *c, const json_t *vision, sac_error *err);
sac_status sac_qwen2_vl_read(sac_model_config *c, const json_t *config, sac_qwen2_vl_tower_fn read_tower,
                             sac_error *err);

/* Its keys that all have; v holds the defaults, and its widths. */
sac_status sac_qwen2_vl_read_tower(sac_tower_config *v, const json_t *vision, sac_error *err);

/* Reads that of Qwen3-VL and Qwen3.5, without what is added after the decoder's first layers; a sac_qwen2_vl_tower_fn. */
sac_status sac_qwen3_vl_read_tower(sac_model_config *c, const json_t *vision, sac_error *err);

/* Bounds of a picture's pixels that a vision half in GGUF does not say. */
void sac_qwen2_vl_bounds(sac_mmproj *p, int64_t min_pixels, int64_t max_pixels);

#endif
