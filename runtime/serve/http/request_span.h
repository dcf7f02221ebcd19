/* request_span.h - the span that tracing gets of a request (telemetry/span.h). Without --otlp-traces-endpoint neither does anything. */
#ifndef SERVE_REQUEST_SPAN_H
#define SERVE_REQUEST_SPAN_H

#include "exchange.h"

/* Which trace it is part of, while its headers are there. */
void serve_request_span_begin(serve_exchange *x);
/* It has ended, as serve_request_log_write says. */
void serve_request_span_end(const serve_exchange *x, bool left);

#endif
