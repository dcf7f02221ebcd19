#define _GNU_SOURCE
#include "strict.h"

#include <stdint.h>
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

/* RFC 9110, section 5.6.2: what a name is made of. */
static bool is_token(const char *name) {
    return !name[strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

/* Does a line that begins with a blank follow the header? libmicrohttpd adds such a line to the name: "Content-Length:\r\n 2" becomes
 * "Content-Length2", and "Content: 2\r\n -Length" would be a length. The longer name lies in new memory behind the value, which else
 * follows its name. */
static bool is_folded(const char *name, const char *value) {
    return value && (uintptr_t)value <= (uintptr_t)name + strlen(name);
}

/* The server before this one may have read it as another header: "Content-Length : 5", "Content-Length\v: 5", "X: 1\rContent-Length: 5". */
static enum MHD_Result on_line(void *cls, enum MHD_ValueKind kind, const char *key, const char *value) {
    serve_problem *p = cls;
    (void)kind;
    if (!is_token(key))
        serve_refuse(p, 400, NULL, NULL, "the header name '%.40s' has a blank or a sign in it that no name has", key);
    else if (is_folded(key, value))
        serve_refuse(p, 400, NULL, NULL, "a header goes on in the next line, which is not taken: give it in one");
    else if (value && strchr(value, '\r'))
        serve_refuse(p, 400, NULL, NULL, "the header '%.40s' has a carriage return in its value", key);
    return p->status ? MHD_NO : MHD_YES;
}

static bool check_lines(serve_exchange *x) {
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, on_line, &x->problem);
    return !x->problem.status;
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
    if (!check_lines(x) || !check_length(x)) return false;
    if (transfer && strcasecmp(transfer, "chunked") != 0) /* after any other libmicrohttpd reads to the connection's end */
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
