/* Decode issues hundreds of small parallel regions a token, so a worker spins for some tens of microseconds
 * before it sleeps: waking through the kernel each time would cost more than the work. */
#define _GNU_SOURCE
#include "thread_pool.h"

#include "cpu_quota.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#ifndef SAC_SPIN_ROUNDS /* fewer where programs outnumber processors (CMakeLists.txt, tests/CMakeLists.txt) */
#define SAC_SPIN_ROUNDS 4000
#endif

struct sac_pool {
    int n_threads;
    pthread_t threads[SAC_MAX_THREADS];
    int n_started;
    pthread_mutex_t run_lock; /* one region at a time */
    pthread_mutex_t lock;     /* guards sleeping on `wake` */
    pthread_cond_t wake;
    _Atomic uint64_t generation; /* a change tells the workers that a new region began */
    atomic_bool quit;
    _Atomic int64_t next_task;
    atomic_int n_busy; /* workers that have not left the current region */
    int64_t n_tasks;
    sac_task_fn fn;
    void *ctx;
};

typedef struct worker_arg {
    sac_pool *pool;
    int thread;
} worker_arg;

static void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void work(sac_pool *p, int thread) {
    for (;;) {
        int64_t t = atomic_fetch_add_explicit(&p->next_task, 1, memory_order_relaxed);
        if (t >= p->n_tasks) return;
        p->fn(p->ctx, t, thread);
    }
}

static uint64_t await_generation(sac_pool *p, uint64_t seen) {
    for (int i = 0; i < SAC_SPIN_ROUNDS; i++) {
        uint64_t g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen) return g;
        cpu_relax();
    }
    pthread_mutex_lock(&p->lock);
    uint64_t g;
    while ((g = atomic_load(&p->generation)) == seen) pthread_cond_wait(&p->wake, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return g;
}

static void *worker(void *arg) {
    worker_arg *a = arg;
    sac_pool *p = a->pool;
    int thread = a->thread;
    free(a);
    uint64_t seen = 0;
    for (;;) {
        seen = await_generation(p, seen);
        if (atomic_load(&p->quit)) return NULL;
        work(p, thread);
        atomic_fetch_sub_explicit(&p->n_busy, 1, memory_order_release);
    }
}

static void next_generation(sac_pool *p) {
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static int usable_processors(void) {
    int n = sac_usable_processors();
    return n > SAC_MAX_THREADS ? SAC_MAX_THREADS : n;
}

sac_status sac_pool_create(sac_pool **out, int n_threads, sac_error *err) {
    *out = NULL;
    if (n_threads < 0 || n_threads > SAC_MAX_THREADS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%d threads: give 0 (all processors) to %d", n_threads,
                        SAC_MAX_THREADS);
    sac_pool *p = calloc(1, sizeof *p);
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for a thread pool");
    p->n_threads = n_threads ? n_threads : usable_processors();
    pthread_mutex_init(&p->run_lock, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (int i = 1; i < p->n_threads; i++) {
        worker_arg *a = malloc(sizeof *a);
        if (a) *a = (worker_arg){p, i};
        if (!a || pthread_create(&p->threads[i], NULL, worker, a) != 0) {
            free(a);
            sac_pool_free(p);
            return sac_fail(err, SAC_NO_MEMORY, "cannot start thread %d of %d", i, n_threads);
        }
        p->n_started++;
    }
    *out = p;
    return SAC_OK;
}

void sac_pool_free(sac_pool *p) {
    if (!p) return;
    atomic_store(&p->quit, true);
    next_generation(p);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->run_lock);
    free(p);
}

int sac_pool_n_threads(const sac_pool *p) {
    return p->n_threads;
}

void sac_pool_run(sac_pool *p, int64_t n_tasks, sac_task_fn fn, void *ctx) {
    if (n_tasks <= 0) return;
    if (p->n_threads == 1 || n_tasks == 1) {
        for (int64_t t = 0; t < n_tasks; t++) fn(ctx, t, 0);
        return;
    }
    pthread_mutex_lock(&p->run_lock);
    p->n_tasks = n_tasks;
    p->fn = fn;
    p->ctx = ctx;
    atomic_store_explicit(&p->next_task, 0, memory_order_relaxed);
    atomic_store_explicit(&p->n_busy, p->n_threads - 1, memory_order_relaxed);
    next_generation(p);
    work(p, 0);
    for (int i = 0; atomic_load_explicit(&p->n_busy, memory_order_acquire) > 0; i++) {
        cpu_relax();
        if (i > SAC_SPIN_ROUNDS) sched_yield(); /* a worker may need this processor */
    }
    pthread_mutex_unlock(&p->run_lock);
}
