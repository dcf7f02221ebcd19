/* read_score.c - requests of vLLM's /v1/score and of /v1/rerank as ones whose prompts alone are run: a text as it stands, or, where
 * pictures and videos are among them, a conversation of one message each. A query stands before what is compared with it. */
#include "byte_buffer.h"
#include "fields.h"
#include "other_api.h"
#include "request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Read by finish_*. */
static bool leave(other_request *o, const json_t *value) {
    (void)o, (void)value;
    return true;
}

/* ---------------------------------------------------------------- items */

static bool is_given(const json_t *body, const char *name) {
    const json_t *value = json_object_get(body, name);
    return value && !json_is_null(value);
}

/* With a medium beside the text it is a message's part, which is refused or warned of there. */
static bool is_text(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (is_given(part, "image_url") || is_given(part, "video_url") || is_given(part, "video_frames")) return false;
    return type && !strcmp(type, "text") && json_is_string(json_object_get(part, "text"));
}

/* Texts one below the other, as vLLM puts them together. NULL: no memory. */
static json_t *join(const json_t *parts) {
    serve_buffer all = {0};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        if (i) serve_buffer_text(&all, "\n");
        serve_buffer_text(&all, json_string_value(json_object_get(json_array_get(parts, i), "text")));
    }
    json_t *text = all.failed ? NULL : json_stringn(all.n ? all.data : "", all.n);
    serve_buffer_free(&all);
    return text;
}

/* A text, or a list of parts that are not all texts; NULL: *o->p says why. */
static json_t *read_item(other_request *o, const json_t *item, const char *param) {
    const json_t *parts = json_object_get(item, "content");
    size_t n_texts = 0, n = json_array_size(parts);
    if (json_string_length(item) > 0) return json_incref((json_t *)(uintptr_t)item);
    if (json_object_size(item) != 1 || n == 0)
        return serve_refuse(o->p, 400, param, NULL, "'%s' must be a text, or {\"content\": [parts]}, neither empty", param), NULL;
    while (n_texts < n && is_text(json_array_get(parts, n_texts))) n_texts++;
    if (n_texts < n) return json_incref((json_t *)(uintptr_t)parts);
    json_t *text = join(parts);
    if (text && json_string_length(text) > 0) return text;
    json_decref(text);
    return serve_refuse(o->p, 400, param, NULL, "'%s' has no text", param), NULL;
}

/* One side of the comparison. */
typedef struct side {
    const char *name;
    const json_t *given; /* an item, or a list of them */
    size_t n;
} side;

static side side_of(const json_t *body, const char *name) {
    const json_t *given = json_object_get(body, name);
    return (side){name, given, json_is_array(given) ? json_array_size(given) : 1};
}

/* Its i-th item: into list. */
static bool add_item(other_request *o, const side *s, size_t i, json_t *list) {
    char param[48];
    const bool alone = !json_is_array(s->given);
    snprintf(param, sizeof param, alone ? "%s" : "%s[%zu]", s->name, i);
    json_t *item = read_item(o, alone ? s->given : json_array_get(s->given, i), param);
    if (!item) return false;
    return json_array_append_new(list, item) == 0 || serve_other_no_memory(o->p);
}

static bool has_media(const json_t *items) {
    for (size_t i = 0; i < json_array_size(items); i++)
        if (json_is_array(json_array_get(items, i))) return true;
    return false;
}

/* Each its own conversation (serve_request.each_alone). */
static bool put_messages(other_request *o, const json_t *items) {
    for (size_t i = 0; i < json_array_size(items); i++) {
        json_t *message = json_pack("{s:s, s:O}", "role", "user", "content", json_array_get(items, i));
        if (!message || json_array_append_new(o->messages, message) != 0) return serve_other_no_memory(o->p);
    }
    return json_object_get(o->chat, "add_generation_prompt") ||
           serve_other_set(o->chat, "add_generation_prompt", json_false(), o->p);
}

static bool check_sizes(other_request *o, const side *queries, const side *documents) {
    const size_t n = queries->n + documents->n;
    if (queries->n == 0 || documents->n == 0)
        return serve_refuse(o->p, 400, queries->n ? documents->name : queries->name, NULL, "'%s' is empty",
                            queries->n ? documents->name : queries->name);
    if (queries->n > 1 && queries->n != documents->n)
        return serve_refuse(o->p, 400, documents->name, NULL, "'%s' has %zu items and '%s' %zu: give one for all, or as many",
                            queries->name, queries->n, documents->name, documents->n);
    return n <= SERVE_MAX_INPUTS ||
           serve_refuse(o->p, 400, documents->name, NULL, "%zu items are compared: at most %d are taken", n, SERVE_MAX_INPUTS);
}

static bool read_sides(other_request *o, const side *queries, const side *documents, json_t *items) {
    const bool pairs = queries->n > 1;
    if (!check_sizes(o, queries, documents)) return false;
    for (size_t i = 0; i < documents->n; i++) {
        if ((i == 0 || pairs) && !add_item(o, queries, i, items)) return false;
        if (!add_item(o, documents, i, items)) return false;
    }
    if (!serve_other_set(o->said, "pairs", json_boolean(pairs), o->p)) return false;
    if (has_media(items)) return put_messages(o, items);
    return json_object_set(o->chat, "prompt", items) == 0 || serve_other_no_memory(o->p);
}

/* ---------------------------------------------------------------- both */

/* What a classifier's scores depend on, and no cosine. */
static bool check_activation(other_request *o, const json_t *body) {
    static const char *const names[] = {"use_activation", "activation", "softmax"};
    bool any;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!serve_field_bool(body, names[i], &any, o->p)) return false;
    return true;
}

static bool compare(other_request *o, const json_t *body, const side *queries, const side *documents) {
    if (!serve_other_check_prompt_fields(o, "scores") || !check_activation(o, body)) return false;
    json_t *items = json_array();
    const bool ok = items ? read_sides(o, queries, documents, items) : serve_other_no_memory(o->p);
    json_decref(items);
    return ok;
}

/* ---------------------------------------------------------------- scores */

static bool finish_score(other_request *o, const json_t *body) {
    static const char *const names[] = {"queries", "text_1", "data_1", "documents", "text_2", "data_2", "items"};
    static const char *const pairs[][2] = {{"queries", "documents"}, {"queries", "items"}, {"text_1", "text_2"}, {"data_1", "data_2"}};
    size_t n = 0, k = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) n += is_given(body, names[i]);
    while (k < sizeof pairs / sizeof *pairs && !(is_given(body, pairs[k][0]) && is_given(body, pairs[k][1]))) k++;
    if (n != 2 || k == sizeof pairs / sizeof *pairs)
        return serve_refuse(o->p, 400, "queries", NULL,
                            "give 'queries' and 'documents', 'queries' and 'items', 'text_1' and 'text_2', or 'data_1' and 'data_2'");
    const side queries = side_of(body, pairs[k][0]), documents = side_of(body, pairs[k][1]);
    return compare(o, body, &queries, &documents);
}

bool serve_read_score(json_t **body, json_t **said, serve_problem *p) {
    static const other_field fields[] = {
        {"queries", leave, NULL}, {"documents", leave, NULL}, {"items", leave, NULL}, {"text_1", leave, NULL}, {"text_2", leave, NULL},
        {"data_1", leave, NULL}, {"data_2", leave, NULL}, {"use_activation", leave, NULL}, {"activation", leave, NULL}, {"softmax", leave, NULL},
        {"prompt", NULL, "give 'queries' and 'documents'"},
        {"messages", NULL, "give 'queries' and 'documents'"},
        {"truncate_prompt_tokens", NULL, "a text that does not fit is refused"},
        {NULL, NULL, NULL}};
    return serve_other_read(body, said, fields, finish_score, p);
}

/* ---------------------------------------------------------------- ranks */

/* What the answer says a document is: its text, or its parts, without what they name. NULL: no memory. */
static json_t *describe(const json_t *item) {
    const json_t *parts = json_object_get(item, "content");
    if (json_is_string(item)) return json_pack("{s:O}", "text", item);
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *type = json_object_get(part, "type");
        json_array_append_new(list, is_text(part) ? json_deep_copy(part) : json_pack("{s:O?}", "type", type));
    }
    return json_pack("{s:o}", "multi_modal", list);
}

static bool describe_all(other_request *o, const side *documents) {
    json_t *list = json_array();
    if (!serve_other_set(o->said, "documents", list, o->p)) return false;
    for (size_t i = 0; i < documents->n; i++) {
        const json_t *item = json_is_array(documents->given) ? json_array_get(documents->given, i) : documents->given;
        if (json_array_append_new(list, describe(item)) != 0) return serve_other_no_memory(o->p);
    }
    return true;
}

static bool finish_rerank(other_request *o, const json_t *body) {
    int64_t top = 0;
    bool describes = true;
    if (!serve_field_int(body, "top_n", 0, INT_MAX, &top, o->p)) return false;
    if (!serve_field_bool(body, "return_documents", &describes, o->p)) return false;
    if (!is_given(body, "query") || json_is_array(json_object_get(body, "query")))
        return serve_refuse(o->p, 400, "query", NULL, "'query' must be a text, or {\"content\": [parts]}");
    if (!is_given(body, "documents")) return serve_refuse(o->p, 400, "documents", NULL, "'documents' is missing");
    const side queries = side_of(body, "query"), documents = side_of(body, "documents");
    return compare(o, body, &queries, &documents) && serve_other_set(o->said, "top_n", json_integer((json_int_t)top), o->p) &&
           (!describes || describe_all(o, &documents));
}

bool serve_read_rerank(json_t **body, json_t **said, serve_problem *p) {
    static const other_field fields[] = {
        {"query", leave, NULL}, {"documents", leave, NULL}, {"top_n", leave, NULL}, {"return_documents", leave, NULL},
        {"use_activation", leave, NULL}, {"activation", leave, NULL}, {"softmax", leave, NULL},
        {"prompt", NULL, "give 'query' and 'documents'"},
        {"messages", NULL, "give 'query' and 'documents'"},
        {"truncate_prompt_tokens", NULL, "a text that does not fit is refused"},
        {NULL, NULL, NULL}};
    return serve_other_read(body, said, fields, finish_rerank, p);
}
