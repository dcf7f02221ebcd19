#define _GNU_SOURCE
#include "intake_decoder.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

static bool start(intake_decoder *h) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
    char number[16];
    snprintf(number, sizeof number, "%d", 3);
    char *const arguments[] = {"saccade", "media-helper", number, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
    bool ok = posix_spawn(&h->pid, "/proc/self/exe", &actions, NULL, arguments, environ) == 0;
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

static bool send_task(int fd, const intake_task *t, const int fds[3]) {
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec v = {(void *)(uintptr_t)t, sizeof *t};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 3 * sizeof(int));
    return sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *t;
}

/* The helper itself may have been killed: it is started again, once. *generation: which one has the task. */
static bool hand_over(intake_decoder *h, const intake_task *t, const int fds[3], unsigned *generation) {
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

/* The next message of exactly n bytes, within the time; its end of the socket closing is the child's death.
 */
static bool receive(int fd, void *to, size_t n, double seconds, const atomic_bool *cancelled) {
    char *p = to;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (n) {
        struct pollfd f = {.fd = fd, .events = POLLIN};
        int ready = poll(&f, 1, 100);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (ready < 0 && errno != EINTR) return false;
        if ((double)(now.tv_sec - start.tv_sec) > seconds || (cancelled && atomic_load(cancelled)))
            return false;
        if (ready < 1) continue;
        ssize_t k = read(fd, p, n);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void put_u16(uint8_t *to, unsigned v) {
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

static void put_u32(uint8_t *to, uint32_t v) {
    put_u16(to, v & 0xffff);
    put_u16(to + 2, v >> 16);
}

/* BITMAPFILEHEADER and BITMAPINFOHEADER; a negative height means rows from the top. */
static void make_head(uint8_t head[INTAKE_BMP_HEAD], int width, int height) {
    memset(head, 0, INTAKE_BMP_HEAD);
    head[0] = 'B';
    head[1] = 'M';
    put_u32(head + 2, (uint32_t)intake_bmp_bytes(width, height));
    put_u32(head + 10, INTAKE_BMP_HEAD);
    put_u32(head + 14, 40);
    put_u32(head + 18, (uint32_t)width);
    put_u32(head + 22, (uint32_t)-height);
    put_u16(head + 26, 1);
    put_u16(head + 28, 24);
    put_u32(head + 34, (uint32_t)(intake_bmp_row_bytes(width) * (size_t)height));
}

/* Do the child's numbers make sense, and are the pixels there? */
static bool check(const intake_task *t, intake_info *r, int pixels, size_t *n_bytes) {
    struct stat st;
    r->rule[sizeof r->rule - 1] = 0;
    r->error[sizeof r->error - 1] = 0;
    if (r->width < 1 || r->height < 1) return false;
    if (t->max_pixels && (int64_t)r->width * r->height > t->max_pixels) return false;
    if (r->n_frames < 1 || r->n_frames > t->max_frames || r->n_frames > INTAKE_MAX_FRAMES) return false;
    *n_bytes = intake_bmp_bytes(r->width, r->height) * (size_t)r->n_frames;
    return *n_bytes <= t->max_output_bytes && fstat(pixels, &st) == 0 && (size_t)st.st_size == *n_bytes;
}

/* The heads are ours, and from here on nobody can change a byte. */
static bool take_pixels(intake_pixels *out, int pixels) {
    uint8_t head[INTAKE_BMP_HEAD];
    size_t each = intake_bmp_bytes(out->info.width, out->info.height);
    make_head(head, out->info.width, out->info.height);
    for (int64_t i = 0; i < out->info.n_frames; i++)
        if (pwrite(pixels, head, sizeof head, (off_t)((size_t)i * each)) != (ssize_t)sizeof head)
            return false;
    if (fcntl(pixels, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        return false;
    void *map = mmap(NULL, out->n_bytes, PROT_READ, MAP_PRIVATE, pixels, 0);
    if (map == MAP_FAILED) return false;
    out->map = map;
    return true;
}

static sac_status crash(bool *crashed, sac_error *err) {
    *crashed = true;
    return sac_fail(err, SAC_BAD_FILE, "decoding it failed, took too long or too much memory");
}

static sac_status converse(const intake_task *t, int fd, int pixels, const atomic_bool *cancelled,
                           intake_pixels *out, bool *crashed, sac_error *err) {
    intake_info *r = &out->info;
    double seconds = t->seconds + 2;
    if (!receive(fd, r, sizeof *r, seconds, cancelled)) return crash(crashed, err);
    r->error[sizeof r->error - 1] = 0;
    if (r->status != SAC_OK) return sac_fail(err, (sac_status)r->status, "%s", r->error);
    if (!check(t, r, pixels, &out->n_bytes)) return crash(crashed, err);
    size_t n = (size_t)r->n_frames * sizeof *out->times;
    out->times = calloc(1, n);
    if (!out->times) return sac_fail(err, SAC_NO_MEMORY, "no memory for its pixels");
    if (t->is_video && !receive(fd, out->times, n, seconds, cancelled)) return crash(crashed, err);
    return take_pixels(out, pixels) ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for its pixels");
}

static sac_status attempt(intake_decoder *h, const intake_task *task, int input, const atomic_bool *cancelled,
                          intake_pixels *out, bool *crashed, bool *again, sac_error *err) {
    unsigned generation = 0;
    int pair[2], pixels = intake_memory_file("saccade-pixels");
    *out = (intake_pixels){0};
    *crashed = *again = false;
    if (pixels < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        if (pixels >= 0) close(pixels);
        return sac_fail(err, SAC_NO_MEMORY, "no descriptors for decoding it");
    }
    int fds[3] = {pair[1], input, pixels};
    sac_status st = SAC_OK;
    if (!hand_over(h, task, fds, &generation))
        st = sac_fail(err, SAC_IO, "there is no process that decodes it now");
    close(pair[1]);
    if (st == SAC_OK) st = converse(task, pair[0], pixels, cancelled, out, crashed, err);
    close(pair[0]);
    close(pixels);
    if (st != SAC_OK) intake_pixels_free(out);
    *again = *crashed && !(cancelled && atomic_load(cancelled)) && helper_died(h, generation);
    return st;
}

sac_status intake_decode(intake_decoder *h, const intake_task *task, int input, const atomic_bool *cancelled,
                         intake_pixels *out, bool *crashed, sac_error *err) {
    bool again;
    sac_status st = attempt(h, task, input, cancelled, out, crashed, &again, err);
    return again ? attempt(h, task, input, cancelled, out, crashed, &again, err) : st;
}

const uint8_t *intake_pixels_frame(const intake_pixels *p, int64_t i, size_t *n_bytes) {
    *n_bytes = intake_bmp_bytes(p->info.width, p->info.height);
    return p->map + (size_t)i * *n_bytes;
}

void intake_pixels_free(intake_pixels *p) {
    if (p->map) munmap(p->map, p->n_bytes);
    free(p->times);
    *p = (intake_pixels){0};
}
