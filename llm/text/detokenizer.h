/* detokenizer.h - ids back to text.
 *
 * For a whole sequence the text is that of `tokenizers`' decode (transformers' with
 * clean_up_tokenization_spaces=False). For an answer that grows token by token, a stream gives after each
 * token the bytes that are certain: whole characters only. */
#ifndef SAC_LLM_DETOKENIZER_H
#define SAC_LLM_DETOKENIZER_H

#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes at most `capacity` bytes (no NUL); *n_bytes is the full length, also when that is more (TOO_LONG).
 * Ids without a token are passed over, as `tokenizers` does. */
sac_status sac_detokenize(const sac_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip_special,
                          char *text, size_t capacity, size_t *n_bytes, sac_error *err);

/* The bytes that a token adds in the middle of a text, whole characters or not; special tokens give their
 * name. Writes at most `capacity` of *n_bytes. */
sac_status sac_detokenize_piece(const sac_tokenizer *t, int32_t id, char *bytes, size_t capacity,
                                size_t *n_bytes, sac_error *err);

typedef struct sac_detokenizer sac_detokenizer; /* one answer; for one thread */

/* Takes all the memory it will need. */
sac_status sac_detokenizer_open(sac_detokenizer **out, const sac_tokenizer *t, bool skip_special,
                                sac_error *err);
void sac_detokenizer_free(sac_detokenizer *d);  /* NULL is fine */
void sac_detokenizer_reset(sac_detokenizer *d); /* a new answer */

/* The bytes that became certain with this token, possibly none: borrowed until the next call. A character
 * whose bytes are spread over tokens comes with its last one. All bytes together, flush included, are
 * sac_detokenize's with one exception: a run of byte tokens ("<0xE2>") that is broken UTF-8 in the middle
 * keeps its good characters, while the whole run is replaced there. */
sac_text_span sac_detokenizer_feed(sac_detokenizer *d, int32_t id);
/* What is left: U+FFFD for the start of a character that was never finished. */
sac_text_span sac_detokenizer_flush(sac_detokenizer *d);

#endif
