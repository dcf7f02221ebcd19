#include "text_length.h"
#include "chat_tokens.h"

#include <stdlib.h>
#include <string.h>

/* Tokens at the seams of a conversation's texts may be counted otherwise than they are run. A template writes about so much itself. */
enum { LEAST_LONGEST = 128, SEAMS = 16, TEMPLATE_BYTES = 1 << 16 };

static size_t length(const char *text) {
    return text ? strlen(text) : 0;
}

static size_t part_bytes(const sac_message *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_parts; i++) n += length(m->parts[i].text);
    return n;
}

/* Texts that become tokens together: a prompt, a message alone, or a conversation. */
static size_t count_texts(const serve_request *r) {
    return !r->is_chat ? r->n_prompts : r->each_alone ? r->n_messages : 1;
}

/* Of texts that are in the prompt whatever the template: of the model's own turns it may leave the reasoning out. */
static size_t sure_bytes(const serve_request *r, size_t i) {
    if (!r->is_chat) return r->prompts[i].ids ? 0 : r->prompts[i].n;
    if (r->each_alone) return part_bytes(&r->messages[i]);
    size_t n = 0;
    for (size_t k = 0; k < r->n_messages; k++)
        if (strcmp(r->messages[k].role, "assistant") != 0) n += part_bytes(&r->messages[k]);
    return n;
}

/* Of all that the template may write. */
static size_t bytes_of(const serve_request *r, size_t i) {
    size_t n = sure_bytes(r, i);
    if (!r->is_chat) return n;
    if (r->each_alone) return n + length(r->messages[i].fields);
    n += length(r->chat.tools) + length(r->chat.documents) + length(r->chat.variables);
    for (size_t k = 0; k < r->n_messages; k++) {
        const sac_message *m = &r->messages[k];
        n += length(m->fields) + (strcmp(m->role, "assistant") ? 0 : part_bytes(m));
    }
    return n;
}

size_t serve_text_bytes(const serve_request *r) {
    size_t n = 0;
    for (size_t i = 0; i < count_texts(r); i++) n += bytes_of(r, i);
    return n;
}

static size_t longest_token(const serve_tokens *t) {
    size_t longest = LEAST_LONGEST; /* control tokens, which t has no bytes of, are shorter */
    for (int32_t id = 0; id < t->n; id++)
        if (t->length[id] > longest) longest = t->length[id];
    return longest;
}

static bool check_bytes(size_t n, size_t longest, int64_t n_ctx, serve_problem *p) {
    return n / longest <= (size_t)n_ctx ||
           serve_refuse(p, 400, NULL, "context_length_exceeded",
                        "the prompt has %zu bytes of text, more than the context of %lld tokens can hold: give a shorter text or a "
                        "larger context",
                        n, (long long)n_ctx);
}

bool serve_text_may_fit(const serve_request *r, const serve_tokens *t, int64_t n_ctx, serve_problem *p) {
    const size_t longest = longest_token(t);
    for (size_t i = 0; i < count_texts(r); i++)
        if (!check_bytes(sure_bytes(r, i), longest, n_ctx, p)) return false;
    return true;
}

static bool count_text(const sac_model *m, const char *text, size_t n_bytes, size_t *n, serve_problem *p) {
    sac_error err;
    size_t found = 0;
    const sac_status st = sac_tokenize_text(m, text, n_bytes, true, false, NULL, 0, &found, &err);
    *n += found;
    return st == SAC_OK || st == SAC_TOO_LONG || serve_refuse_status(p, st, &err);
}

static bool count_parts(const sac_model *m, const sac_message *of, size_t *n, serve_problem *p) {
    for (size_t i = 0; i < of->n_parts; i++)
        if (of->parts[i].text && !count_text(m, of->parts[i].text, strlen(of->parts[i].text), n, p)) return false;
    return true;
}

/* Where the text as it is written has too many bytes nobody looks for its tokens. */
static bool count_chat(const sac_model *m, const serve_tokens *t, const serve_request *r, int64_t n_ctx, size_t *n, serve_problem *p) {
    char *text = serve_chat_text(m, r, bytes_of(r, 0) + TEMPLATE_BYTES, p);
    const bool ok = text && check_bytes(strlen(text), longest_token(t), n_ctx, p) && serve_tokens_count_chat(n, m, text, p);
    free(text);
    return ok;
}

bool serve_text_fits(const serve_request *r, const sac_model *m, const serve_tokens *t, int64_t n_ctx, const atomic_bool *cancelled,
                     serve_problem *p) {
    for (size_t i = 0; i < count_texts(r) && !atomic_load(cancelled); i++) {
        size_t n = 0;
        if (bytes_of(r, i) <= (size_t)n_ctx) continue;
        const bool ok = !r->is_chat     ? count_text(m, r->prompts[i].text, r->prompts[i].n, &n, p)
                        : r->each_alone ? count_parts(m, &r->messages[i], &n, p)
                                        : count_chat(m, t, r, n_ctx, &n, p);
        if (!ok) return false;
        if (n > (size_t)n_ctx + SEAMS)
            return serve_refuse(p, 400, NULL, "context_length_exceeded",
                                "the prompt has %zu tokens of text, the context %lld: give a shorter text or a larger context", n,
                                (long long)n_ctx);
    }
    return true;
}
