/* job_end.h - how the threads that prepare and answer let go of a job: with its request, and what that holds. */
#ifndef SERVE_JOB_END_H
#define SERVE_JOB_END_H

#include "state.h"

/* The answer is whole, or problem says why there is none (NULL = none). The job may be gone afterwards. */
void serve_job_end(serve_job *j, const serve_problem *problem);

/* A job that ends without an answer, by a status of the library. */
void serve_job_fail(serve_job *j, sac_status st, const sac_error *err);

#endif
