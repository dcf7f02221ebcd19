/* span.h - what OpenTelemetry is told of a request: one span, with vLLM's names of attributes. */
#ifndef SERVE_SPAN_H
#define SERVE_SPAN_H

#include "job.h"
#include "trace_context.h"

#include <jansson.h>

/* Times are Unix time in nanoseconds, durations seconds. */
typedef struct serve_span {
    serve_trace_context context; /* the trace is filled where there is no parent */
    uint8_t id[8];
    int64_t start_ns, end_ns;
    const char *method, *route; /* texts that stay */
    int http_status;
    bool failed;         /* of the server: of a reply of 5xx, or what failed within a stream */
    bool left;           /* the client had gone before the end */
    char error[64];      /* "" = none */
    char request_id[48]; /* "" = nothing was run, as with the next ones */
    char model[128];
    bool stream;
    serve_tally tally;
    int64_t arrived_ns; /* by the clock of the tally's times */
} serve_span;

/* {"traceId", ...} of OTLP's JSON; NULL without memory. */
json_t *serve_span_json(const serve_span *s);
/* What is posted of n spans: an ExportTraceServiceRequest. NULL without memory. */
char *serve_spans_json(const serve_span *spans, size_t n);

#endif
