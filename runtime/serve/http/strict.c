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

/* The server before this one may have read it as the header that it looks like: "Content-Length : 5". */
static enum MHD_Result on_name(void *cls, enum MHD_ValueKind kind, const char *key, const char *value) {
    const char **blank = cls;
    (void)kind, (void)value;
    if (!*key || strpbrk(key, " \t")) *blank = key;
    return MHD_YES;
}

static bool check_names(serve_exchange *x) {
    const char *blank = NULL;
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, on_name, &blank);
    return !blank || serve_refuse(&x->problem, 400, NULL, NULL, "the header name '%.40s' has a blank in it, or is none", blank);
}

/* Its end is where one of two headers says, and not every server chooses the same. */
static bool check_length(serve_exchange *x) {
    const char *names[] = {"Content-Length", "Transfer-Encoding"};
    if (!check_single(x, names[0]) || !check_single(x, names[1])) return false;
    return !serve_exchange_header(x, names[0]) || !serve_exchange_header(x, names[1]) ||
           serve_refuse(&x->problem, 400, NULL, NULL, "the request has both headers '%s' and '%s': give one", names[0], names[1]);
}

bool serve_strict_check(serve_exchange *x) {
    const char *transfer = serve_exchange_header(x, "Transfer-Encoding"),
               *content = serve_exchange_header(x, "Content-Encoding");
    x->end_unknown = true;
    if (!check_names(x) || !check_length(x)) return false;
    if (transfer && strcasecmp(transfer, "chunked") != 0 && strcasecmp(transfer, "identity") != 0)
        return serve_refuse(&x->problem, 501, NULL, NULL,
                            "the transfer encoding '%.40s' is not taken: chunked is", transfer);
    x->end_unknown = false;
    if (!check_single(x, "Host")) return false;
    if (content && content[0] && strcasecmp(content, "identity") != 0)
        return serve_refuse(&x->problem, 415, NULL, NULL,
                            "the content encoding '%.40s' is not taken: send the body as it is", content);
    return true;
}

size_t serve_strict_unescape(void *cls, struct MHD_Connection *connection, char *text) {
    (void)cls, (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}
