#include "token_limits.h"
#include "fields.h"
#include "prompts.h"

#include <math.h>
#include <stdlib.h>

static bool refuse_memory(serve_problem *p) {
    return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for the request");
}

/* {"token id": bias} */
static bool parse_bias(serve_request *r, int n_vocab, serve_problem *p) {
    const json_t *object = NULL;
    if (!serve_field_object(r->json, "logit_bias", &object, p)) return false;
    size_t n = json_object_size(object);
    if (n == 0) return true;
    if (n > SERVE_MAX_BIAS)
        return serve_refuse(p, 400, "logit_bias", NULL, "'logit_bias' names more than %d tokens",
                            SERVE_MAX_BIAS);
    r->logit_bias = calloc(n, sizeof *r->logit_bias);
    if (!r->logit_bias) return refuse_memory(p);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        char *end;
        long id = strtol(key, &end, 10);
        double bias = json_number_value(value);
        if (!*key || *end || id < 0 || id > INT32_MAX || !json_is_number(value) || !(fabs(bias) <= 100))
            return serve_refuse(p, 400, "logit_bias", NULL,
                                "'logit_bias' must map token ids to numbers from -100 to 100");
        if (id >= n_vocab)
            return serve_refuse(p, 400, "logit_bias", NULL,
                                "'logit_bias': token %ld is not in the vocabulary of %d", id, n_vocab);
        r->logit_bias[r->sampling.n_logit_bias++] = (sac_logit_bias){(int32_t)id, (float)bias};
    }
    r->sampling.logit_bias = r->logit_bias;
    return true;
}

/* vLLM's list of ids; an empty one asks for nothing. */
static bool parse_allowed(serve_request *r, int n_vocab, serve_problem *p) {
    const char *key = "allowed_token_ids";
    const json_t *list = json_object_get(r->json, key);
    if (!list || json_is_null(list)) return true;
    if (!json_is_array(list)) return serve_refuse(p, 400, key, NULL, "'%s' must be a list of token ids", key);
    size_t n = json_array_size(list);
    if (n == 0) return true;
    int32_t *ids = serve_read_ids(list, n_vocab, key, p);
    if (!ids) return false;
    r->allowed = calloc((size_t)n_vocab, sizeof *r->allowed);
    for (size_t i = 0; r->allowed && i < n; i++) r->allowed[ids[i]] = true;
    r->n_vocab = n_vocab;
    free(ids);
    return r->allowed || refuse_memory(p);
}

bool serve_limits_parse(serve_request *r, int n_vocab, serve_problem *p) {
    return parse_bias(r, n_vocab, p) && parse_allowed(r, n_vocab, p);
}

void serve_limits_free(serve_request *r) {
    free(r->logit_bias);
    free(r->allowed);
}

void serve_limits_mask(const serve_request *r, uint32_t *bits, int n_vocab) {
    for (int id = 0; id < n_vocab; id++)
        if (id >= r->n_vocab || !r->allowed[id]) bits[id / 32] &= ~(1u << (id % 32));
}
