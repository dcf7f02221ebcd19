/* tokenizer_names.h - which tokens the keys of tokenizer_config.json and special_tokens_map.json name. Inside the
 * tokenizer only. */
#ifndef SAC_LLM_TOKENIZER_NAMES_H
#define SAC_LLM_TOKENIZER_NAMES_H

#include "json.h"
#include "tokenizer_impl.h"

typedef struct sac_token_names {
    json_t *named;   /* {"bos_token": text or object, ...}, those of a class's defaults too */
    json_t *texts;   /* the texts of those as keys */
    json_t *special; /* the texts of the usual ones and of `listed` as keys, for added_tokens.json */
    json_t *listed;  /* "extra_special_tokens" */
    json_t *extra;   /* that, or "additional_special_tokens": texts and objects; or NULL */
} sac_token_names;

/* On failure what was found is in *out all the same. */
sac_status sac_token_names_find(sac_token_names *out, const sac_tokenizer_json *files, sac_error *err);
void sac_token_names_free(sac_token_names *n);

/* The i-th of the keys that every class has, in transformers' order; NULL past the last. */
const char *sac_usual_token_key(size_t i);
bool sac_is_usual_token_key(const char *key);
/* The text of a token that is written as a text or as an object; NULL when it is neither. */
const char *sac_token_content(const json_t *json);

#endif
