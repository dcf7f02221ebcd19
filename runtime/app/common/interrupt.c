#define _GNU_SOURCE
#include "interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sac_session *running; /* under the lock */
static atomic_bool pending;
static void (*called)(void); /* under the lock */

static atomic_bool goes_on; /* what is ended goes on with the same command */

void interrupt_quit(void) {
    static const char plain[] = "\r\033[Ksaccade: cancelled\n",
                      kept[] = "\r\033[Ksaccade: cancelled; run again to go on\n";
    bool again = atomic_load(&goes_on);
    size_t first = isatty(STDERR_FILENO) ? 0 : 4,
           n = (again ? sizeof kept : sizeof plain) - 1; /* 4: what clears a line */
    if (write(STDERR_FILENO, (again ? kept : plain) + first, n - first) < 0) _exit(130);
    _exit(130);
}

void interrupt_goes_on(void) {
    atomic_store(&goes_on, true);
}

const char *interrupt_advice(void) {
    return atomic_load(&goes_on) ? "; run again to go on" : "";
}

/* What runs is asked between pieces of work, of which one may take seconds. */
static void tell_what_is_waited_for(void) {
    static const char text[] =
        "\r\033[KStopping after this frame, token or part of a layer; Ctrl-C again ends at once.\n";
    if (isatty(STDERR_FILENO) && write(STDERR_FILENO, text, sizeof text - 1) < 0) return;
}

static void *wait_for_signals(void *set) {
    const struct timespec soon = {.tv_nsec = 200000000};
    bool was_asked = false; /* just now; most often it has stopped before anybody wonders */
    for (;;) {
        int got = was_asked ? sigtimedwait(set, NULL, &soon) : sigwaitinfo(set, NULL);
        if (got < 0 && errno == EINTR) continue;
        pthread_mutex_lock(&lock);
        if (got < 0) {
            if (running && atomic_load(&pending)) tell_what_is_waited_for();
            was_asked = false;
            pthread_mutex_unlock(&lock);
            continue;
        }
        if (called) {
            called();
            called = NULL; /* the next one ends the command */
            pthread_mutex_unlock(&lock);
            continue;
        }
        if (!running || atomic_load(&pending)) interrupt_quit();
        atomic_store(&pending, true);
        sac_session_cancel(running);
        was_asked = true;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void interrupt_start(void) {
    static sigset_t set;
    struct sigaction had;
    if (sigaction(SIGINT, NULL, &had) == 0 && had.sa_handler == SIG_IGN) return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* threads started later inherit it */
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, wait_for_signals, &set) == 0)
        pthread_detach(watcher);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* Ctrl-C then ends the command, uncleanly */
}

void interrupt_call(void (*fn)(void)) {
    pthread_mutex_lock(&lock);
    called = fn;
    pthread_mutex_unlock(&lock);
}

void interrupt_begin(sac_session *s) {
    pthread_mutex_lock(&lock);
    running = s;
    atomic_store(&pending, false);
    pthread_mutex_unlock(&lock);
}

bool interrupt_end(void) {
    pthread_mutex_lock(&lock);
    running = NULL;
    bool came = atomic_load(&pending);
    pthread_mutex_unlock(&lock);
    return came;
}

bool interrupt_pending(void) {
    return atomic_load(&pending);
}
