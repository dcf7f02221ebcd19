/* trace_context.h - W3C Trace Context: which trace a request is part of, out of its headers traceparent and tracestate. */
#ifndef SERVE_TRACE_CONTEXT_H
#define SERVE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct serve_trace_context {
    uint8_t trace[16], parent[8];
    bool has_parent; /* otherwise the request begins a trace of its own */
    bool recorded;   /* whoever began it wants it to be kept; without a parent: true */
    char state[257]; /* tracestate, as it came; "" = none, or one that is too long */
} serve_trace_context;

/* Either may be NULL. A header that is malformed counts as none, as the specification wants. */
void serve_trace_context_read(serve_trace_context *c, const char *traceparent, const char *tracestate);

#endif
