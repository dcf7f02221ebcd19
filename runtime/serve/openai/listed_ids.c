#include "listed_ids.h"

#include "json_stream.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_IDS = 1024 };

/* The stream comes to the value of the body's own key; false: there is none. */
static bool find_prompt(sac_json_stream *s) {
    if (sac_json_stream_enter(s, '{', NULL) != SAC_OK) return false;
    for (bool more, is;;) {
        if (sac_json_stream_next(s, &more, NULL) != SAC_OK || !more) return false;
        if (sac_json_stream_key_is(s, "prompt", &is, NULL) != SAC_OK) return false;
        if (is) return sac_json_stream_peek(s) == SAC_JSON_ARRAY;
        if (sac_json_stream_skip(s, NULL, NULL, NULL) != SAC_OK) return false;
    }
}

static bool resize(serve_listed_ids *l, size_t n) {
    int32_t *ids = realloc(l->ids, n * sizeof *ids);
    if (ids) l->ids = ids;
    return ids != NULL;
}

/* The list that the stream stands before. Its memory grows as ids are read: what else the body holds takes none. */
static bool read_list(serve_listed_ids *l, sac_json_stream *s) {
    size_t most = 0;
    int64_t id;
    if (sac_json_stream_enter(s, '[', NULL) != SAC_OK) return false;
    l->first = (size_t)(s->at - s->begin);
    for (bool more;; l->ids[l->n++] = (int32_t)id) {
        if (sac_json_stream_next(s, &more, NULL) != SAC_OK) return false;
        if (!more) break;
        if (sac_json_stream_int(s, &id, NULL) != SAC_OK || id < 0 || id > INT32_MAX) return false;
        if (l->n == most && !resize(l, most = most ? 2 * most : FIRST_IDS)) return false;
    }
    l->end = (size_t)(s->at - 1 - s->begin);
    return l->n && resize(l, l->n);
}

serve_listed_ids serve_find_listed_ids(const char *body, size_t n_bytes, size_t least) {
    serve_listed_ids found = {0};
    sac_json_stream s;
    if (n_bytes < least) return found;
    sac_json_stream_open(&s, body, n_bytes);
    if (!find_prompt(&s) || !read_list(&found, &s) || found.end - found.first < least) {
        free(found.ids);
        found = (serve_listed_ids){0};
    }
    sac_json_stream_close(&s);
    return found;
}

/* The body before the list, and behind it. */
typedef struct serve_pieces {
    const char *at[2];
    size_t n[2]; /* bytes that are left */
} serve_pieces;

static size_t give_bytes(void *to, size_t most, void *from) {
    serve_pieces *p = from;
    const size_t i = p->n[0] ? 0 : 1, n = p->n[i] < most ? p->n[i] : most;
    memcpy(to, p->at[i], n);
    p->at[i] += n;
    p->n[i] -= n;
    return n;
}

json_t *serve_parse_around(const char *body, size_t n_bytes, const serve_listed_ids *l) {
    serve_pieces p = {{body, body + l->end}, {l->first, n_bytes - l->end}};
    return json_load_callback(give_bytes, &p, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}
