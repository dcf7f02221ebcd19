#include "chat_tokens.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_TEXT = 4096 };

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

bool serve_tokens_of_text(serve_token_ids *out, const sac_model *m, const char *text, size_t n, bool add_special, bool parse_special,
                          serve_problem *p) {
    sac_error err;
    *out = (serve_token_ids){0};
    sac_status st = sac_tokenize_text(m, text, n, add_special, parse_special, NULL, 0, &out->n, &err);
    if (st != SAC_OK && st != SAC_TOO_LONG) return serve_refuse_status(p, st, &err);
    out->of = calloc(out->n + 1, sizeof *out->of);
    if (!out->of) return no_memory(p);
    st = sac_tokenize_text(m, text, n, add_special, parse_special, out->of, out->n, &out->n, &err);
    return st == SAC_OK || serve_refuse_status(p, st, &err);
}

char *serve_chat_text(const sac_model *m, const serve_request *r, size_t n_about, serve_problem *p) {
    sac_error err;
    size_t n = n_about, room;
    char *text = NULL;
    sac_status st = SAC_OK;
    do {
        free(text);
        room = n + 1;
        text = malloc(room);
        if (!text) return no_memory(p), NULL;
        st = sac_chat_preview(m, r->messages, r->n_messages, &r->chat, text, room, &n, &err);
    } while (st == SAC_OK && n >= room);
    if (st == SAC_OK) return text;
    free(text);
    return serve_refuse_status(p, st, &err), NULL;
}

/* With the begin token in front, unless the template wrote it. */
static bool read_rendered(serve_token_ids *out, const sac_model *m, const char *text, serve_problem *p) {
    serve_token_ids begin = {0};
    size_t n = strlen(text);
    bool ok = serve_tokens_of_text(&begin, m, "", 0, true, false, p) && serve_tokens_of_text(out, m, text, n, false, true, p);
    bool wanted = ok && begin.n > 0 && (out->n == 0 || out->of[0] != begin.of[0]);
    free(begin.of);
    if (!wanted) return ok;
    free(out->of);
    return serve_tokens_of_text(out, m, text, n, true, true, p);
}

bool serve_tokens_count_chat(size_t *n, const sac_model *m, const char *text, serve_problem *p) {
    serve_token_ids begin = {0};
    sac_error err;
    int32_t first = -1;
    bool ok = serve_tokens_of_text(&begin, m, "", 0, true, false, p);
    const sac_status st = sac_tokenize_text(m, text, strlen(text), false, true, &first, 1, n, &err);
    if (ok && st != SAC_OK) ok = serve_refuse_status(p, st, &err);
    if (ok && begin.n > 0 && (*n == 0 || first != begin.of[0])) *n += begin.n;
    free(begin.of);
    return ok;
}

bool serve_tokens_of_chat(serve_token_ids *out, const sac_model *m, const serve_request *r, serve_problem *p) {
    char *rendered = serve_chat_text(m, r, LEAST_TEXT, p);
    const bool ok = rendered && read_rendered(out, m, rendered, p);
    free(rendered);
    return ok;
}
