#define _GNU_SOURCE
#include "problem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

bool serve_refuse(serve_problem *p, int status, const char *param, const char *code, const char *format,
                  ...) {
    *p = (serve_problem){.status = status, .code = code};
    if (param) snprintf(p->param, sizeof p->param, "%s", param);
    va_list args;
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    return false;
}

bool serve_refuse_status(serve_problem *p, sac_status status, const sac_error *err) {
    static const struct {
        sac_status status;
        int http;
        const char *code;
    } table[] = {
        {SAC_BAD_ARGUMENT, 400, NULL},
        {SAC_BAD_FILE, 400, "invalid_media"},
        {SAC_UNSUPPORTED, 400, "unsupported"},
        {SAC_NOT_FOUND, 404, NULL},
        {SAC_TOO_LONG, 400, "context_length_exceeded"},
        {SAC_NO_MEMORY, 503, "out_of_memory"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return serve_refuse(p, table[i].http, NULL, table[i].code, "%s", err->text);
    return serve_refuse(p, 500, NULL, NULL, "%s", err->text);
}

static const char *type_of(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 408: return "timeout_error";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static const char *anthropic_type_of(int status) {
    switch (status) {
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    default: return status == 500 ? "api_error" : type_of(status);
    }
}

/* A message may quote a stranger's bytes: what is not UTF-8 becomes '?'. */
static json_t *as_string(const char *text) {
    json_t *s = json_string(text);
    if (s) return s;
    char ascii[400];
    size_t n = 0;
    for (; text[n] && n < sizeof ascii - 1; n++) ascii[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
    ascii[n] = 0;
    return json_string(ascii);
}

char *serve_problem_json(const serve_problem *p, serve_api api) {
    json_t *message = as_string(p->message), *j;
    if (api == SERVE_API_MESSAGES)
        j = json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", anthropic_type_of(p->status),
                      "message", message);
    else
        j = json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", message, "type", type_of(p->status),
                      "param", p->param[0] ? as_string(p->param) : json_null(), "code", p->code);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return text;
}
