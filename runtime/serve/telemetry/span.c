#include "span.h"
#include "saccade/saccade.h"

#include <stdio.h>
#include <string.h>

/* OTLP's protobuf as JSON writes integers of 64 bits as texts, and ids in hexadecimal. */
static json_t *hex_of(const uint8_t *bytes, size_t n) {
    char text[33];
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static json_t *integer_of(int64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    return json_string(text);
}

/* ---------------------------------------------------------------- attributes */

/* value goes over. */
static void add(json_t *list, const char *key, const char *kind, json_t *value) {
    json_array_append_new(list, json_pack("{s:s, s:{s:o}}", "key", key, "value", kind, value));
}

static void add_text(json_t *list, const char *key, const char *text) {
    json_t *value = json_string(text); /* a name may be no UTF-8 */
    if (value) add(list, key, "stringValue", value);
}

static void add_integer(json_t *list, const char *key, int64_t n) {
    add(list, key, "intValue", integer_of(n));
}

static void add_seconds(json_t *list, const char *key, int64_t from, int64_t to) {
    if (from && to >= from) add(list, key, "doubleValue", json_real((double)(to - from) * 1e-9));
}

static void add_times(json_t *list, const serve_span *s) {
    const serve_tally *t = &s->tally;
    add_seconds(list, "gen_ai.latency.time_in_queue", s->arrived_ns, t->started_ns);
    if (t->first_ns) {
        add_seconds(list, "gen_ai.latency.time_to_first_token", s->arrived_ns, t->first_ns);
        add_seconds(list, "gen_ai.latency.time_in_model_prefill", t->started_ns, t->first_ns);
        add_seconds(list, "gen_ai.latency.time_in_model_decode", t->first_ns, t->last_ns);
        add_seconds(list, "gen_ai.latency.time_in_model_inference", t->started_ns, t->last_ns);
        add_seconds(list, "gen_ai.latency.e2e", s->arrived_ns, t->last_ns);
    }
}

/* Of a request that came to run. */
static void add_run(json_t *list, const serve_span *s) {
    const serve_tally *t = &s->tally;
    add_times(list, s);
    add_integer(list, "gen_ai.request.max_tokens", t->max_tokens);
    add_integer(list, "gen_ai.request.n", t->n_choices);
    add(list, "gen_ai.request.temperature", "doubleValue", json_real(t->temperature));
    add(list, "gen_ai.request.top_p", "doubleValue", json_real(t->top_p));
    if (!t->n_prompt) return;
    add_integer(list, "gen_ai.usage.prompt_tokens", t->n_prompt);
    add_integer(list, "gen_ai.usage.completion_tokens", t->n_answer);
    add_integer(list, "gen_ai.usage.input_tokens", t->n_prompt); /* the convention's names of the same */
    add_integer(list, "gen_ai.usage.output_tokens", t->n_answer);
    add_integer(list, "gen_ai.usage.cache_read.input_tokens", t->n_cached);
    add_integer(list, "saccade.media", t->n_media);
    add(list, "gen_ai.response.finish_reasons", "arrayValue", json_pack("{s:[{s:s}]}", "values", "stringValue", t->reason));
}

static json_t *attributes_of(const serve_span *s) {
    json_t *list = json_array();
    add_text(list, "http.request.method", s->method);
    add_text(list, "http.route", s->route);
    if (s->http_status) add_integer(list, "http.response.status_code", s->http_status);
    if (s->error[0]) add_text(list, "error.type", s->error);
    if (s->left) add(list, "saccade.client_left", "boolValue", json_true());
    if (!s->request_id[0]) return list;
    add_text(list, "gen_ai.request.id", s->request_id);
    add_text(list, "gen_ai.response.model", s->model);
    add(list, "saccade.stream", "boolValue", json_boolean(s->stream));
    if (s->tally.started_ns) add_run(list, s);
    return list;
}

/* ---------------------------------------------------------------- spans */

json_t *serve_span_json(const serve_span *s) {
    enum { KIND_SERVER = 2, STATUS_ERROR = 2 };
    json_t *j = json_pack("{s:o, s:o, s:s, s:i, s:o, s:o, s:o, s:i}", "traceId", hex_of(s->context.trace, sizeof s->context.trace),
                          "spanId", hex_of(s->id, sizeof s->id), "name", "llm_request", "kind", KIND_SERVER, "startTimeUnixNano",
                          integer_of(s->start_ns), "endTimeUnixNano", integer_of(s->end_ns), "attributes", attributes_of(s), "flags", 1);
    if (!j) return NULL;
    if (s->context.has_parent) json_object_set_new(j, "parentSpanId", hex_of(s->context.parent, sizeof s->context.parent));
    if (s->context.state[0]) json_object_set_new(j, "traceState", json_string(s->context.state));
    json_object_set_new(j, "status", s->failed ? json_pack("{s:i}", "code", STATUS_ERROR) : json_object());
    return j;
}

char *serve_spans_json(const serve_span *spans, size_t n) {
    json_t *list = json_array(), *resource = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, serve_span_json(&spans[i]));
    add_text(resource, "service.name", "saccade");
    add_text(resource, "service.version", SAC_VERSION);
    json_t *all = json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans", "resource", "attributes", resource, "scopeSpans",
                            "scope", "name", "saccade.serve", "version", SAC_VERSION, "spans", list);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}
