#define _GNU_SOURCE
#include "exchange.h"
#include "files.h"
#include "media_store.h"
#include "metrics.h"
#include "page.h"
#include "scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum MHD_Result health(serve_exchange *x) {
    serve_server *s = x->server;
    bool broken = atomic_load(&s->broken), draining = atomic_load(&s->draining);
    bool ready = atomic_load(&s->answers) && !draining && !broken;
    return serve_reply_json(x, ready ? 200 : 503,
                            json_pack("{s:s}", "status",
                                      ready      ? "ok"
                                      : broken   ? "failed"
                                      : draining ? "draining"
                                                 : "starting"));
}

static enum MHD_Result version(serve_exchange *x) {
    return serve_reply_json(x, 200, json_pack("{s:s}", "version", SAC_VERSION));
}

static json_t *names_json(const char *const *names) {
    json_t *list = json_array();
    for (size_t i = 0; names[i]; i++) json_array_append_new(list, json_string(names[i]));
    return list;
}

/* own: the server's; NULL = the library's default. */
static json_t *method_json(const char *own, const char *const *names) {
    return json_pack("{s:s?, s:o}", "own", own, "names", names_json(names));
}

/* What a page needs to know of the server before it asks. */
static json_t *describe_server(const serve_server *s) {
    const serve_config *c = s->config;
    return json_pack("{s:b, s:b, s:i, s:I, s:f, s:{s:o, s:o, s:o}}", "vision", (int)s->info.has_vision,
                     "request_methods", (int)c->request_methods, "max_media", c->max_media, "max_body_bytes",
                     (json_int_t)c->max_body_bytes, "temperature", c->sampling.temperature, "methods",
                     "prefill", method_json(c->session.prefill, sac_prefill_names()), "decode",
                     method_json(c->session.decode, sac_decode_names()), "kv",
                     method_json(c->session.kv, sac_kv_names()));
}

/* As vLLM tells of LoRA adapters: their parent is the model that they stand on, their root the folder. */
static json_t *describe_model(const serve_server *s, const char *adapter) {
    const char *name = s->config->model_name, *root = s->info.family;
    sac_adapter_info a;
    for (int64_t i = 0; adapter && sac_model_get_adapter(s->model, i, &a); i++)
        if (a.name && !strcmp(a.name, adapter)) root = a.folder;
    return json_pack("{s:s, s:s, s:I, s:s, s:s?, s:s?, s:I, s:o}", "id", adapter ? adapter : name, "object",
                     "model", "created", (json_int_t)s->started, "owned_by", "saccade", "root", root,
                     "parent", adapter ? name : NULL, "max_model_len", (json_int_t)s->n_ctx, "saccade",
                     describe_server(s));
}

static enum MHD_Result models(serve_exchange *x) {
    const serve_texts *adapters = &x->server->config->adapters;
    json_t *list = json_array();
    json_array_append_new(list, describe_model(x->server, NULL));
    for (size_t i = 0; i < adapters->n; i++)
        json_array_append_new(list, describe_model(x->server, adapters->items[i]));
    return serve_reply_json(x, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static enum MHD_Result model(serve_exchange *x) {
    const char *name = x->path + strlen("/v1/models/"), *adapter;
    if (serve_model_find(&adapter, x->server->config, name, &x->problem))
        return serve_reply_json(x, 200, describe_model(x->server, adapter));
    return serve_reply_problem(x, &x->problem);
}

static serve_gauges read_gauges(serve_server *s) {
    pthread_mutex_lock(&s->lock);
    size_t n_jobs = s->n_jobs, n_running = s->n_running, n_bytes = s->bodies_bytes;
    pthread_mutex_unlock(&s->lock);
    serve_gauges g = {.n_running = n_running,
                      .n_waiting = n_jobs > n_running ? n_jobs - n_running : 0,
                      .cache_use = serve_scheduler_cache_use(s),
                      .body_bytes = n_bytes,
                      .media_bytes = serve_media_store_bytes(s->media)};
    if (s->beginnings) sac_beginnings_get_report(s->beginnings, &g.beginnings);
    return g;
}

static enum MHD_Result metrics(serve_exchange *x) {
    serve_buffer b = {0};
    serve_gauges g = read_gauges(x->server);
    serve_metrics_write(x->server->metrics, x->server->config->model_name, &g, &b);
    if (b.failed) serve_buffer_free(&b);
    return serve_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.n);
}

/* What the page may do: its own scripts, styles and requests, pictures and videos that the reader chose, the camera. */
#define PAGE_POLICY                                                                                          \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' " \
    "blob:; "                                                                                                \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* "gzip" named, and not with a weight of 0. */
static bool takes_gzip(const serve_exchange *x) {
    const char *accepted = serve_exchange_header(x, "Accept-Encoding"),
               *at = accepted ? strstr(accepted, "gzip") : NULL;
    if (!at) return false;
    at += strlen("gzip");
    at += strspn(at, " ");
    if (*at != ';') return true;
    at = strstr(at, "q=");
    return !at || strtod(at + 2, NULL) > 0;
}

static enum MHD_Result page(serve_exchange *x) {
    const serve_page_file *f = serve_page_find(x->path);
    if (!f) {
        serve_refuse(&x->problem, 404, NULL, NULL, "there is no %.100s here", x->path);
        return serve_reply_problem(x, &x->problem);
    }
    bool packed = f->packed && takes_gzip(x);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        packed ? f->n_packed : f->n_bytes, (void *)(uintptr_t)(packed ? f->packed : f->data),
        MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    if (packed) MHD_add_response_header(r, "Content-Encoding", "gzip");
    if (f->packed) MHD_add_response_header(r, "Vary", "Accept-Encoding");
    MHD_add_response_header(r, "Content-Type", serve_page_type(f));
    MHD_add_response_header(r, "Content-Security-Policy", PAGE_POLICY);
    MHD_add_response_header(r, "Permissions-Policy", "camera=(self), microphone=(), geolocation=()");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    serve_metrics_reply(x->server->metrics, 200);
    return serve_reply_response(x, r, 200);
}

static enum MHD_Result preflight(serve_exchange *x) {
    const char *allowed = x->server->config->cors_origin;
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    if (allowed) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", allowed);
        MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        MHD_add_response_header(r, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, Anthropic-Version");
        MHD_add_response_header(r, "Access-Control-Max-Age", "600");
        MHD_add_response_header(r, "Vary", "Origin");
    }
    x->status = allowed ? 204 : 405;
    enum MHD_Result ok = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return ok;
}

static const serve_route routes[] = {
    {.method = "POST", .path = "/v1/chat/completions", .takes_body = true, .api = SERVE_API_CHAT},
    {.method = "POST", .path = "/v1/completions", .takes_body = true},
    {.method = "POST", .path = "/v1/embeddings", .takes_body = true, .api = SERVE_API_EMBEDDINGS},
    {.method = "POST", .path = "/v1/score", .takes_body = true, .api = SERVE_API_SCORE},
    {.method = "POST", .path = "/score", .takes_body = true, .api = SERVE_API_SCORE},
    {.method = "POST", .path = "/v1/rerank", .takes_body = true, .api = SERVE_API_RERANK},
    {.method = "POST", .path = "/v2/rerank", .takes_body = true, .api = SERVE_API_RERANK},
    {.method = "POST", .path = "/rerank", .takes_body = true, .api = SERVE_API_RERANK},
    {.method = "POST", .path = "/v1/responses", .takes_body = true, .api = SERVE_API_RESPONSES},
    {.method = "POST", .path = "/v1/messages", .takes_body = true, .api = SERVE_API_MESSAGES},
    {.method = "POST",
     .path = "/v1/messages/count_tokens",
     .takes_body = true,
     .api = SERVE_API_MESSAGES,
     .task = SERVE_COUNT_TOKENS},
    {.method = "POST",
     .path = "/tokenize",
     .takes_body = true,
     .api = SERVE_API_CHAT,
     .task = SERVE_TOKENIZE},
    {.method = "POST",
     .path = "/detokenize",
     .takes_body = true,
     .api = SERVE_API_CHAT,
     .task = SERVE_DETOKENIZE},
    {.method = "GET", .path = "/v1/models", .run = models},
    {.method = "GET", .path = "/v1/models/*", .run = model},
    {.method = "POST",
     .path = "/v1/files",
     .takes_body = true,
     .takes_upload = true,
     .run = serve_files_finish},
    {.method = "GET", .path = "/v1/files", .run = serve_files_list},
    {.method = "GET", .path = "/v1/files/*", .run = serve_files_get},
    {.method = "DELETE", .path = "/v1/files/*", .run = serve_files_delete},
    {.method = "GET", .path = "/health", .open = true, .run = health},
    {.method = "GET", .path = "/version", .open = true, .run = version},
    {.method = "GET", .path = "/metrics", .open = true, .run = metrics},
    {.method = "GET", .path = "/", .open = true, .run = page},
    {.method = "GET", .path = "/page/*", .open = true, .run = page},
    {.method = "OPTIONS", .path = "/*", .open = true, .run = preflight},
};

static bool matches(const char *pattern, const char *path) {
    size_t n = strlen(pattern);
    if (pattern[n - 1] != '*') return !strcmp(pattern, path);
    return !strncmp(pattern, path, n - 1);
}

void serve_route_methods(const char *path, char *text, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes && n < room; i++)
        if (matches(routes[i].path, path))
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "", routes[i].method);
}

const serve_route *serve_route_find(const char *method, const char *path, serve_problem *p) {
    bool other_method = false;
    const char *wanted = strcmp(method, "HEAD") ? method : "GET"; /* libmicrohttpd leaves the body out */
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!matches(routes[i].path, path)) continue;
        if (!strcmp(routes[i].method, wanted)) return &routes[i];
        other_method |= strcmp(routes[i].method, "OPTIONS") != 0;
    }
    if (other_method)
        serve_refuse(p, 405, NULL, NULL, "%.20s is not how %.100s is asked", method, path);
    else
        serve_refuse(p, 404, NULL, NULL, "there is no %.100s here", path);
    return NULL;
}
