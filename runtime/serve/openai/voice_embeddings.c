/* voice_embeddings.c - OpenAI's /v1/embeddings: a vector for each prompt. */
#define _GNU_SOURCE
#include "state.h"
#include "usage.h"
#include "voice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of little-endian floats, as OpenAI's clients read them; freed by the caller. */
static char *to_base64(const float *v, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = (const unsigned char *)v;
    size_t n_bytes = n * sizeof *v, at = 0;
    char *text = malloc((n_bytes + 2) / 3 * 4 + 1);
    for (size_t i = 0; text && i < n_bytes; i += 3) {
        uint32_t three = (uint32_t)from[i] << 16;
        if (i + 1 < n_bytes) three |= (uint32_t)from[i + 1] << 8;
        if (i + 2 < n_bytes) three |= from[i + 2];
        for (int k = 0; k < 4; k++) text[at++] = digits[three >> (18 - 6 * k) & 63];
        if (i + 2 >= n_bytes) text[at - 1] = '=';
        if (i + 1 >= n_bytes) text[at - 2] = '=';
    }
    if (text) text[at] = 0;
    return text;
}

static json_t *vector_of(const serve_answer *a) {
    const size_t n = (size_t)a->job->server->info.hidden;
    const float *v = a->vector;
    if (json_is_true(json_object_get(a->job->request->said, "base64"))) {
        char *text = to_base64(v, n);
        json_t *j = text ? json_string(text) : json_null();
        free(text);
        return j;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_real(v[i]));
    return list;
}

/* To length 1; a vector of zeros stays one. */
static void normalize(float *v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)v[i] * v[i];
    for (size_t i = 0; sum > 0 && i < n; i++) v[i] = (float)(v[i] / sqrt(sum));
}

static void start(serve_answer *a) {
    (void)a; /* there are no streams of them */
}

static void part(serve_answer *a, splitter_kind kind, const char *text, size_t n) {
    (void)a, (void)kind, (void)text, (void)n; /* nor texts */
}

static void choice(serve_answer *a, const sac_result *r, const char *reason) {
    (void)r, (void)reason;
    normalize(a->vector, (size_t)a->job->server->info.hidden);
    a->n_values += a->job->server->info.hidden;
    json_array_append_new(a->choices, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", a->choice,
                                                "embedding", vector_of(a)));
}

static void finish(serve_answer *a) {
    json_int_t n = (json_int_t)serve_usage_prompt(a->usage);
    json_t *usage =
               json_pack("{s:I, s:I, s:i}", "prompt_tokens", n, "total_tokens", n, "completion_tokens", 0),
           *whole = json_pack("{s:s, s:s, s:I, s:O, s:s, s:O}", "id", a->job->id, "object", "list", "created",
                              (json_int_t)a->job->created, "data", a->choices, "model", a->job->model,
                              "usage", usage);
    serve_usage_copy_own(usage, a->usage);
    json_decref(usage);
    if (a->job->request->warnings) json_object_set(whole, "warnings", a->job->request->warnings);
    serve_voice_reply(a->job, whole);
}

const serve_voice serve_voice_embeddings = {start, NULL, part, choice, finish};
