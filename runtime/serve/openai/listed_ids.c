#include "listed_ids.h"

#include "json_stream.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    return at;
}

/* A number at `at` that is an id; NULL: there is none. */
static const char *read_id(const char *at, const char *end, int32_t *id) {
    const char *first = at;
    int64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        value = 10 * value + (*at - '0');
        if (value > INT32_MAX) return NULL;
    }
    *id = (int32_t)value;
    return at == first || (*first == '0' && at > first + 1) ? NULL : at;
}

/* From behind the bracket that opens to the one that closes; *n ids. NULL: it is no list of ids alone. */
static const char *read_ids(const char *at, const char *end, int32_t *ids, size_t most, size_t *n) {
    for (*n = 0; *n < most;) {
        at = read_id(skip_space(at, end), end, &ids[*n]);
        if (!at) return NULL;
        ++*n;
        at = skip_space(at, end);
        if (at < end && *at == ']') return at;
        if (at == end || *at++ != ',') return NULL;
    }
    return NULL;
}

/* The stream comes to the value of the body's own key; false: there is none. */
static bool find_prompt(sac_json_stream *s) {
    const char *key;
    size_t n;
    if (sac_json_stream_enter(s, '{', NULL) != SAC_OK) return false;
    for (bool more;;) {
        if (sac_json_stream_next(s, &more, NULL) != SAC_OK || !more || sac_json_stream_key(s, &key, &n, NULL) != SAC_OK) return false;
        if (n == 6 && !memcmp(key, "prompt", n)) return sac_json_stream_peek(s) == SAC_JSON_ARRAY;
        if (sac_json_stream_skip(s, NULL, NULL, NULL) != SAC_OK) return false;
    }
}

serve_listed_ids serve_find_listed_ids(const char *body, size_t n_bytes, size_t least) {
    serve_listed_ids found = {0};
    sac_json_stream s;
    if (n_bytes < least) return found;
    sac_json_stream_open(&s, body, n_bytes);
    if (find_prompt(&s)) {
        const char *first = s.at + 1, *end = body + n_bytes; /* an id takes two bytes at least */
        const size_t most = (size_t)(end - first) / 2 + 1;
        found.ids = malloc(most * sizeof *found.ids);
        const char *close = found.ids ? read_ids(first, end, found.ids, most, &found.n) : NULL;
        if (close) found.first = (size_t)(first - body), found.end = (size_t)(close - body);
        if (!close || found.end - found.first < least) {
            free(found.ids);
            found = (serve_listed_ids){0};
        }
    }
    sac_json_stream_close(&s);
    return found;
}
