#include "job_end.h"
#include "media_store.h"
#include "metrics.h"
#include "request.h"
#include "trace.h"

#include <malloc.h>
#include <stdlib.h>

/* What a large tree of small pieces leaves behind is given back to the system: the heap would keep it for good. */
static void end_request(serve_server *s, serve_request *r) {
    enum { LARGE_TREE_BYTES = 4 << 20 };
    size_t n_tree = r->n_tree, n_room_bytes = r->n_room_bytes;
    serve_request_free(r);
    free(r);
    if (n_tree > LARGE_TREE_BYTES) malloc_trim(0);
    serve_server_return_room(s, n_room_bytes);
}

void serve_job_end(serve_job *j, const serve_problem *problem) {
    serve_request *r = j->request;
    j->request = NULL;
    serve_trace_free(j->trace);
    j->trace = NULL;
    if (r) {
        serve_media_release(r, j->server->media);
        end_request(j->server, r);
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
