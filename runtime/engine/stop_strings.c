#include "stop_strings.h"

#include <string.h>

/* Of a token that is longer the first bytes are looked at. */
enum { TOKEN_BYTES = 4096 };

/* Bytes of the tokens before the newest, at most as many as a text can need, right-aligned in `tail`. Returns how
 * many. */
static size_t bytes_before(const sac_session *s, char tail[SAC_MAX_STOP_STRING], size_t wanted) {
    size_t n = 0;
    char token[TOKEN_BYTES];
    for (int64_t i = s->decoder.cache.n_rows - 1; i >= 0 && n < wanted; i--) {
        size_t n_bytes;
        if (sac_token_bytes(s->model, s->ids[i], token, sizeof token, &n_bytes, NULL) != SAC_OK) break;
        if (n_bytes > sizeof token) break;
        size_t used = n_bytes < wanted - n ? n_bytes : wanted - n;
        n += used;
        memcpy(tail + SAC_MAX_STOP_STRING - n, token + n_bytes - used, used);
    }
    return n;
}

/* The text ends at one of the newest token's bytes. */
static bool ends_here(const char *text, size_t n_before, size_t n, const char *stop, size_t n_stop) {
    size_t from = n_before + 1 > n_stop ? n_before + 1 - n_stop : 0;
    for (size_t at = from; at + n_stop <= n; at++)
        if (memcmp(text + at, stop, n_stop) == 0) return true;
    return false;
}

bool sac_stop_string_ends(const sac_session *s, int32_t id) {
    const sac_controls *c = &s->reply.controls;
    int32_t at = c->stop_strings.at, end = at + c->stop_strings.n, next;
    size_t longest = 0, n_stop, n_bytes;
    if (at == end) return false;
    for (int32_t i = at; i < end; i = next) {
        sac_controls_text(c, i, &n_stop, &next);
        if (n_stop > longest) longest = n_stop;
    }
    char text[SAC_MAX_STOP_STRING + TOKEN_BYTES];
    if (sac_token_bytes(s->model, id, text + SAC_MAX_STOP_STRING, TOKEN_BYTES, &n_bytes, NULL) != SAC_OK)
        return false;
    if (n_bytes > TOKEN_BYTES) n_bytes = TOKEN_BYTES;
    size_t n_before = bytes_before(s, text, longest - 1);
    for (int32_t i = at; i < end; i = next) {
        const char *stop = sac_controls_text(c, i, &n_stop, &next);
        if (ends_here(text + SAC_MAX_STOP_STRING - n_before, n_before, n_before + n_bytes, stop, n_stop))
            return true;
    }
    return false;
}
