/* config_keys.h - what becomes of every key of a model's files, by the "keys" of the families' YAML: own entries first,
 * then those of the file that it is like, then common.yaml's. */
#ifndef SAC_MODELS_CONFIG_KEYS_H
#define SAC_MODELS_CONFIG_KEYS_H

#include "family.h"
#include "family_spec.h"

#define SAC_CONFIG_MAX_KEYS 4096 /* of one model; those behind them are not listed */

typedef struct sac_config_key {
    char file[32];  /* "config.json" */
    char name[128]; /* "text_config.rope_scaling.factor", cut where it is longer */
    sac_key_use use;
} sac_config_key;

typedef struct sac_config_keys {
    sac_config_key *item; /* [n], in the files' order */
    int n;
} sac_config_keys;

void sac_config_keys_free(sac_config_keys *keys); /* zeroed ones are fine */

/* Adds the keys of config.json and of the objects in it. UNSUPPORTED: a key that is taken with one value only
 * has another; the message has the key, not the file. A key whose value is null is none. */
sac_status sac_config_keys_of_config(sac_config_keys *keys, const sac_family *family, const json_t *config,
                                     sac_error *err);
/* The same of another file; place: "preprocessor", "processor", "gguf" (names as the YAML has them). */
sac_status sac_config_keys_of_object(sac_config_keys *keys, const sac_family *family, const char *place,
                                     const char *file, const json_t *object, sac_error *err);

#endif
