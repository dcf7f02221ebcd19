#define _GNU_SOURCE
#include "tokenize.h"
#include "chat_tokens.h"
#include "fields.h"
#include "known_fields.h"
#include "other_api.h"
#include "prompts.h"
#include "text_length.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What is told in one reply: a million tokens and more, in seconds. JSON may write a byte in six. */
enum { MOST_BYTES = 4 << 20, MOST_BODY_BYTES = 6 * MOST_BYTES + (64 << 10) };

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

/* ---------------------------------------------------------------- a conversation */

/* A text in which control tokens are written out: as a part of a prompt it stays text, and within the rendered conversation it could not be told
 * from the template's own. */
static bool check_text(const sac_model *m, const char *text, serve_problem *p) {
    serve_token_ids plain = {0}, special = {0};
    size_t n = strlen(text);
    bool ok =
        serve_tokens_of_text(&plain, m, text, n, false, false, p) && serve_tokens_of_text(&special, m, text, n, false, true, p);
    if (ok && (plain.n != special.n || memcmp(plain.of, special.of, plain.n * sizeof *plain.of) != 0))
        ok = serve_refuse(p, 400, "messages", "unsupported",
                          "a message has the name of a control token in it: its tokens are not told here");
    free(plain.of);
    free(special.of);
    return ok;
}

static bool check_bytes(size_t n, const char *param, serve_problem *p) {
    return n <= MOST_BYTES ||
           serve_refuse(p, 413, param, "request_too_large",
                        "'%s' has %zu bytes of text: tokens of at most %d are told at a time, give it in parts", param, n, MOST_BYTES);
}

bool serve_tokenize_takes(size_t n_bytes, serve_problem *p) {
    return n_bytes <= MOST_BODY_BYTES ||
           serve_refuse(p, 413, NULL, "request_too_large",
                        "the body has %zu bytes: tokens of at most %d bytes of text are told at a time, give it in parts", n_bytes,
                        MOST_BYTES);
}

static bool read_messages(serve_token_ids *out, const sac_model *m, const serve_config *c, const json_t *body,
                          json_t **warnings, serve_problem *p) {
    serve_request r = {0};
    sac_model_info info;
    sac_model_get_info(m, &info);
    char *text = json_dumps(body, JSON_COMPACT);
    bool ok = text ? serve_request_parse(&r, c, info.vocab, SERVE_API_CHAT, text, strlen(text), p) : no_memory(p);
    if (ok && r.n_media)
        ok = serve_refuse(p, 400, "messages", "unsupported",
                          "how many tokens pictures and videos take is told by 'usage' of an answer");
    ok = ok && check_bytes(serve_text_bytes(&r), "messages", p);
    for (size_t i = 0; ok && !r.chat.parse_special && i < r.n_parts; i++)
        if (r.parts[i].text) ok = check_text(m, r.parts[i].text, p);
    ok = ok && serve_tokens_of_chat(out, m, &r, p);
    *warnings = json_incref(r.warnings);
    free(text);
    serve_request_free(&r);
    return ok;
}

/* ---------------------------------------------------------------- replies */

static void write_name(serve_buffer *b, const sac_model *m, int32_t id) {
    char name[256];
    size_t n = 0;
    const bool known = sac_token_bytes(m, id, name, sizeof name, &n, NULL) == SAC_OK && n <= sizeof name;
    json_t *text = known ? json_stringn(name, n) : NULL;
    if (!text) text = json_string("\xef\xbf\xbd"); /* a part of a character */
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    serve_buffer_text(b, quoted ? quoted : "null");
    free(quoted);
    json_decref(text);
}

/* Without a tree, of which there would be a node for each token. NULL: no memory. */
static char *write_reply(const sac_model *m, const serve_token_ids *all, bool names, const json_t *warnings, int64_t n_ctx) {
    char *warned = warnings ? json_dumps(warnings, JSON_COMPACT) : NULL;
    serve_buffer b = {0};
    serve_buffer_format(&b, "{\"count\":%zu,\"max_model_len\":%lld,\"tokens\":[", all->n, (long long)n_ctx);
    for (size_t i = 0; i < all->n; i++) serve_buffer_format(&b, "%s%d", i ? "," : "", (int)all->of[i]);
    serve_buffer_text(&b, names ? "],\"token_strs\":[" : "],\"token_strs\":null");
    for (size_t i = 0; names && i < all->n; i++) {
        if (i) serve_buffer_text(&b, ",");
        write_name(&b, m, all->of[i]);
    }
    if (names) serve_buffer_text(&b, "]");
    if (warned) serve_buffer_text(&b, ",\"warnings\":");
    if (warned) serve_buffer_text(&b, warned);
    serve_buffer_add(&b, "}", 2); /* with its NUL */
    char *text = b.failed || (warnings && !warned) ? NULL : strdup(b.data);
    serve_buffer_free(&b);
    free(warned);
    return text;
}

/* Of a text; those of a conversation are a chat's. */
static bool check_fields(const serve_config *c, const json_t *body, const char *const *known, json_t **warnings, serve_problem *p) {
    const char *model = NULL, *adapter = NULL;
    if (!serve_known_fields_of(body, known, c->lenient_fields, warnings, p)) return false;
    if (!serve_field_string(body, "model", &model, p)) return false;
    return !model || serve_model_find(&adapter, c, model, p);
}

/* Of others' routes: the value that says what is done here is taken, the other is not. *body loses it. */
static bool take_done(json_t *body, const char *key, bool done, serve_problem *p) {
    bool asked = done;
    if (!serve_field_bool(body, key, &asked, p)) return false;
    if (asked != done)
        return serve_refuse(p, 400, key, "unsupported", "'%s' is not taken with this value", key);
    json_object_del(body, key);
    return true;
}

/* *body loses what only this route takes. */
static char *tokenize(const sac_model *m, const serve_config *c, int64_t n_ctx, json_t *body, json_t **warnings,
                      serve_problem *p) {
    bool names = false, chat = json_object_get(body, "messages") != NULL, special = !chat;
    const char *prompt = NULL;
    serve_token_ids all = {0};
    if (!take_done(body, "with_pieces", false, p) || !take_done(body, "parse_special", false, p) ||
        !serve_field_bool(body, "return_token_strs", &names, p) ||
        !serve_field_bool(body, "add_special_tokens", &special, p) ||
        !serve_field_bool(body, "add_special", &special, p) ||
        !serve_field_string(body, "content", &prompt, p) || !serve_field_string(body, "prompt", &prompt, p))
        return NULL;
    if (!prompt && !chat)
        return serve_refuse(p, 400, "prompt", NULL, "'prompt', a text, or 'messages' are wanted"), NULL;
    static const char *const known[] = {"model",       "prompt",            "content", "add_special_tokens",
                                        "add_special", "return_token_strs", "user",    NULL};
    if (prompt && !check_fields(c, body, known, warnings, p)) return NULL;
    json_object_del(body, "return_token_strs");
    const bool ok = prompt ? check_bytes(strlen(prompt), json_object_get(body, "prompt") ? "prompt" : "content", p) &&
                                 serve_tokens_of_text(&all, m, prompt, strlen(prompt), special, false, p)
                           : read_messages(&all, m, c, body, warnings, p);
    char *reply = ok ? write_reply(m, &all, names, *warnings, n_ctx) : NULL;
    free(all.of);
    return reply;
}

/* Anthropic's: of a conversation in its words, which says nothing of the answer. */
static json_t *count_tokens(const sac_model *m, const serve_config *c, json_t **body, json_t **warnings, serve_problem *p) {
    json_t *said = NULL;
    serve_token_ids all = {0};
    if (!json_object_get(*body, "max_tokens")) json_object_set_new(*body, "max_tokens", json_integer(1));
    bool ok = serve_read_messages(body, &said, p) && read_messages(&all, m, c, *body, warnings, p);
    json_decref(said);
    free(all.of);
    return ok ? json_pack("{s:I}", "input_tokens", (json_int_t)all.n) : NULL;
}

static json_t *detokenize(const sac_model *m, const serve_config *c, json_t *body, json_t **warnings, serve_problem *p) {
    static const char *const known[] = {"model", "tokens", "user", NULL};
    const json_t *tokens = json_object_get(body, "tokens");
    sac_model_info info;
    size_t n = 0;
    sac_model_get_info(m, &info);
    if (!take_done(body, "skip_special_tokens", true, p) || !check_fields(c, body, known, warnings, p)) return NULL;
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
    json_t *read = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES, &e), *reply = NULL, *warnings = NULL;
    char *text = NULL;
    if (!read)
        serve_refuse_json(&e, p);
    else if (!json_is_object(read))
        serve_refuse(p, 400, NULL, "invalid_json", "the body must be a JSON object");
    else if (task == SERVE_TOKENIZE)
        text = tokenize(m, c, n_ctx, read, &warnings, p);
    else
        reply = task == SERVE_COUNT_TOKENS ? count_tokens(m, c, &read, &warnings, p) : detokenize(m, c, read, &warnings, p);
    if (reply && warnings) json_object_set(reply, "warnings", warnings);
    if (reply) text = json_dumps(reply, JSON_COMPACT);
    json_decref(warnings);
    json_decref(reply);
    json_decref(read);
    if (!text && !p->status) no_memory(p);
    return text;
}
