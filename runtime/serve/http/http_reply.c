#include "exchange.h"
#include "metrics.h"
#include "origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *serve_exchange_header(const serve_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static void add_retry_after(const serve_exchange *x, struct MHD_Response *r) {
    enum { SOON_S = 2 };
    char text[16];
    snprintf(text, sizeof text, "%d", x->retry_after_s ? x->retry_after_s : SOON_S);
    MHD_add_response_header(r, "Retry-After", text);
}

static void add_headers(serve_exchange *x, struct MHD_Response *r, int status) {
    const char *origin = serve_origin_allowed(x->server->config, serve_exchange_header(x, "Origin"));
    if (origin) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
        MHD_add_response_header(r, "Vary", "Origin");
    }
    if (status == 429 || status == 503) add_retry_after(x, r);
    if (status == 401) MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (status == 405) MHD_add_response_header(r, "Allow", x->allow);
    if (x->end_unknown) MHD_add_response_header(r, "Connection", "close");
    if (x->job) MHD_add_response_header(r, "X-Request-Id", x->job->id);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
}

enum MHD_Result serve_reply_response(serve_exchange *x, struct MHD_Response *r, int status) {
    add_headers(x, r, status);
    x->status = status;
    enum MHD_Result ok = MHD_queue_response(x->connection, (unsigned)status, r);
    MHD_destroy_response(r);
    return ok;
}

enum MHD_Result serve_reply(serve_exchange *x, int status, const char *content_type, char *text, size_t n) {
    struct MHD_Response *r = text ? MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(r, "Content-Type", content_type);
    serve_metrics_reply(x->server->metrics, status);
    return serve_reply_response(x, r, status);
}

enum MHD_Result serve_reply_problem(serve_exchange *x, const serve_problem *p) {
    char *text = serve_problem_json(p, x->api);
    x->retry_after_s = p->retry_after_s;
    return serve_reply(x, p->status, "application/json", text, text ? strlen(text) : 0);
}

enum MHD_Result serve_reply_json(serve_exchange *x, int status, json_t *j) {
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return serve_reply(x, status, "application/json", text, text ? strlen(text) : 0);
}
