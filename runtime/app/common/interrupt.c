#define _GNU_SOURCE
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sac_session *running; /* under the lock */
static atomic_bool pending;
static void (*called)(void); /* under the lock */

void interrupt_quit(void) {
    static const char text[] = "\r\033[Ksaccade: cancelled\n";
    const char *p = isatty(STDERR_FILENO) ? text : text + 4; /* without what clears a line */
    if (write(STDERR_FILENO, p, sizeof text - 1 - (size_t)(p - text)) < 0) _exit(130);
    _exit(130);
}

static void *wait_for_signals(void *set) {
    for (int signal_number; sigwait(set, &signal_number) == 0;) {
        pthread_mutex_lock(&lock);
        if (called) {
            called();
            called = NULL; /* the next one ends the command */
            pthread_mutex_unlock(&lock);
            continue;
        }
        if (!running || atomic_load(&pending)) interrupt_quit();
        atomic_store(&pending, true);
        sac_session_cancel(running);
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
