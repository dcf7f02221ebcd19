#include "tokenize.h"
#include "fields.h"
#include "other_api.h"
#include "prompts.h"

#include <stdlib.h>
#include <string.h>

typedef struct ids {
    int32_t *of; /* [n] */
    size_t n;
} ids;

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

static bool read_text(ids *out, const sac_model *m, const char *text, size_t n, bool add_special,
                      bool parse_special, serve_problem *p) {
    sac_error err;
    *out = (ids){0};
    sac_status st = sac_tokenize_text(m, text, n, add_special, parse_special, NULL, 0, &out->n, &err);
    if (st != SAC_OK && st != SAC_TOO_LONG) return serve_refuse_status(p, st, &err);
    out->of = calloc(out->n + 1, sizeof *out->of);
    if (!out->of) return no_memory(p);
    st = sac_tokenize_text(m, text, n, add_special, parse_special, out->of, out->n, &out->n, &err);
    return st == SAC_OK || serve_refuse_status(p, st, &err);
}

/* ---------------------------------------------------------------- a conversation */

/* A text in which control tokens are written out: as a part of a prompt it stays text, and within the rendered conversation it could not be told
 * from the template's own. */
static bool check_text(const sac_model *m, const char *text, serve_problem *p) {
    ids plain = {0}, special = {0};
    size_t n = strlen(text);
    bool ok =
        read_text(&plain, m, text, n, false, false, p) && read_text(&special, m, text, n, false, true, p);
    if (ok && (plain.n != special.n || memcmp(plain.of, special.of, plain.n * sizeof *plain.of) != 0))
        ok = serve_refuse(p, 400, "messages", "unsupported",
                          "a message has the name of a control token in it: its tokens are not told here");
    free(plain.of);
    free(special.of);
    return ok;
}

static char *render(const sac_model *m, const serve_request *r, serve_problem *p) {
    sac_error err;
    size_t n = 0;
    sac_status st = sac_chat_preview(m, r->messages, r->n_messages, &r->chat, NULL, 0, &n, &err);
    char *text = st == SAC_OK ? malloc(n + 1) : NULL;
    if (st != SAC_OK) return serve_refuse_status(p, st, &err), NULL;
    if (!text) return no_memory(p), NULL;
    st = sac_chat_preview(m, r->messages, r->n_messages, &r->chat, text, n + 1, &n, &err);
    if (st == SAC_OK) return text;
    free(text);
    return serve_refuse_status(p, st, &err), NULL;
}

/* With the begin token in front, unless the template wrote it. */
static bool read_rendered(ids *out, const sac_model *m, const char *text, serve_problem *p) {
    ids begin = {0};
    size_t n = strlen(text);
    bool ok = read_text(&begin, m, "", 0, true, false, p) && read_text(out, m, text, n, false, true, p);
    bool wanted = ok && begin.n > 0 && (out->n == 0 || out->of[0] != begin.of[0]);
    free(begin.of);
    if (!wanted) return ok;
    free(out->of);
    return read_text(out, m, text, n, true, true, p);
}

static bool read_messages(ids *out, const sac_model *m, const serve_config *c, const json_t *body,
                          serve_problem *p) {
    serve_request r = {0};
    sac_model_info info;
    sac_model_get_info(m, &info);
    char *text = json_dumps(body, JSON_COMPACT), *rendered = NULL;
    bool ok = text ? serve_request_parse(&r, c, info.vocab, SERVE_API_CHAT, text, strlen(text), p) : no_memory(p);
    if (ok && r.n_media)
        ok = serve_refuse(p, 400, "messages", "unsupported",
                          "how many tokens pictures and videos take is told by 'usage' of an answer");
    for (size_t i = 0; ok && !r.chat.parse_special && i < r.n_parts; i++)
        if (r.parts[i].text) ok = check_text(m, r.parts[i].text, p);
    rendered = ok ? render(m, &r, p) : NULL;
    ok = rendered && read_rendered(out, m, rendered, p);
    free(rendered);
    free(text);
    serve_request_free(&r);
    return ok;
}

/* ---------------------------------------------------------------- replies */

static json_t *names_of(const sac_model *m, const ids *all) {
    json_t *list = json_array();
    for (size_t i = 0; i < all->n; i++) {
        char name[256];
        size_t n = 0;
        bool known =
            sac_token_bytes(m, all->of[i], name, sizeof name, &n, NULL) == SAC_OK && n <= sizeof name;
        json_t *text = known ? json_stringn(name, n) : NULL;
        json_array_append_new(list, text ? text : json_string("\xef\xbf\xbd")); /* a part of a character */
    }
    return list;
}

/* *body loses what only this route takes. */
static json_t *tokenize(const sac_model *m, const serve_config *c, int64_t n_ctx, json_t *body,
                        serve_problem *p) {
    bool names = false, chat = json_object_get(body, "messages") != NULL, special = !chat;
    const char *prompt = NULL;
    ids all = {0};
    if (!serve_field_bool(body, "return_token_strs", &names, p) ||
        !serve_field_bool(body, "add_special_tokens", &special, p) ||
        !serve_field_bool(body, "add_special", &special, p) ||
        !serve_field_string(body, "content", &prompt, p) || !serve_field_string(body, "prompt", &prompt, p))
        return NULL;
    if (!prompt && !chat)
        return serve_refuse(p, 400, "prompt", NULL, "'prompt', a text, or 'messages' are wanted"), NULL;
    json_object_del(body, "return_token_strs");
    bool ok = prompt ? read_text(&all, m, prompt, strlen(prompt), special, false, p)
                     : read_messages(&all, m, c, body, p);
    json_t *list = json_array();
    for (size_t i = 0; ok && i < all.n; i++) json_array_append_new(list, json_integer(all.of[i]));
    json_t *reply = NULL;
    if (ok)
        reply =
            json_pack("{s:I, s:I, s:O, s:o}", "count", (json_int_t)all.n, "max_model_len", (json_int_t)n_ctx,
                      "tokens", list, "token_strs", names ? names_of(m, &all) : json_null());
    json_decref(list);
    free(all.of);
    return reply;
}

/* Anthropic's: of a conversation in its words, which says nothing of the answer. */
static json_t *count_tokens(const sac_model *m, const serve_config *c, json_t **body, serve_problem *p) {
    json_t *said = NULL;
    ids all = {0};
    if (!json_object_get(*body, "max_tokens")) json_object_set_new(*body, "max_tokens", json_integer(1));
    bool ok = serve_read_messages(body, &said, p) && read_messages(&all, m, c, *body, p);
    json_decref(said);
    free(all.of);
    return ok ? json_pack("{s:I}", "input_tokens", (json_int_t)all.n) : NULL;
}

static json_t *detokenize(const sac_model *m, const json_t *body, serve_problem *p) {
    const json_t *tokens = json_object_get(body, "tokens");
    sac_model_info info;
    size_t n = 0;
    sac_model_get_info(m, &info);
    if (!json_is_array(tokens))
        return serve_refuse(p, 400, "tokens", NULL, "'tokens' must be a list of token ids"), NULL;
    serve_prompt prompt = {.n = json_array_size(tokens),
                           .ids = serve_read_ids(tokens, info.vocab, "tokens", p)};
    if (!prompt.ids) return NULL;
    char *text = serve_prompt_text(&prompt, m, &n);
    json_t *reply = text ? json_pack("{s:s%, s:s%}", "prompt", text, n, "content", text, n) : NULL;
    free(text);
    free(prompt.ids);
    return reply;
}

char *serve_tokenize(const sac_model *m, const serve_config *c, int64_t n_ctx, serve_task task,
                     const char *body, size_t n_bytes, serve_problem *p) {
    json_error_t e;
    json_t *read = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES, &e), *reply = NULL;
    if (!json_is_object(read))
        serve_refuse(p, 400, NULL, "invalid_json", "the body is no JSON object");
    else
        reply = task == SERVE_TOKENIZE       ? tokenize(m, c, n_ctx, read, p)
                : task == SERVE_COUNT_TOKENS ? count_tokens(m, c, &read, p)
                                             : detokenize(m, read, p);
    char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    json_decref(reply);
    json_decref(read);
    if (!text && !p->status) no_memory(p);
    return text;
}
