/* spans.h - spans on their way to an OpenTelemetry collector, by OTLP over HTTP as JSON: a bounded queue, and a thread of its own that
 * posts what has come to the address that the operator named, and to no other. A request never waits for it: where the queue is
 * full, or the collector does not take a batch, spans are dropped and counted. */
#ifndef SERVE_SPANS_H
#define SERVE_SPANS_H

#include "metrics.h"
#include "span.h"

typedef struct serve_spans serve_spans;

/* url: "http://HOST:4318/v1/traces", as it is posted to; borrowed, as the metrics are. BAD_ARGUMENT: it is none of http or https. */
sac_status serve_spans_open(serve_spans **out, const char *url, serve_metrics *metrics, sac_error *err);
/* Posts what is left, for at most two seconds. NULL is fine. */
void serve_spans_close(serve_spans *s);

/* A request has ended. The span gets its id, and its trace's where it begins one. */
void serve_spans_add(serve_spans *s, const serve_span *span);

#endif
