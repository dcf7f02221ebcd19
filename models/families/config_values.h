/* config_values.h - numbers out of config.json, checked as they are read.
 *
 * Limits are generous for any published model and small enough that products of two or three of them stay far
 * below 2^63. A missing key leaves the value as it is; errors name the key. */
#ifndef SAC_MODELS_CONFIG_VALUES_H
#define SAC_MODELS_CONFIG_VALUES_H

#include "json.h"

enum {
    SAC_CONFIG_MAX_LAYERS = 1024,
    SAC_CONFIG_MAX_WIDTH = 1 << 18, /* hidden, intermediate, heads * head_dim */
    SAC_CONFIG_MAX_HEADS = 4096,
    SAC_CONFIG_MAX_HEAD_DIM = 1024,
    SAC_CONFIG_MAX_VOCAB = 1 << 24,
    SAC_CONFIG_MAX_IMAGE = 4096,
};

/* The key stands in the object and is not null. */
bool sac_config_has(const json_t *object, const char *key);

sac_status sac_config_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int *value,
                              sac_error *err);
/* A finite number above 0. */
sac_status sac_config_get_positive(const json_t *object, const char *key, double *value, sac_error *err);
sac_status sac_config_get_float(const json_t *object, const char *key, float *value, sac_error *err);

/* The id of a token by its key, or by a newer one (NULL: there is none); *id holds the default. */
sac_status sac_config_read_token(int32_t *id, const json_t *object, const char *key, const char *newer,
                                 int vocab, sac_error *err);

/* Of values from anywhere, GGUF too: `what` and `key` name them in the message. */
sac_status sac_config_check_positive(const char *key, double value, sac_error *err);
sac_status sac_config_check_range(const char *what, int64_t value, int64_t max,
                                  sac_error *err); /* 1 to max */

#endif
