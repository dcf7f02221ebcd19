#include "prompts.h"
#include "fields.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_IDS = 1 << 22 };

static bool no_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

static void refuse_id(const char *param, size_t i, int n_vocab, serve_problem *p) {
    serve_refuse(p, 400, param, NULL, "'%s': token id %zu of the list is not a whole number from 0 to %d", param, i, n_vocab - 1);
}

int32_t *serve_read_ids(const json_t *list, int n_vocab, const char *param, serve_problem *p) {
    size_t n = json_array_size(list);
    int32_t *ids = n <= MAX_IDS ? calloc(n + 1, sizeof *ids) : NULL;
    if (!ids) return no_memory(p), NULL;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < n_vocab) {
            ids[i] = (int32_t)json_integer_value(v);
            continue;
        }
        free(ids);
        return refuse_id(param, i, n_vocab, p), NULL;
    }
    return ids;
}

/* Those that were read beside the JSON. */
static bool take_listed(serve_prompt *to, serve_request *r, int n_vocab, const char *key, serve_problem *p) {
    if (r->n_listed_ids > MAX_IDS) return no_memory(p);
    for (size_t i = 0; i < r->n_listed_ids; i++)
        if (r->listed_ids[i] >= n_vocab) return refuse_id(key, i, n_vocab, p), false;
    *to = (serve_prompt){.ids = r->listed_ids, .n = r->n_listed_ids};
    r->listed_ids = NULL;
    return true;
}

static bool take_prompt(serve_prompt *to, const json_t *v, int n_vocab, const char *key, serve_problem *p) {
    if (json_is_string(v) && json_string_length(v) > 0) {
        *to = (serve_prompt){.text = json_string_value(v), .n = json_string_length(v)};
        return true;
    }
    if (!json_is_array(v) || json_array_size(v) == 0)
        return serve_refuse(p, 400, key, NULL,
                            "'%s' must be a text, a list of token ids, or a list of either, none empty", key);
    to->n = json_array_size(v);
    to->ids = serve_read_ids(v, n_vocab, key, p);
    return to->ids != NULL;
}

bool serve_prompts_parse(serve_request *r, int n_vocab, serve_problem *p) {
    const char *key = r->embed ? "input" : "prompt"; /* as the client names it */
    const json_t *prompt = json_object_get(r->json, "prompt"), *first = json_array_get(prompt, 0);
    bool several = json_is_string(first) || json_is_array(first);
    size_t n = several ? json_array_size(prompt) : 1, most = r->embed ? SERVE_MAX_INPUTS : SERVE_MAX_PROMPTS;
    if (n > most) return serve_refuse(p, 400, key, NULL, "'%s' has %zu prompts: at most %zu are taken", key, n, most);
    if (!serve_field_bool(r->json, "echo", &r->echo, p)) return false;
    if (r->no_answer && !r->echo)
        return serve_refuse(p, 400, "max_tokens", NULL,
                            "'max_tokens' is 0 without 'echo': nothing is asked for");
    r->score_prompt = r->echo && r->logprobs;
    r->prompts = calloc(n, sizeof *r->prompts);
    if (!r->prompts) return no_memory(p);
    r->n_prompts = n;
    if (r->listed_ids) return take_listed(&r->prompts[0], r, n_vocab, key, p);
    for (size_t i = 0; i < n; i++)
        if (!take_prompt(&r->prompts[i], several ? json_array_get(prompt, i) : prompt, n_vocab, key, p))
            return false;
    return true;
}

void serve_prompts_free(serve_request *r) {
    for (size_t i = 0; r->prompts && i < r->n_prompts; i++) free(r->prompts[i].ids);
    free(r->prompts);
    r->prompts = NULL;
}

char *serve_prompt_text(const serve_prompt *prompt, const sac_model *m, size_t *n_bytes) {
    size_t n = prompt->n;
    if (!prompt->ids) {
        char *copy = malloc(n + 1);
        if (copy) memcpy(copy, prompt->text, n);
        *n_bytes = n;
        return copy;
    }
    sac_detokenize_ids(m, prompt->ids, prompt->n, true, NULL, 0, &n, NULL);
    char *text = malloc(n + 1);
    if (text && sac_detokenize_ids(m, prompt->ids, prompt->n, true, text, n + 1, n_bytes, NULL) == SAC_OK)
        return text;
    free(text);
    return NULL;
}
