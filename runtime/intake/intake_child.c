#define _GNU_SOURCE
#include "intake_decoder.h"

#include "image.h"
#include "intake_wire.h"
#include "sampling.h"
#include "video.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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
static bool set_limits(const intake_task *t, bool threads) {
    bool ok = limit(RLIMIT_CPU, t->seconds + 1) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0) &&
              limit(RLIMIT_NOFILE, 16);
    if (!SANITIZED) ok = ok && limit(RLIMIT_AS, t->max_memory_bytes);
    if (!SANITIZED && !threads) ok = ok && limit(RLIMIT_NPROC, 0);
    alarm(t->seconds);
    return ok;
}

/* What pthread_create asks for. The flags must be a thread's and no more (no namespaces); where they lie in memory
 * (clone3), a filter cannot see them, and the C library then takes the other call. */
static bool allow_threads(scmp_filter_ctx f) {
    static const scmp_datum_t thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD,
                              usual = CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SETTLS |
                                      CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED;
    return seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, ~usual, thread)) == 0 &&
           seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0 &&
           seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(set_robust_list), 0) == 0 &&
           seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(rseq), 0) == 0;
}

/* Reading, writing what is open, memory, time, and the end. No opening, no network, no processes, no signals
 * to others; a call that is not listed kills the child. */
static bool set_filter(bool threads) {
    static const int allowed[] = {
        SCMP_SYS(read),
        SCMP_SYS(pread64),
        SCMP_SYS(write),
        SCMP_SYS(pwrite64),
        SCMP_SYS(writev),
        SCMP_SYS(sendto),
        SCMP_SYS(recvfrom),
        SCMP_SYS(lseek),
        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),
        SCMP_SYS(close),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(brk),
        SCMP_SYS(futex),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(getrandom),
        SCMP_SYS(sched_yield),
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(sched_getaffinity),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(sigaltstack),
        SCMP_SYS(sysinfo), /* qsort asks how much memory there is */
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
    if (threads) ok = ok && allow_threads(f);
    ok = ok && seccomp_load(f) == 0;
    if (f) seccomp_release(f);
    return ok;
}

/* ---------------------------------------------------------------- decoding */

typedef struct output {
    int fd; /* the child's end of the socket */
    const intake_task *task;
    intake_info *reply;
    int64_t n_chosen; /* frames that come; 0 = not known yet */
} output;

static sac_status fail(sac_error *err, sac_status s, const char *text) {
    err->status = s;
    snprintf(err->text, sizeof err->text, "%s", text);
    return s;
}

/* Nobody listens any more: then there is nothing left to do. */
static void say(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) _exit(1);
        p += k;
        n -= (size_t)k;
    }
}

static void say_end(int fd, const intake_info *reply) {
    say(fd, &(intake_head){.says = INTAKE_SAYS_END}, sizeof(intake_head));
    say(fd, reply, sizeof *reply);
}

static sac_status put_picture(output *o, double time_s, const sac_image *image, sac_error *err) {
    size_t n_bytes = (size_t)image->width * (size_t)image->height * 3;
    if (o->reply->n_frames && (image->width != o->reply->width || image->height != o->reply->height))
        return fail(err, SAC_UNSUPPORTED, "the frames of the video change their size");
    if (n_bytes > o->task->max_frame_bytes)
        return fail(err, SAC_TOO_LONG, "the decoded frames take more memory than is allowed");
    o->reply->width = image->width;
    o->reply->height = image->height;
    o->reply->n_frames++;
    intake_head head = {.says = INTAKE_SAYS_FRAME,
                        .width = image->width,
                        .height = image->height,
                        .n_chosen = (int32_t)o->n_chosen,
                        .time_s = time_s};
    say(o->fd, &head, sizeof head);
    say(o->fd, image->rgb, n_bytes);
    return SAC_OK;
}

static sac_status decode_picture(output *o, const uint8_t *bytes, size_t n, sac_error *err) {
    sac_image_limits limits = sac_image_limits_default();
    if (o->task->max_bytes) limits.max_bytes = o->task->max_bytes;
    if (o->task->max_pixels) limits.max_pixels = o->task->max_pixels;
    sac_image image = {0};
    sac_status st = sac_image_decode(&image, bytes, n, &limits, err);
    o->n_chosen = 1;
    if (st == SAC_OK) st = put_picture(o, 0, &image, err);
    sac_image_free(&image);
    o->reply->source_frames = 1;
    snprintf(o->reply->rule, sizeof o->reply->rule, "picture");
    return st;
}

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)i;
    return put_picture(ctx, time_s, frame, err);
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
                               .skip_s = v->skip_s,
                               .skip_most = v->max_frames,
                               .pace = (sac_frame_pace)v->pace,
                               .most_s = v->most_s,
                               .key_frames = v->key_frames,
                               .has_max_pixels = v->max_pixels != 0,
                               .max_pixels = v->max_pixels,
                               .frame_pixels = t->frame_pixels};
}

/* Which places of the plan are this child's. The first of several offers to share, and is told what was taken. */
static sac_status find_share(output *o, const sac_video *video, const sac_frame_plan *plan, int64_t *first,
                             int64_t *n, sac_error *err) {
    const intake_task *t = o->task;
    int64_t starts[INTAKE_MAX_SHARES + 1];
    int32_t most = t->max_shares < 1                   ? 1
                   : t->max_shares < INTAKE_MAX_SHARES ? t->max_shares
                                                       : INTAKE_MAX_SHARES;
    int32_t n_parts = sac_video_share(video, plan, most, starts), n_shares = t->n_shares ? t->n_shares : 1;
    if (!t->n_shares && n_parts > 1) {
        say(o->fd, &(intake_head){.says = INTAKE_SAYS_SHARES, .n_chosen = n_parts}, sizeof(intake_head));
        if (recv(o->fd, &n_shares, sizeof n_shares, MSG_WAITALL) != (ssize_t)sizeof n_shares) _exit(1);
    }
    if (n_shares < 1 || n_shares > n_parts || t->share < 0 || t->share >= n_shares)
        return fail(err, SAC_INTERNAL, "the video cannot be shared out like this");
    *first = starts[t->share * n_parts / n_shares];
    *n = starts[(t->share + 1) * n_parts / n_shares] - *first;
    return SAC_OK;
}

static sac_status read_share(output *o, sac_video *video, const sac_frame_plan *plan, sac_error *err) {
    int64_t first, n;
    SAC_TRY(find_share(o, video, plan, &first, &n, err));
    sac_frame_plan mine = *plan;
    mine.index += first;
    mine.time_s += first;
    mine.n_frames = n;
    sac_video_read_stats stats = {0};
    sac_status st = sac_video_read(video, &mine, o->task->video.no_rotate ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO,
                                   on_frame, o, &stats, err);
    o->reply->n_replaced = stats.n_replaced;
    return st;
}

static sac_status decode_video(output *o, const uint8_t *bytes, size_t n, sac_error *err) {
    const intake_task *t = o->task;
    sac_video_limits limits = video_limits(t);
    sac_frame_request request = frame_request(t);
    sac_video *video = NULL;
    sac_frame_plan plan = {0};
    sac_status st = sac_video_open_bytes(&video, bytes, n, &limits, err);
    if (st == SAC_OK) st = sac_video_plan(video, &request, &plan, err);
    if (st == SAC_OK && (plan.n_frames > t->max_frames || plan.n_frames > INTAKE_MAX_FRAMES))
        st = fail(err, SAC_TOO_LONG, "more frames than are allowed");
    o->n_chosen = st == SAC_OK ? plan.n_frames : 0;
    if (st == SAC_OK) st = read_share(o, video, &plan, err);
    o->reply->source_frames = plan.total_frames;
    o->reply->source_fps = plan.source_fps;
    o->reply->duration_s = plan.duration_s;
    memcpy(o->reply->rule, plan.text, sizeof o->reply->rule);
    return st;
}

static void refuse(int fd, sac_status status, const char *text) {
    intake_info r = {.status = status};
    snprintf(r.error, sizeof r.error, "%s", text);
    say_end(fd, &r);
    _exit(0);
}

/* The child ends when the pipe's other end is closed, whatever it is doing: the kernel then sends it SIGKILL. That end is
 * the server's alone, so this is also how the child ends with the server, however that ends. */
static bool hold_lifeline(int fd) {
    if (fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, SIGKILL) != 0 ||
        fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) != 0)
        return false;
    struct pollfd f = {.fd = fd, .events = POLLIN};
    return poll(&f, 1, 0) == 0; /* else it was closed before */
}

/* Libraries of pictures tell standard error what is wrong with a file, in many lines. A sanitizer's report stays. */
static void be_quiet(void) {
    int nowhere = SANITIZED ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) return;
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

static void *do_nothing(void *ctx) {
    return ctx;
}

/* A decoder that starts a thread for each processor it may use (dav1d) then starts none; and the C library has set its
 * signal handlers, as it does with the first thread. */
static void prepare_for_threads(void) {
    cpu_set_t one;
    int here = sched_getcpu();
    pthread_t first;
    if (here >= 0 && here < CPU_SETSIZE) {
        CPU_ZERO(&one);
        CPU_SET((size_t)here, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    if (!pthread_create(&first, NULL, do_nothing, NULL)) pthread_join(first, NULL);
}

/* A child's whole life. */
static void decode(const intake_task *t, const int fds[INTAKE_TASK_FDS]) {
    int fd = fds[INTAKE_TASK_SOCKET], input = fds[INTAKE_TASK_INPUT];
    if (!hold_lifeline(fds[INTAKE_TASK_LIFELINE])) refuse(fd, SAC_INTERNAL, "the decoder cannot be held");
    off_t n = lseek(input, 0, SEEK_END);
    if (n == 0) refuse(fd, SAC_BAD_FILE, "the file is empty");
    uint8_t *bytes = n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, input, 0) : MAP_FAILED;
    if (bytes == MAP_FAILED) refuse(fd, SAC_NO_MEMORY, "no memory for the file");
    close(input);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 5); /* the model goes first */
    bool threads = !t->is_video && sac_image_prepare(bytes, (size_t)n);
    if (!t->is_video) be_quiet();
    if (threads) prepare_for_threads();
    if (!set_limits(t, threads) || !set_filter(threads))
        refuse(fd, SAC_INTERNAL, "the decoder cannot be locked in");
    static intake_info reply;
    output o = {.fd = fd, .task = t, .reply = &reply};
    sac_error err = {0};
    sac_status st =
        t->is_video ? decode_video(&o, bytes, (size_t)n, &err) : decode_picture(&o, bytes, (size_t)n, &err);
    reply.status = st;
    if (st != SAC_OK) memcpy(reply.error, err.text, sizeof reply.error);
    say_end(fd, &reply);
    _exit(0);
}

/* ---------------------------------------------------------------- the helper */

/* A task and its descriptors. */
static ssize_t receive_task(int fd, intake_task *t, int fds[INTAKE_TASK_FDS]) {
    union {
        char bytes[CMSG_SPACE(INTAKE_TASK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec v = {t, sizeof *t};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    if (n <= 0) return n;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (n != (ssize_t)sizeof *t || !c || c->cmsg_len != CMSG_LEN(INTAKE_TASK_FDS * sizeof(int))) return -1;
    memcpy(fds, CMSG_DATA(c), INTAKE_TASK_FDS * sizeof(int));
    return n;
}

/* Says so, as a child would; the socket is new and has room. */
static void say_no_fork(int fd) {
    struct {
        intake_head head;
        intake_info info;
    } end = {{.says = INTAKE_SAYS_END}, {.status = SAC_NO_MEMORY, .error = "no memory for a process that decodes it"}};
    (void)!send(fd, &end.head, sizeof end.head, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!send(fd, &end.info, sizeof end.info, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* One task: a child for it. */
static void run_task(int fd, const intake_task *t, const int fds[INTAKE_TASK_FDS]) {
    pid_t child = fork();
    if (child < 0) say_no_fork(fds[INTAKE_TASK_SOCKET]);
    if (child == 0) {
        close(fd);
        signal(SIGCHLD, SIG_DFL);
        decode(t, fds);
    }
    for (int i = 0; i < INTAKE_TASK_FDS; i++) close(fds[i]);
}

int intake_child_run(int fd) {
    intake_task t;
    int fds[INTAKE_TASK_FDS];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    signal(SIGCHLD, SIG_IGN); /* children are not waited for: they leave nothing behind */
    signal(SIGINT, SIG_IGN);  /* Ctrl-C is the server's to handle */
    signal(SIGXFSZ, SIG_IGN); /* children may not write to files: a log that is one stays as it is */
    for (;;) {
        ssize_t n = receive_task(fd, &t, fds);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        run_task(fd, &t, fds);
    }
}
