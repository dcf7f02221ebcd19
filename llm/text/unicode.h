/* unicode.h - the few questions about characters that tokenizers and chat templates ask. */
#ifndef SAC_LLM_UNICODE_H
#define SAC_LLM_UNICODE_H

#include "tokenizer_buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sac_is_space(uint32_t code_point); /* Unicode's White_Space */
bool sac_is_word(uint32_t code_point);  /* \w: letters, marks, decimal digits, connectors, joiners */

/* Where the white space at the start of [p, end) stops / at its end starts; valid UTF-8. */
const char *sac_skip_space(const char *p, const char *end);
const char *sac_skip_space_back(const char *p, const char *end);

/* Appends the text with everything that is not UTF-8 replaced by U+FFFD, one for each maximal subpart. */
sac_status sac_utf8_repair(sac_buffer *out, const char *text, size_t n_bytes, sac_error *err);

typedef enum sac_unicode_form { SAC_NFC, SAC_NFD, SAC_NFKC, SAC_NFKD } sac_unicode_form;

/* Appends the text in the given normal form (utf8proc). */
sac_status sac_unicode_normalize(sac_buffer *out, sac_unicode_form form, const char *text, size_t n_bytes,
                                 sac_error *err);

#endif
