#define _GNU_SOURCE
#include "trace_context.h"

#include <stddef.h>
#include <string.h>

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n bytes of lower-case digits. */
static bool read_hex(const char *text, uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int high = digit_of(text[2 * i]), low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0) return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t n) {
    while (n > 0 && !bytes[n - 1]) n--;
    return n == 0;
}

/* Version, trace, parent, flags: "00-<32>-<16>-<2>". Later versions may have more behind it. */
static bool read_parent(serve_trace_context *c, const char *text) {
    uint8_t version, flags;
    if (strnlen(text, 55) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    if (!read_hex(text, &version, 1) || !read_hex(text + 3, c->trace, sizeof c->trace) ||
        !read_hex(text + 36, c->parent, sizeof c->parent) || !read_hex(text + 53, &flags, 1))
        return false;
    if (version == 0xff || (text[55] && (version == 0 || text[55] != '-'))) return false;
    c->recorded = flags & 1;
    return !is_zero(c->trace, sizeof c->trace) && !is_zero(c->parent, sizeof c->parent);
}

/* One that is no plain text would not be taken by who gets it. */
static bool is_plain(const char *text) {
    while (*text >= ' ' && *text <= '~') text++;
    return !*text;
}

void serve_trace_context_read(serve_trace_context *c, const char *traceparent, const char *tracestate) {
    *c = (serve_trace_context){0};
    c->has_parent = traceparent && read_parent(c, traceparent);
    if (!c->has_parent) {
        *c = (serve_trace_context){.recorded = true};
        return;
    }
    if (tracestate && strlen(tracestate) < sizeof c->state && is_plain(tracestate)) strcpy(c->state, tracestate);
}
