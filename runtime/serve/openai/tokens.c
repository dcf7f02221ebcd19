#define _GNU_SOURCE
#include "tokens.h"
#include "byte_buffer.h"
#include "status.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

/* Control tokens are named by sac_token_bytes, but add nothing to a text. Twice, because some tokenizers drop
 * a leading space. */
static bool is_special(const sac_model *m, int32_t id) {
    size_t n = 0;
    char text[8];
    return sac_detokenize_ids(m, (int32_t[]){id, id}, 2, true, text, sizeof text, &n, NULL) != SAC_OK ||
           n == 0;
}

static bool take(serve_tokens *t, sac_model_info *info, size_t *starts) {
    serve_buffer b = {0};
    char piece[1024];
    for (int32_t id = 0; id < info->vocab; id++) {
        size_t n = 0;
        starts[id] = b.n;
        if (sac_token_bytes(t->model, id, piece, sizeof piece, &n, NULL) != SAC_OK || n > sizeof piece) n = 0;
        if (is_special(t->model, id)) n = 0;
        t->length[id] = (uint32_t)n;
        serve_buffer_add(&b, piece, n);
    }
    t->all = b.data;
    return !b.failed;
}

/* ---------------------------------------------------------------- the order */

/* From which byte on there are whole characters, none of which JSON escapes. */
static uint32_t find_plain(const char *bytes, uint32_t n) {
    uint32_t from = n;
    for (uint32_t i = n; i-- > 0;) {
        unsigned char c = (unsigned char)bytes[i];
        size_t length;
        if (c < 0x20 || c == '"' || c == '\\') break;
        if (sac_utf8_continues(bytes[i])) continue;
        if (!sac_utf8_next(bytes + i, bytes + from, &length, NULL) || length != from - i) break;
        from = i;
    }
    return from;
}

static int compare_ids(const void *a, const void *b, void *tokens) {
    const serve_tokens *t = tokens;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    uint32_t n = t->length[x] < t->length[y] ? t->length[x] : t->length[y];
    int c = memcmp(t->bytes[x], t->bytes[y], n);
    if (c) return c;
    if (t->length[x] != t->length[y]) return t->length[x] < t->length[y] ? -1 : 1;
    return (x > y) - (x < y);
}

void serve_tokens_put_in_order(serve_tokens *t) {
    for (int32_t id = 0; id < t->n; id++) {
        t->plain_from[id] = find_plain(t->bytes[id], t->length[id]);
        if (t->length[id] && !t->is_stop[id]) t->order[t->n_ordered++] = id;
    }
    qsort_r(t->order, (size_t)t->n_ordered, sizeof *t->order, compare_ids, t);
    for (int32_t i = 1; i < t->n_ordered; i++) {
        int32_t a = t->order[i - 1], b = t->order[i];
        uint32_t n = 0;
        while (n < t->length[a] && n < t->length[b] && t->bytes[a][n] == t->bytes[b][n]) n++;
        t->shared[i] = n;
    }
}

/* ---------------------------------------------------------------- marks */

const serve_mark *serve_tokens_mark(const serve_tokens *t, int32_t id) {
    for (size_t i = 0; i < t->n_marks; i++)
        if (t->marks[i].id == id) return &t->marks[i];
    return NULL;
}

static void find_marks(serve_tokens *t, const char *const *names) {
    char name[sizeof t->marks->name];
    for (; names && *names; names++)
        for (int32_t id = 0; id < t->n && t->n_marks < SERVE_MAX_MARKS; id++) {
            size_t n = 0;
            if (t->length[id] || t->is_stop[id]) continue;
            if (sac_token_bytes(t->model, id, name, sizeof name, &n, NULL) != SAC_OK || n > sizeof name)
                continue;
            if (n != strlen(*names) || memcmp(name, *names, n) != 0) continue;
            serve_mark *mark = &t->marks[t->n_marks++];
            *mark = (serve_mark){.id = id, .n = (uint32_t)n};
            memcpy(mark->name, name, n);
        }
}

/* ---------------------------------------------------------------- all */

sac_status serve_tokens_open(serve_tokens **out, const sac_model *m, const char *const *marks,
                             sac_error *err) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    size_t n = (size_t)info.vocab;
    serve_tokens *t = *out = calloc(1, sizeof *t);
    size_t *starts = calloc(n, sizeof *starts);
    if (t) {
        *t = (serve_tokens){.model = m,
                            .n = info.vocab,
                            .bytes = calloc(n, sizeof *t->bytes),
                            .length = calloc(n, sizeof *t->length),
                            .is_stop = calloc(n, sizeof *t->is_stop),
                            .order = calloc(n, sizeof *t->order),
                            .shared = calloc(n, sizeof *t->shared),
                            .plain_from = calloc(n, sizeof *t->plain_from)};
    }
    bool ok = t && starts && t->bytes && t->length && t->is_stop && t->order && t->shared && t->plain_from &&
              take(t, &info, starts);
    for (size_t i = 0; ok && i < n; i++) t->bytes[i] = t->all + starts[i];
    const int32_t *stops;
    size_t n_stops = ok ? sac_model_stop_ids(m, &stops) : 0;
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i] >= 0 && stops[i] < t->n) t->is_stop[stops[i]] = true;
    if (ok) serve_tokens_put_in_order(t);
    if (ok) find_marks(t, marks);
    free(starts);
    return ok ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for a table of %zu tokens", n);
}

void serve_tokens_close(serve_tokens *t) {
    if (!t) return;
    free(t->bytes);
    free(t->length);
    free(t->is_stop);
    free(t->all);
    free(t->order);
    free(t->shared);
    free(t->plain_from);
    free(t);
}
