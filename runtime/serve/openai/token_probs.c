#include "token_probs.h"
#include "utf8.h"

#include <string.h>

/* A token's bytes as JSON can say them: what is no UTF-8 becomes U+FFFD. A control token adds nothing to the text, so it goes by
 * its name. */
static size_t write_text(const serve_tokens *t, int32_t id, char *text, size_t room) {
    char name[256];
    size_t n = 0, n_name = 0;
    const char *p = id >= 0 && id < t->n ? t->bytes[id] : "",
               *end = p + (id >= 0 && id < t->n ? t->length[id] : 0);
    if (p == end && sac_token_bytes(t->model, id, name, sizeof name, &n_name, NULL) == SAC_OK &&
        n_name <= sizeof name) {
        p = name;
        end = name + n_name;
    }
    while (p < end && n + 4 < room) {
        size_t length;
        bool valid = sac_utf8_next(p, end, &length, NULL);
        memcpy(text + n, valid ? p : SAC_UTF8_REPLACEMENT, valid ? length : 3);
        n += valid ? length : 3;
        p += length;
    }
    return n;
}

static json_t *text_of(const serve_tokens *t, int32_t id) {
    char text[512];
    return json_stringn(text, write_text(t, id, text, sizeof text));
}

static json_t *bytes_of(const serve_tokens *t, int32_t id) {
    json_t *j = json_array();
    for (uint32_t i = 0; id >= 0 && id < t->n && i < t->length[id]; i++)
        json_array_append_new(j, json_integer((unsigned char)t->bytes[id][i]));
    return j;
}

/* JSON has no infinity; OpenAI writes this. */
static double shown(float logprob) {
    return logprob < -9999 ? -9999 : logprob;
}

static json_t *entry_of(const serve_tokens *t, int32_t id, float logprob) {
    return json_pack("{s:o, s:f, s:o}", "token", text_of(t, id), "logprob", shown(logprob), "bytes",
                     bytes_of(t, id));
}

json_t *serve_probs_of_chat(const serve_tokens *t, const sac_token_event *token) {
    json_t *entry = entry_of(t, token->id, token->logprob), *top = json_array();
    for (int i = 0; i < token->n_top; i++)
        json_array_append_new(top, entry_of(t, token->top[i].id, token->top[i].logprob));
    json_object_set_new(entry, "top_logprobs", top);
    return entry;
}

/* Of tokens with the same text the likeliest stays. */
static void put(json_t *top, const serve_tokens *t, int32_t id, float logprob) {
    char text[512];
    size_t n = write_text(t, id, text, sizeof text);
    if (!json_object_getn(top, text, n)) json_object_setn_new(top, text, n, json_real(shown(logprob)));
}

json_t *serve_probs_of_text(const serve_tokens *t, const sac_token_event *token, bool known, int64_t offset) {
    json_t *top = known ? json_object() : json_null();
    for (int i = 0; i < token->n_top; i++) put(top, t, token->top[i].id, token->top[i].logprob);
    if (known) put(top, t, token->id, token->logprob);
    return json_pack("{s:o, s:o, s:I, s:o}", "token", text_of(t, token->id), "logprob",
                     known ? json_real(shown(token->logprob)) : json_null(), "offset", (json_int_t)offset,
                     "top_logprobs", top);
}

json_t *serve_probs_lists(const json_t *entries) {
    json_t *tokens = json_array(), *logprobs = json_array(), *tops = json_array(), *offsets = json_array();
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) {
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(logprobs, json_object_get(entry, "logprob"));
        json_array_append(offsets, json_object_get(entry, "offset"));
        json_array_append(tops, json_object_get(entry, "top_logprobs"));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs",
                     tops, "text_offset", offsets);
}

int64_t serve_probs_n_characters(const serve_tokens *t, int32_t id) {
    int64_t n = 0;
    for (uint32_t i = 0; id >= 0 && id < t->n && i < t->length[id]; i++)
        n += !sac_utf8_continues(t->bytes[id][i]);
    return n;
}
