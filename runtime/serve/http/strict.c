#define _GNU_SOURCE
#include "strict.h"

#include <string.h>
#include <strings.h>

typedef struct count {
    const char *name;
    int n;
} count;

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *key, const char *value) {
    count *c = cls;
    (void)kind, (void)value;
    c->n += !strcasecmp(key, c->name);
    return MHD_YES;
}

static bool check_single(serve_exchange *x, const char *name) {
    count c = {.name = name};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, on_header, &c);
    return c.n < 2 ||
           serve_refuse(&x->problem, 400, NULL, NULL, "the request has %d headers '%s'", c.n, name);
}

bool serve_strict_check(serve_exchange *x) {
    const char *transfer = serve_exchange_header(x, "Transfer-Encoding"),
               *content = serve_exchange_header(x, "Content-Encoding");
    if (!check_single(x, "Content-Length") || !check_single(x, "Host")) return false;
    if (transfer && strcasecmp(transfer, "chunked") != 0 && strcasecmp(transfer, "identity") != 0)
        return serve_refuse(&x->problem, 501, NULL, NULL,
                            "the transfer encoding '%.40s' is not taken: chunked is", transfer);
    if (content && content[0] && strcasecmp(content, "identity") != 0)
        return serve_refuse(&x->problem, 415, NULL, NULL,
                            "the content encoding '%.40s' is not taken: send the body as it is", content);
    return true;
}

size_t serve_strict_unescape(void *cls, struct MHD_Connection *connection, char *text) {
    (void)cls, (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}
