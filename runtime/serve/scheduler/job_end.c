#include "job_end.h"
#include "media_store.h"
#include "metrics.h"
#include "request.h"
#include "trace.h"

#include <stdlib.h>

void serve_job_end(serve_job *j, const serve_problem *problem) {
    serve_request *r = j->request;
    j->request = NULL;
    serve_trace_free(j->trace);
    j->trace = NULL;
    if (r) {
        serve_media_release(r, j->server->media);
        serve_request_free(r);
        free(r);
    }
    serve_server_dismiss(j->server, j, problem);
}

void serve_job_fail(serve_job *j, sac_status st, const sac_error *err) {
    serve_problem p = {0};
    serve_metrics *m = j->server->metrics;
    serve_server_note_failure(j->server, st, err);
    if (st == SAC_CANCELLED && atomic_load(&j->timed_out)) {
        serve_refuse(&p, 408, NULL, "timeout", "the request was not answered within %g s",
                     j->timeout_s > 0 ? j->timeout_s : j->server->config->timeout_s);
        serve_metrics_count(m, SERVE_COUNT_timed_out, 1);
    } else if (st == SAC_CANCELLED) {
        serve_refuse(&p, 503, NULL, "cancelled", "the request was cancelled");
        serve_metrics_count(m, SERVE_COUNT_cancelled, 1);
    } else {
        serve_refuse_status(&p, st, err);
    }
    if (st == SAC_CANCELLED) serve_metrics_success(m, "abort");
    serve_job_end(j, &p);
}
