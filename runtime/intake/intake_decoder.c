#define _GNU_SOURCE
#include "intake_decoder.h"

#include "clock.h"
#include "intake_wire.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int intake_memory_file(const char *name) {
    return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

struct intake_decoder {
    pthread_mutex_t lock;
    int fd; /* -1 = not running */
    pid_t pid;
    unsigned generation; /* counts starts */
};

/* ---------------------------------------------------------------- the process */

/* Set in the helper's environment: a program whose main does not come to intake_child_run would start itself for ever. */
#define HELPER_MARK "SAC_MEDIA_HELPER"

static bool is_helper(void) {
    return getenv(HELPER_MARK) != NULL;
}

/* The environment and the mark; the array is the caller's, its strings are not. NULL without memory. */
static char **marked_environment(void) {
    static char mark[] = HELPER_MARK "=1";
    size_t n = 0;
    while (environ[n]) n++;
    char **marked = malloc((n + 2) * sizeof *marked);
    if (!marked) return NULL;
    memcpy(marked, environ, n * sizeof *marked);
    marked[n] = mark;
    marked[n + 1] = NULL;
    return marked;
}

static bool start(intake_decoder *h) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
    char number[16];
    snprintf(number, sizeof number, "%d", 3);
    char *const arguments[] = {"saccade", "media-helper", number, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
    char **environment = marked_environment();
    bool ok =
        environment && posix_spawn(&h->pid, "/proc/self/exe", &actions, NULL, arguments, environment) == 0;
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    h->fd = pair[0];
    h->generation++;
    if (!ok) {
        close(pair[0]);
        h->fd = -1;
    }
    return ok;
}

static void stop(intake_decoder *h) {
    if (h->fd < 0) return;
    close(h->fd); /* it ends when the socket does */
    h->fd = -1;
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

sac_status intake_decoder_open(intake_decoder **out, sac_error *err) {
    intake_decoder *h = *out = calloc(1, sizeof *h);
    if (!h) return sac_fail(err, SAC_NO_MEMORY, "no memory for the media helper");
    pthread_mutex_init(&h->lock, NULL);
    h->fd = -1;
    if (is_helper())
        return sac_fail(err, SAC_IO,
                        "a media helper decodes no media itself: the program's main has to begin with "
                        "intake_child_run when its first argument is media-helper");
    return start(h)
               ? SAC_OK
               : sac_fail(err, SAC_IO, "cannot start the process that decodes media: %s", strerror(errno));
}

void intake_decoder_close(intake_decoder *h) {
    if (!h) return;
    stop(h);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static bool send_task(int fd, const intake_task *t, const int fds[INTAKE_TASK_FDS]) {
    union {
        char bytes[CMSG_SPACE(INTAKE_TASK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec v = {(void *)(uintptr_t)t, sizeof *t};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(INTAKE_TASK_FDS * sizeof(int));
    memcpy(CMSG_DATA(c), fds, INTAKE_TASK_FDS * sizeof(int));
    return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *t;
}

/* The helper itself may have been killed: it is started again, once. *generation: which one has the task. */
static bool hand_over(intake_decoder *h, const intake_task *t, const int fds[INTAKE_TASK_FDS],
                      unsigned *generation) {
    pthread_mutex_lock(&h->lock);
    bool ok = h->fd >= 0 && send_task(h->fd, t, fds);
    if (!ok) {
        stop(h);
        ok = start(h) && send_task(h->fd, t, fds);
    }
    *generation = h->generation;
    pthread_mutex_unlock(&h->lock);
    return ok;
}

/* Was it the helper that died, with the task still in its hands? Then nothing was wrong with the task. The
 * kernel may close the task's socket a moment before the helper's own, so that is waited for. */
static bool helper_died(intake_decoder *h, unsigned generation) {
    pthread_mutex_lock(&h->lock);
    bool died = h->generation != generation;
    struct pollfd f = {.fd = h->fd, .events = POLLIN};
    if (!died && h->fd >= 0 && poll(&f, 1, 200) == 1 && (f.revents & (POLLHUP | POLLERR))) {
        stop(h);
        died = true;
    }
    pthread_mutex_unlock(&h->lock);
    return died;
}

/* ---------------------------------------------------------------- what a child says */

/* A child at its work, as this side sees it. */
typedef struct conversation {
    const intake_task *task;
    int fd;
    int64_t start_ns;
    const atomic_bool *cancelled;
    const intake_sink *sink;
    intake_info *info;
    uint8_t *rgb; /* a frame's; all are of one size */
    size_t n_bytes;
    bool has_offered;
    bool crashed;
} conversation;

/* The next n bytes, within the task's time; the child's end of the socket closing is its death. */
static bool receive(const conversation *c, void *to, size_t n) {
    char *p = to;
    while (n) {
        struct pollfd f = {.fd = c->fd, .events = POLLIN};
        int ready = poll(&f, 1, 100);
        if (ready < 0 && errno != EINTR) return false;
        if (sac_seconds_since(c->start_ns) > c->task->seconds + 2.0) return false;
        if (c->cancelled && atomic_load(c->cancelled)) return false;
        if (ready < 1) continue;
        ssize_t k = read(c->fd, p, n);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static sac_status crash(conversation *c, sac_error *err) {
    c->crashed = true;
    return sac_fail(err, SAC_BAD_FILE, "decoding it failed, took too long or too much memory");
}

/* Do the numbers of a frame make sense, and may there be one more? */
static bool is_good_frame(const conversation *c, const intake_head *h) {
    const intake_task *t = c->task;
    const intake_info *had = c->info;
    if (h->width < 1 || h->height < 1 || !isfinite(h->time_s)) return false;
    int64_t n_pixels = (int64_t)h->width * h->height;
    if (t->max_pixels && n_pixels > t->max_pixels) return false;
    if ((uint64_t)n_pixels > t->max_frame_bytes / 3) return false;
    if (had->n_frames >= t->max_frames || had->n_frames >= INTAKE_MAX_FRAMES) return false;
    return had->n_frames == 0 || (h->width == had->width && h->height == had->height);
}

static sac_status take_frame(conversation *c, const intake_head *h, sac_error *err) {
    intake_info *r = c->info;
    if (!is_good_frame(c, h)) return crash(c, err);
    if (!c->rgb) {
        c->n_bytes = (size_t)h->width * (size_t)h->height * 3;
        c->rgb = malloc(c->n_bytes);
        r->width = h->width;
        r->height = h->height;
    }
    if (!c->rgb) return sac_fail(err, SAC_NO_MEMORY, "no memory for its pixels");
    if (!receive(c, c->rgb, c->n_bytes)) return crash(c, err);
    intake_frame frame = {.index = r->n_frames++,
                          .n_chosen = h->n_chosen > 0 && h->n_chosen <= INTAKE_MAX_FRAMES ? h->n_chosen : 0,
                          .time_s = h->time_s,
                          .width = h->width,
                          .height = h->height,
                          .rgb = c->rgb};
    return c->sink->take(c->sink->ctx, &frame, err);
}

/* What a decoder may fail with: nothing that would end more than the work on its file. */
static bool is_failure_of_a_file(int32_t status) {
    return status == SAC_NO_MEMORY || status == SAC_BAD_ARGUMENT || status == SAC_BAD_FILE ||
           status == SAC_IO || status == SAC_UNSUPPORTED || status == SAC_TOO_LONG || status == SAC_INTERNAL;
}

static sac_status take_end(conversation *c, sac_error *err) {
    intake_info *r = c->info, end;
    if (!receive(c, &end, sizeof end)) return crash(c, err);
    end.rule[sizeof end.rule - 1] = 0;
    end.error[sizeof end.error - 1] = 0;
    if (end.status != SAC_OK)
        return is_failure_of_a_file(end.status) ? sac_fail(err, (sac_status)end.status, "%s", end.error)
                                                : crash(c, err);
    bool good = r->n_frames > 0 && end.n_frames == r->n_frames && end.source_frames >= 0 &&
                end.n_replaced >= 0 && isfinite(end.source_fps) && isfinite(end.duration_s);
    if (!good) return crash(c, err);
    end.width = r->width;
    end.height = r->height;
    *r = end;
    return SAC_OK;
}

/* The child offers to share, once, before its first frame. */
static sac_status answer_offer(conversation *c, const intake_head *h, sac_error *err) {
    const intake_task *t = c->task;
    bool may = !c->has_offered && !c->rgb && !t->n_shares && h->n_chosen > 1 && h->n_chosen <= t->max_shares;
    if (!may) return crash(c, err);
    c->has_offered = true;
    int32_t n = c->sink->share ? c->sink->share(c->sink->ctx, h->n_chosen) : 1;
    return send(c->fd, &n, sizeof n, MSG_NOSIGNAL) == (ssize_t)sizeof n ? SAC_OK : crash(c, err);
}

static sac_status converse(conversation *c, sac_error *err) {
    for (;;) {
        intake_head head;
        if (!receive(c, &head, sizeof head)) return crash(c, err);
        if (head.says == INTAKE_SAYS_SHARES) {
            SAC_TRY(answer_offer(c, &head, err));
            continue;
        }
        if (head.says == INTAKE_SAYS_END) return take_end(c, err);
        if (head.says != INTAKE_SAYS_FRAME) return crash(c, err);
        SAC_TRY(take_frame(c, &head, err));
    }
}

/* ---------------------------------------------------------------- one file */

/* The child goes when its lifeline is cut; so there are never more of them than threads that decode. */
static void wait_for_end(int fd) {
    const int patience_ms = 1000;
    struct pollfd f = {.fd = fd, .events = 0}; /* POLLHUP always counts */
    (void)!poll(&f, 1, patience_ms);
}

/* *generation: of the helper that has the task. */
static sac_status attempt(intake_decoder *h, conversation *c, int input, unsigned *generation,
                          sac_error *err) {
    int pair[2], lifeline[2];
    *c->info = (intake_info){0};
    c->has_offered = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return sac_fail(err, SAC_NO_MEMORY, "no descriptors for decoding it");
    if (pipe2(lifeline, O_CLOEXEC) != 0) {
        close(pair[0]);
        close(pair[1]);
        return sac_fail(err, SAC_NO_MEMORY, "no descriptors for decoding it");
    }
    int fds[INTAKE_TASK_FDS] = {pair[1], input, lifeline[0]};
    bool ok = hand_over(h, c->task, fds, generation);
    close(pair[1]);
    close(lifeline[0]);
    c->fd = pair[0];
    c->start_ns = sac_now_ns();
    sac_status st = ok ? converse(c, err) : sac_fail(err, SAC_IO, "there is no process that decodes it now");
    close(lifeline[1]);
    wait_for_end(pair[0]);
    close(pair[0]);
    free(c->rgb);
    c->rgb = NULL;
    return st;
}

sac_status intake_decode(intake_decoder *h, const intake_task *task, int input, const atomic_bool *cancelled,
                         const intake_sink *sink, intake_info *info, bool *crashed, sac_error *err) {
    conversation c = {.task = task, .cancelled = cancelled, .sink = sink, .info = info};
    unsigned generation = 0;
    sac_status st = attempt(h, &c, input, &generation, err);
    if (c.crashed && !(cancelled && atomic_load(cancelled)) && helper_died(h, generation)) {
        c.crashed = false;
        st = attempt(h, &c, input, &generation, err);
    }
    bool gone = cancelled && atomic_load(cancelled);
    *crashed = c.crashed && !gone;
    return c.crashed && gone ? sac_fail(err, SAC_CANCELLED, "nobody waits for it any more") : st;
}
