/* json_stream.h - reading JSON text in one pass, value by value, without building a tree.
 *
 * For files whose weight is one or two huge maps (a tokenizer's vocabulary and merges): jansson needs about
 * 0.3 s for 7 MB of them, this reader 0.02 s. Small parts of such a file are cut out with
 * sac_json_stream_skip and given to sac_json_parse. As strict as jansson: RFC 8259, valid UTF-8, bounded
 * nesting; but U+0000 in strings is allowed and equal keys are not noticed.
 *
 * A map is read as
 *     SAC_TRY(sac_json_stream_enter(&s, '{', err));
 *     for (bool more;;) {
 *         SAC_TRY(sac_json_stream_next(&s, &more, err));
 *         if (!more) break;
 *         SAC_TRY(sac_json_stream_key(&s, &key, &n_bytes, err));
 *         ... read or skip exactly one value ...
 *     }
 * and a list likewise with '[' and no key. Every error is BAD_FILE and names the byte where it happened. */
#ifndef SAC_BASE_JSON_STREAM_H
#define SAC_BASE_JSON_STREAM_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_JSON_STREAM_MAX_DEPTH 256

typedef struct sac_json_stream {
    const char *begin, *at, *end; /* borrowed text */
    char *unescaped;              /* owned: the last string that held escapes */
    size_t unescaped_capacity;
    void *c_locale; /* owned: numbers mean the same in every locale */
    int depth;
    char opened[SAC_JSON_STREAM_MAX_DEPTH]; /* '{' or '[' for each open level */
    bool first[SAC_JSON_STREAM_MAX_DEPTH];  /* no element of that level read yet */
} sac_json_stream;

typedef enum sac_json_kind {
    SAC_JSON_OBJECT,
    SAC_JSON_ARRAY,
    SAC_JSON_STRING,
    SAC_JSON_NUMBER,
    SAC_JSON_LITERAL, /* true, false, null */
    SAC_JSON_BROKEN,  /* none of these, or the end */
} sac_json_kind;

void sac_json_stream_open(sac_json_stream *s, const char *text, size_t n_bytes);
void sac_json_stream_close(sac_json_stream *s); /* a zeroed stream is fine */

sac_json_kind sac_json_stream_peek(sac_json_stream *s); /* what comes next; reads nothing but white space */

sac_status sac_json_stream_enter(sac_json_stream *s, char bracket, sac_error *err); /* '{' or '[' */
/* *more = false once the bracket has closed; the level is left then. */
sac_status sac_json_stream_next(sac_json_stream *s, bool *more, sac_error *err);

/* The text is borrowed: it lives until the next string or key is read. */
sac_status sac_json_stream_key(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err);
/* *is: the next key is `name` (UTF-8, ends with NUL). Takes no memory, however long the key is. */
sac_status sac_json_stream_key_is(sac_json_stream *s, const char *name, bool *is, sac_error *err);
sac_status sac_json_stream_string(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err);
/* An integer written without fraction or exponent, within int64_t. */
sac_status sac_json_stream_int(sac_json_stream *s, int64_t *value, sac_error *err);
sac_status sac_json_stream_float(sac_json_stream *s, double *value, sac_error *err); /* finite */

/* Passes over one value of any kind, without memory; *text (may be NULL) is its text, borrowed from the input. */
sac_status sac_json_stream_skip(sac_json_stream *s, const char **text, size_t *n_bytes, sac_error *err);

/* After the outermost value: nothing but white space may follow. */
sac_status sac_json_stream_end(sac_json_stream *s, sac_error *err);

#endif
