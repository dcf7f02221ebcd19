/* thread_pool.h - the one pool of worker threads that every CPU op shares. */
#ifndef SAC_BASE_THREAD_POOL_H
#define SAC_BASE_THREAD_POOL_H

#include "status.h"

#include <stdint.h>

#define SAC_MAX_THREADS 256

typedef struct sac_pool sac_pool;

/* task in [0, n_tasks); thread in [0, sac_pool_n_threads): index of a per-thread scratch. */
typedef void (*sac_task_fn)(void *ctx, int64_t task, int thread);

/* n_threads counts the caller; 0 = one for each processor this process may use. */
sac_status sac_pool_create(sac_pool **out, int n_threads, sac_error *err);
void sac_pool_free(sac_pool *p); /* NULL is fine */
int sac_pool_n_threads(const sac_pool *p);

/* Runs fn for every task, in no set order, and returns when all are done; the caller works too. Tasks are
 * handed out one at a time, so uneven ones balance. Calls from several threads take turns; fn must not call
 * sac_pool_run itself. */
void sac_pool_run(sac_pool *p, int64_t n_tasks, sac_task_fn fn, void *ctx);

#endif
