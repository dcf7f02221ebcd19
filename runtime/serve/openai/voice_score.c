/* voice_score.c - how alike texts and pictures are: the cosine of their vectors (voice_embeddings.c), as vLLM's /v1/score and /v1/rerank
 * say it of models that make embeddings. Vectors come in the order that read_score.c has: a query before what is compared with it. */
#include "state.h"
#include "usage.h"
#include "voice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 0 where one of them is all zeros. */
static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static void start(serve_answer *a) {
    (void)a; /* there are no streams of them */
}

static void part(serve_answer *a, splitter_kind kind, const char *text, size_t n) {
    (void)a, (void)kind, (void)text, (void)n; /* nor texts */
}

/* One query for all, or each document has its own. */
static bool is_query(const serve_answer *a) {
    const bool pairs = json_is_true(json_object_get(a->job->request->said, "pairs"));
    return pairs ? a->choice % 2 == 0 : a->choice == 0;
}

static void choice(serve_answer *a, const sac_result *r, const char *reason) {
    const size_t n = (size_t)a->job->server->info.hidden;
    (void)r, (void)reason;
    if (!is_query(a)) {
        json_array_append_new(a->choices, a->query ? json_real(cosine(a->query, a->vector, n)) : json_null());
        a->n_values += 4;
        return;
    }
    if (!a->query) a->query = malloc(n * sizeof *a->query);
    if (a->query) memcpy(a->query, a->vector, n * sizeof *a->query);
}

/* ---------------------------------------------------------------- the whole */

static json_t *scores_of(const serve_answer *a) {
    json_t *list = json_array(), *score;
    size_t i;
    json_array_foreach(a->choices, i, score)
        json_array_append_new(list, json_pack("{s:i, s:s, s:O}", "index", (int)i, "object", "score", "score", score));
    return list;
}

typedef struct ranked {
    double score;
    size_t index;
} ranked;

/* The likest first; of equal ones the earlier. */
static int compare(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static json_t *results_of(const serve_answer *a) {
    const json_t *said = a->job->request->said, *documents = json_object_get(said, "documents");
    const size_t n = json_array_size(a->choices), top = (size_t)json_integer_value(json_object_get(said, "top_n"));
    json_t *list = json_array();
    ranked *order = calloc(n + 1, sizeof *order);
    if (!order) return list;
    for (size_t i = 0; i < n; i++) order[i] = (ranked){json_number_value(json_array_get(a->choices, i)), i};
    qsort(order, n, sizeof *order, compare);
    for (size_t i = 0; i < n && (top == 0 || i < top); i++)
        json_array_append_new(list, json_pack("{s:I, s:O*, s:f}", "index", (json_int_t)order[i].index, "document",
                                              json_array_get(documents, order[i].index), "relevance_score", order[i].score));
    free(order);
    return list;
}

static void finish(serve_answer *a) {
    const serve_job *j = a->job;
    const bool ranks = j->api == SERVE_API_RERANK;
    const json_int_t n = (json_int_t)serve_usage_prompt(a->usage);
    json_t *usage = json_pack("{s:I, s:I}", "prompt_tokens", n, "total_tokens", n), *whole;
    if (!ranks) json_object_set_new(usage, "completion_tokens", json_integer(0));
    if (ranks)
        whole = json_pack("{s:s, s:s, s:o, s:o}", "id", j->id, "model", j->model, "usage", usage, "results", results_of(a));
    else
        whole = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", j->id, "object", "list", "created", (json_int_t)j->created, "model",
                          j->model, "data", scores_of(a), "usage", usage);
    if (j->request->warnings) json_object_set(whole, "warnings", j->request->warnings);
    serve_voice_reply(a->job, whole);
}

const serve_voice serve_voice_score = {start, NULL, part, choice, finish};
