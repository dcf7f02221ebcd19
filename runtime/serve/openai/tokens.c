#include "tokens.h"
#include "byte_buffer.h"
#include "status.h"

#include <stdlib.h>

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

sac_status serve_tokens_open(serve_tokens **out, const sac_model *m, sac_error *err) {
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
                            .is_stop = calloc(n, sizeof *t->is_stop)};
    }
    bool ok = t && starts && t->bytes && t->length && t->is_stop && take(t, &info, starts);
    for (size_t i = 0; ok && i < n; i++) t->bytes[i] = t->all + starts[i];
    const int32_t *stops;
    size_t n_stops = ok ? sac_model_stop_ids(m, &stops) : 0;
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i] >= 0 && stops[i] < t->n) t->is_stop[stops[i]] = true;
    free(starts);
    return ok ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for a table of %zu tokens", n);
}

void serve_tokens_close(serve_tokens *t) {
    if (!t) return;
    free(t->bytes);
    free(t->length);
    free(t->is_stop);
    free(t->all);
    free(t);
}
