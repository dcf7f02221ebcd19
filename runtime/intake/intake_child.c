#define _GNU_SOURCE
#include "image.h"
#include "intake_decoder.h"
#include "sampling.h"
#include "video.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---------------------------------------------------------------- giving up rights */

/* A limit that this process was started under may be stricter, and then it stays. */
static bool limit(int what, rlim_t value) {
    struct rlimit r;
    if (getrlimit((__rlimit_resource_t)what, &r) != 0) return false;
    if (value > r.rlim_max) value = r.rlim_max;
    r = (struct rlimit){value, value};
    return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

/* A sanitizer's shadow memory is larger than any limit. */
static bool set_limits(const intake_task *t) {
    bool ok = limit(RLIMIT_CPU, t->seconds + 1) && limit(RLIMIT_FSIZE, t->max_output_bytes) &&
              limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, 16);
    if (!SANITIZED) ok = ok && limit(RLIMIT_AS, t->max_memory_bytes) && limit(RLIMIT_NPROC, 0);
    alarm(t->seconds);
    return ok;
}

/* Reading, writing what is open, memory, time, and the end. No opening, no network, no processes, no signals
 * to others; a call that is not listed kills the child. */
static bool set_filter(void) {
    static const int allowed[] = {
        SCMP_SYS(read),         SCMP_SYS(pread64),
        SCMP_SYS(write),        SCMP_SYS(pwrite64),
        SCMP_SYS(writev),       SCMP_SYS(sendto),
        SCMP_SYS(lseek),        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),   SCMP_SYS(close),
        SCMP_SYS(munmap),       SCMP_SYS(mremap),
        SCMP_SYS(madvise),      SCMP_SYS(brk),
        SCMP_SYS(futex),        SCMP_SYS(clock_gettime),
        SCMP_SYS(gettimeofday), SCMP_SYS(getrandom),
        SCMP_SYS(sched_yield),  SCMP_SYS(getpid),
        SCMP_SYS(gettid),       SCMP_SYS(sched_getaffinity),
        SCMP_SYS(rt_sigreturn), SCMP_SYS(exit),
        SCMP_SYS(exit_group),   SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(sigaltstack),  SCMP_SYS(sysinfo), /* qsort asks how much memory there is */
    };
    scmp_filter_ctx f = seccomp_init(SANITIZED ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS);
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < sizeof allowed / sizeof *allowed; i++)
        ok = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
    /* No page becomes code. */
    static const int mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
    for (size_t i = 0; ok && i < sizeof mapping / sizeof *mapping; i++)
        ok = seccomp_rule_add(f, SCMP_ACT_ALLOW, mapping[i], 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) ==
             0;
    ok = ok && seccomp_load(f) == 0;
    if (f) seccomp_release(f);
    return ok;
}

/* ---------------------------------------------------------------- decoding */

typedef struct output {
    int fd;
    uint64_t room;
    const intake_task *task;
    intake_info *reply;
    uint8_t *row;
} output;

static sac_status fail(sac_error *err, sac_status s, const char *text) {
    err->status = s;
    snprintf(err->text, sizeof err->text, "%s", text);
    return s;
}

static bool write_all(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* One frame's pixels, as a BMP file has them. */
static sac_status put_picture(output *o, const sac_image *image, sac_error *err) {
    static const uint8_t head[INTAKE_BMP_HEAD];
    size_t row_bytes = intake_bmp_row_bytes(image->width);
    uint64_t bytes = intake_bmp_bytes(image->width, image->height);
    if (o->reply->n_frames && (image->width != o->reply->width || image->height != o->reply->height))
        return fail(err, SAC_UNSUPPORTED, "the frames of the video change their size");
    if (bytes > o->room)
        return fail(err, SAC_TOO_LONG, "the decoded frames take more memory than is allowed");
    o->room -= bytes;
    o->reply->width = image->width;
    o->reply->height = image->height;
    if (!o->row) o->row = calloc(1, row_bytes);
    if (!o->row) return fail(err, SAC_NO_MEMORY, "no memory for a row of pixels");
    bool ok = write_all(o->fd, head, sizeof head);
    for (int y = 0; ok && y < image->height; y++) {
        const uint8_t *from = image->rgb + (size_t)y * (size_t)image->width * 3;
        for (int x = 0; x < image->width; x++) {
            o->row[3 * x] = from[3 * x + 2];
            o->row[3 * x + 1] = from[3 * x + 1];
            o->row[3 * x + 2] = from[3 * x];
        }
        ok = write_all(o->fd, o->row, row_bytes);
    }
    o->reply->n_frames++;
    if (ok) return SAC_OK;
    return errno == EFBIG ? fail(err, SAC_IO, "the limit on the size of files leaves no room for its pixels")
                          : fail(err, SAC_NO_MEMORY, "no memory for decoded pixels");
}

static sac_status decode_picture(output *o, const uint8_t *bytes, size_t n, sac_error *err) {
    sac_image_limits limits = sac_image_limits_default();
    if (o->task->max_bytes) limits.max_bytes = o->task->max_bytes;
    if (o->task->max_pixels) limits.max_pixels = o->task->max_pixels;
    sac_image image = {0};
    sac_status st = sac_image_decode(&image, bytes, n, &limits, err);
    if (st == SAC_OK) st = put_picture(o, &image, err);
    sac_image_free(&image);
    o->reply->source_frames = 1;
    snprintf(o->reply->rule, sizeof o->reply->rule, "picture");
    return st;
}

/* Times go in front of nothing: they are sent after the reply. */
typedef struct video_output {
    output *out;
    double *times;
} video_output;

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    video_output *v = ctx;
    v->times[i] = time_s;
    return put_picture(v->out, frame, err);
}

static sac_video_limits video_limits(const intake_task *t) {
    sac_video_limits limits = sac_video_limits_default();
    limits.n_threads = 1;
    if (t->max_bytes) limits.max_bytes = t->max_bytes;
    if (t->max_pixels) limits.max_pixels = t->max_pixels;
    if (t->max_duration_s > 0) limits.max_duration_s = t->max_duration_s;
    return limits;
}

static sac_frame_request frame_request(const intake_task *t) {
    const sac_video_options *v = &t->video;
    return (sac_frame_request){.has_fps = v->fps != 0,
                               .fps = v->fps,
                               .has_num_frames = v->num_frames != 0,
                               .num_frames = v->num_frames,
                               .has_max_frames = true,
                               .max_frames = t->max_frames,
                               .has_max_pixels = v->max_pixels != 0,
                               .max_pixels = v->max_pixels,
                               .frame_pixels = t->frame_pixels};
}

static sac_status decode_video(output *o, const uint8_t *bytes, size_t n, double *times, sac_error *err) {
    const intake_task *t = o->task;
    sac_video_limits limits = video_limits(t);
    sac_frame_request request = frame_request(t);
    sac_video *video = NULL;
    sac_frame_plan plan = {0};
    sac_status st = sac_video_open_bytes(&video, bytes, n, &limits, err);
    if (st == SAC_OK) st = sac_video_plan(video, &request, &plan, err);
    if (st == SAC_OK && (plan.n_frames > t->max_frames || plan.n_frames > INTAKE_MAX_FRAMES))
        st = fail(err, SAC_TOO_LONG, "more frames than are allowed");
    video_output v = {o, times};
    if (st == SAC_OK)
        st = sac_video_read(video, &plan, t->video.no_rotate ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO, on_frame,
                            &v, NULL, err);
    o->reply->source_frames = plan.total_frames;
    o->reply->source_fps = plan.source_fps;
    o->reply->duration_s = plan.duration_s;
    memcpy(o->reply->rule, plan.text, sizeof o->reply->rule);
    return st;
}

static void say(int fd, const void *data, size_t n) {
    if (send(fd, data, n, MSG_NOSIGNAL) != (ssize_t)n) _exit(1);
}

static void refuse(int fd, sac_status status, const char *text) {
    intake_info r = {.status = status};
    snprintf(r.error, sizeof r.error, "%s", text);
    say(fd, &r, sizeof r);
    _exit(0);
}

/* A child's whole life. */
static void decode(int fd, const intake_task *t, int input, int pixels) {
    off_t n = lseek(input, 0, SEEK_END);
    if (n == 0) refuse(fd, SAC_BAD_FILE, "the file is empty");
    uint8_t *bytes = n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, input, 0) : MAP_FAILED;
    double *times = calloc(INTAKE_MAX_FRAMES, sizeof *times);
    if (bytes == MAP_FAILED || !times) refuse(fd, SAC_NO_MEMORY, "no memory for the file");
    close(input);
    if (!set_limits(t) || !set_filter()) refuse(fd, SAC_INTERNAL, "the decoder cannot be locked in");
    static intake_info reply;
    output o = {.fd = pixels, .room = t->max_output_bytes, .task = t, .reply = &reply};
    sac_error err = {0};
    sac_status st = t->is_video ? decode_video(&o, bytes, (size_t)n, times, &err)
                                : decode_picture(&o, bytes, (size_t)n, &err);
    reply.status = st;
    if (st != SAC_OK) memcpy(reply.error, err.text, sizeof reply.error);
    say(fd, &reply, sizeof reply);
    if (st == SAC_OK) say(fd, times, (size_t)reply.n_frames * sizeof *times);
    _exit(0);
}

/* ---------------------------------------------------------------- the helper */

/* A task and its three descriptors: the child's own socket, the input, the pixels. */
static ssize_t receive_task(int fd, intake_task *t, int fds[3]) {
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec v = {t, sizeof *t};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    if (n <= 0) return n;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (n != (ssize_t)sizeof *t || !c || c->cmsg_len != CMSG_LEN(3 * sizeof(int))) return -1;
    memcpy(fds, CMSG_DATA(c), 3 * sizeof(int));
    return n;
}

/* One task: a child for it. A failed fork closes the socket, which the server takes for a crash. */
static void run_task(int fd, const intake_task *t, const int fds[3]) {
    if (fork() == 0) {
        close(fd);
        signal(SIGCHLD, SIG_DFL);
        decode(fds[0], t, fds[1], fds[2]);
    }
    for (int i = 0; i < 3; i++) close(fds[i]);
}

int intake_child_run(int fd) {
    intake_task t;
    int fds[3];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    signal(SIGCHLD, SIG_IGN); /* children are not waited for: they leave nothing behind */
    signal(SIGINT, SIG_IGN);  /* Ctrl-C is the server's to handle */
    for (;;) {
        ssize_t n = receive_task(fd, &t, fds);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        run_task(fd, &t, fds);
    }
}
