#define _GNU_SOURCE
/* The process that decodes, and this side of it: frames arrive whole, and no lie of a child gets past the checks.
 * This program is the helper process, too: the honest one, or one that tells the lie named by $LIE. */
#include "image.h"
#include "intake_decoder.h"
#include "intake_media.h"
#include "intake_wire.h"
#include "prepared.h"
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define PICTURE    "samples/picture0000.png"
#define VIDEO      "samples/video0000_16.mp4"
#define LONG_VIDEO "samples/video0002_256.mp4"

/* ---------------------------------------------------------------- a helper that lies */

enum { SIDE = 4, MOST_FRAMES = 3, MOST_PIXELS = 10000, MOST_BYTES = 31000, MOST_SHARES = 4 };

static void say(int fd, const void *data, size_t n) {
    if (send(fd, data, n, MSG_NOSIGNAL) != (ssize_t)n) _exit(1);
}

static void say_head(int fd, int width, int height, double time_s) {
    intake_head head = {
        .says = INTAKE_SAYS_FRAME, .width = width, .height = height, .n_chosen = -7, .time_s = time_s};
    say(fd, &head, sizeof head);
}

/* With all its pixels, so that the head is its only fault. */
static void say_frame(int fd, int width, int height, double time_s) {
    static const uint8_t rgb[MOST_BYTES * 2];
    int64_t n = (int64_t)width * height * 3;
    say_head(fd, width, height, time_s);
    if (n <= (int64_t)sizeof rgb) say(fd, rgb, (size_t)n);
}

static void say_end(int fd, intake_info end) {
    say(fd, &(intake_head){.says = INTAKE_SAYS_END}, sizeof(intake_head));
    say(fd, &end, sizeof end);
}

static void say_text(int fd, int status) {
    intake_info end = {.status = status, .n_frames = 1};
    memset(end.error, 'x', sizeof end.error); /* none of them ends */
    memset(end.rule, 'x', sizeof end.rule);
    say_frame(fd, SIDE, SIDE, 0);
    say_end(fd, end);
}

typedef void (*lie_fn)(int fd);
static void silent(int fd) {
    (void)fd;
}
static void half_a_head(int fd) {
    say(fd, &(intake_head){.says = INTAKE_SAYS_FRAME}, sizeof(intake_head) / 2);
}
static void says_nothing_known(int fd) {
    say(fd, &(intake_head){.says = 3, .width = SIDE, .height = SIDE}, sizeof(intake_head));
    say(fd, (uint8_t[SIDE * SIDE * 3]){0}, SIDE * SIDE * 3);
    say_end(fd, (intake_info){.n_frames = 1});
}
static void only_frame(int fd, int width, int height, double time_s) {
    say_frame(fd, width, height, time_s);
    say_end(fd, (intake_info){.n_frames = 1});
}
static void no_width(int fd) {
    only_frame(fd, 0, SIDE, 0);
}
static void below_nothing(int fd) {
    only_frame(fd, -SIDE, -SIDE, 0);
}
static void huge(int fd) {
    only_frame(fd, INT32_MAX, INT32_MAX, 0);
}
static void too_many_pixels(int fd) {
    only_frame(fd, MOST_PIXELS + 1, 1, 0);
}
static void too_many_bytes(int fd) {
    only_frame(fd, MOST_BYTES / 3 + 1, 1, 0);
}
static void another_size(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    say_head(fd, SIDE, SIDE - 1, 1);
    say(fd, (uint8_t[SIDE * SIDE * 3]){0}, SIDE * SIDE * 3);
    say_end(fd, (intake_info){.n_frames = 2});
}
static void too_many_frames(int fd) {
    for (int i = 0; i <= MOST_FRAMES; i++) say_frame(fd, SIDE, SIDE, i);
    say_end(fd, (intake_info){.n_frames = MOST_FRAMES + 1});
}
static void no_time(int fd) {
    only_frame(fd, SIDE, SIDE, NAN);
}
static void half_a_frame(int fd) {
    say_head(fd, SIDE, SIDE, 0);
    say(fd, (uint8_t[SIDE]){0}, SIDE);
}
static void no_end(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
}
static void nothing_decoded(int fd) {
    say_end(fd, (intake_info){.n_frames = 0});
}
static void more_than_were_sent(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    say_end(fd, (intake_info){.n_frames = 2});
}
static void negative_source(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    say_end(fd, (intake_info){.n_frames = 1, .source_frames = -1});
}
static void no_rate(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    say_end(fd, (intake_info){.n_frames = 1, .source_fps = INFINITY});
}
static void cancels(int fd) {
    say_text(fd, SAC_CANCELLED);
}
static void breaks_the_device(int fd) {
    say_text(fd, SAC_DEVICE);
}
static void fails_unheard_of(int fd) {
    say_text(fd, 77);
}
static void hangs(int fd) {
    char end;
    say_frame(fd, SIDE, SIDE, 0);
    (void)!read(fd, &end, 1); /* until nobody listens any more */
}
static void offer(int fd, int n) {
    say(fd, &(intake_head){.says = INTAKE_SAYS_SHARES, .n_chosen = n}, sizeof(intake_head));
}
static void offers_unasked(int fd) {
    offer(fd, 2);
    only_frame(fd, SIDE, SIDE, 0);
}
static void offers_too_many(int fd) {
    offer(fd, MOST_SHARES + 1);
    only_frame(fd, SIDE, SIDE, 0);
}
static void offers_of_a_part(int fd) {
    offer(fd, 2);
    only_frame(fd, SIDE, SIDE, 0);
}
static void offers_none(int fd) {
    offer(fd, 0);
    only_frame(fd, SIDE, SIDE, 0);
}
static void offers_twice(int fd) {
    offer(fd, 2);
    offer(fd, 2);
    only_frame(fd, SIDE, SIDE, 0);
}
static void offers_late(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    offer(fd, 2);
    say_end(fd, (intake_info){.n_frames = 1});
}
static void replaced_less_than_none(int fd) {
    say_frame(fd, SIDE, SIDE, 0);
    say_end(fd, (intake_info){.n_frames = 1, .n_replaced = -1});
}
/* Not refused: */
static void endless_rule(int fd) {
    say_text(fd, SAC_OK);
}
static void endless_error(int fd) {
    say_text(fd, SAC_BAD_FILE);
}
static void dies_once(int fd) {
    const char *mark = getenv("MARK");
    say_frame(fd, SIDE, SIDE, 0);
    if (access(mark, F_OK) != 0) {
        close(open(mark, O_CREAT | O_WRONLY, 0600));
        _exit(1);
    }
    say_frame(fd, SIDE, SIDE, 1);
    say_end(fd, (intake_info){.n_frames = 2});
}

/* The first N_LIES are to be taken for crashes. */
static const struct {
    const char *name;
    lie_fn tell;
} lies[] = {
#define LIE(f)                                                                                               \
    { #f, f }
    LIE(silent),
    LIE(half_a_head),
    LIE(says_nothing_known),
    LIE(no_width),
    LIE(below_nothing),
    LIE(huge),
    LIE(too_many_pixels),
    LIE(too_many_bytes),
    LIE(another_size),
    LIE(too_many_frames),
    LIE(no_time),
    LIE(half_a_frame),
    LIE(no_end),
    LIE(nothing_decoded),
    LIE(more_than_were_sent),
    LIE(negative_source),
    LIE(no_rate),
    LIE(cancels),
    LIE(breaks_the_device),
    LIE(fails_unheard_of),
    LIE(hangs),
    LIE(offers_unasked),
    LIE(offers_too_many),
    LIE(offers_of_a_part),
    LIE(offers_none),
    LIE(offers_twice),
    LIE(offers_late),
    LIE(replaced_less_than_none),
    LIE(endless_rule),
    LIE(endless_error),
    LIE(dies_once),
#undef LIE
};
enum { N_LIES = 28, N_ALL = sizeof lies / sizeof *lies };

static int receive_socket(int fd) {
    union {
        char bytes[CMSG_SPACE(INTAKE_TASK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    intake_task task;
    int fds[INTAKE_TASK_FDS];
    struct iovec v = {&task, sizeof task};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (recvmsg(fd, &m, MSG_CMSG_CLOEXEC) <= 0) _exit(0);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fds);
    close(fds[INTAKE_TASK_INPUT]);
    close(fds[INTAKE_TASK_LIFELINE]);
    return fds[INTAKE_TASK_SOCKET];
}

static int run_helper(int fd) {
    const char *name = getenv("LIE");
    if (!name) return intake_child_run(fd);
    for (;;) {
        int socket = receive_socket(fd);
        for (size_t i = 0; i < N_ALL; i++)
            if (!strcmp(lies[i].name, name)) lies[i].tell(socket);
        close(socket);
    }
}

/* ---------------------------------------------------------------- this side */

typedef struct taken {
    int64_t n, n_restarts;
    int fail_at; /* 0 = never */
    double last_s;
    int64_t n_chosen;
    sac_image first;
} taken;

static sac_status take(void *ctx, const intake_frame *f, sac_error *err) {
    taken *t = ctx;
    if (f->index == 0) {
        t->n_restarts++;
        t->n = 0;
        size_t n_bytes = (size_t)f->width * (size_t)f->height * 3;
        sac_image_free(&t->first);
        t->first = (sac_image){malloc(n_bytes), f->width, f->height};
        memcpy(t->first.rgb, f->rgb, n_bytes);
    }
    assert_int_equal(f->index, t->n);
    t->n++;
    t->last_s = f->time_s;
    t->n_chosen = f->n_chosen;
    assert_in_range(f->n_chosen, 0, INTAKE_MAX_FRAMES);
    if (t->n != t->fail_at) return SAC_OK;
    err->status = SAC_UNSUPPORTED;
    snprintf(err->text, sizeof err->text, "enough");
    return SAC_UNSUPPORTED;
}

static intake_task usual_task(void) {
    return (intake_task){.is_video = true,
                         .max_frames = MOST_FRAMES,
                         .max_pixels = MOST_PIXELS,
                         .max_frame_bytes = MOST_BYTES,
                         .max_memory_bytes = (uint64_t)3 << 29,
                         .seconds = 60};
}

static sac_status decode(const intake_task *task, const char *path, const atomic_bool *cancelled, taken *t,
                         intake_info *info, bool *crashed, sac_error *err) {
    intake_decoder *d;
    intake_sink sink = {.ctx = t, .take = take};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    *err = (sac_error){0};
    assert_int_equal(intake_decoder_open(&d, err), SAC_OK);
    sac_status st = intake_decode(d, task, fd, cancelled, &sink, info, crashed, err);
    intake_decoder_close(d);
    close(fd);
    return st;
}

static void no_lie_is_believed(void **state) {
    (void)state;
    for (size_t i = 0; i < N_LIES; i++) {
        taken t = {0};
        intake_info info;
        bool crashed;
        sac_error err;
        intake_task task = usual_task();
        if (!strcmp(lies[i].name, "hangs")) task.seconds = 0;
        if (!strcmp(lies[i].name, "too_many_bytes")) task.max_pixels = 0;
        if (strcmp(lies[i].name, "offers_unasked")) task.max_shares = MOST_SHARES;
        if (!strcmp(lies[i].name, "offers_of_a_part")) task.n_shares = 2;
        setenv("LIE", lies[i].name, 1);
        sac_status st = decode(&task, PICTURE, NULL, &t, &info, &crashed, &err);
        if (st != SAC_BAD_FILE || !crashed || !strstr(err.text, "decoding it failed"))
            fail_msg("%s: %d, %s", lies[i].name, st, err.text);
        assert_true(t.n <= MOST_FRAMES);
        sac_image_free(&t.first);
    }
    unsetenv("LIE");
}

static void texts_without_an_end_are_cut(void **state) {
    (void)state;
    taken t = {0};
    intake_info info;
    bool crashed;
    sac_error err;
    intake_task task = usual_task();
    setenv("LIE", "endless_rule", 1);
    assert_int_equal(decode(&task, PICTURE, NULL, &t, &info, &crashed, &err), SAC_OK);
    assert_int_equal(strlen(info.rule), sizeof info.rule - 1);
    assert_int_equal(info.width, SIDE);
    setenv("LIE", "endless_error", 1);
    assert_int_equal(decode(&task, PICTURE, NULL, &t, &info, &crashed, &err), SAC_BAD_FILE);
    assert_false(crashed);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    sac_image_free(&t.first);
    unsetenv("LIE");
}

static void a_helper_that_dies_is_started_again(void **state) {
    (void)state;
    taken t = {0};
    intake_info info;
    bool crashed;
    sac_error err;
    intake_task task = usual_task();
    char mark[64];
    snprintf(mark, sizeof mark, "/tmp/saccade-intake-%d", (int)getpid());
    setenv("MARK", mark, 1);
    setenv("LIE", "dies_once", 1);
    assert_ok(decode(&task, PICTURE, NULL, &t, &info, &crashed, &err), err);
    unlink(mark);
    unsetenv("LIE");
    assert_false(crashed);
    assert_int_equal(t.n_restarts, 2);
    assert_int_equal(t.n, 2);
    assert_int_equal(info.n_frames, 2);
    sac_image_free(&t.first);
}

static void *cancel_soon(void *flag) {
    usleep(50000);
    atomic_store((atomic_bool *)flag, true);
    return NULL;
}

static void a_wait_can_be_cancelled(void **state) {
    (void)state;
    taken t = {0};
    intake_info info;
    bool crashed;
    sac_error err;
    intake_task task = usual_task();
    atomic_bool cancelled = false;
    pthread_t thread;
    setenv("LIE", "hangs", 1);
    pthread_create(&thread, NULL, cancel_soon, &cancelled);
    assert_int_equal(decode(&task, PICTURE, &cancelled, &t, &info, &crashed, &err), SAC_CANCELLED);
    assert_false(crashed);
    pthread_join(thread, NULL);
    unsetenv("LIE");
    sac_image_free(&t.first);
}

/* ---------------------------------------------------------------- the honest child */

static intake_task honest_task(bool is_video) {
    intake_task task = usual_task();
    task.is_video = is_video;
    task.max_pixels = 0;
    task.max_frame_bytes = 1 << 24;
    task.max_frames = is_video ? 8 : 1;
    return task;
}

static void a_picture_arrives_whole(void **state) {
    (void)state;
    taken t = {0};
    intake_info info;
    bool crashed;
    sac_error err;
    sac_image want;
    intake_task task = honest_task(false);
    assert_ok(decode(&task, PICTURE, NULL, &t, &info, &crashed, &err), err);
    assert_ok(sac_image_open(&want, PICTURE, NULL, &err), err);
    assert_int_equal(t.n, 1);
    assert_int_equal(info.width, want.width);
    assert_int_equal(info.height, want.height);
    assert_int_equal(t.first.width, want.width);
    assert_memory_equal(t.first.rgb, want.rgb, (size_t)want.width * (size_t)want.height * 3);
    sac_image_free(&t.first);
    sac_image_free(&want);
}

static void a_video_arrives_frame_by_frame(void **state) {
    (void)state;
    taken t = {0};
    intake_info info;
    bool crashed;
    sac_error err;
    intake_task task = honest_task(true);
    assert_ok(decode(&task, VIDEO, NULL, &t, &info, &crashed, &err), err);
    assert_int_equal(t.n, 8);
    assert_int_equal(info.n_frames, 8);
    assert_int_equal(t.n_chosen, 8);
    assert_int_equal(info.source_frames, 16);
    assert_true(t.last_s > 0);
    t.fail_at = 3; /* who takes them may have enough */
    assert_int_equal(decode(&task, VIDEO, NULL, &t, &info, &crashed, &err), SAC_UNSUPPORTED);
    assert_string_equal(err.text, "enough");
    assert_false(crashed);
    task.max_frame_bytes = 1000;
    assert_int_equal(decode(&task, VIDEO, NULL, &t, &info, &crashed, &err), SAC_TOO_LONG);
    assert_int_equal(decode(&task, "README.md", NULL, &t, &info, &crashed, &err), SAC_BAD_FILE);
    assert_false(crashed);
    sac_image_free(&t.first);
}

static void frames_are_prepared_as_they_come(void **state) {
    (void)state;
    sac_model *model;
    intake_decoder *d;
    intake_media media;
    bool crashed;
    sac_error err;
    intake_task task = honest_task(true);
    assert_ok(sac_model_open(&model, "models/demo", NULL, &err), err);
    assert_ok(intake_decoder_open(&d, &err), err);
    int fd = open(VIDEO, O_RDONLY | O_CLOEXEC);
    intake_use use = {.model = model, .max_bytes = 1 << 24};
    assert_ok(intake_media_open(&media, d, &task, &use, fd, NULL, &crashed, &err), err);
    assert_int_equal(media.info.n_frames, 8);
    size_t n_bytes = 0;
    for (int i = 0; i < 8; i++) {
        n_bytes += sac_prepared_bytes(media.frames[i]);
        assert_true(i == 0 || media.times[i] > media.times[i - 1]);
    }
    assert_int_equal(media.n_bytes, n_bytes);
    intake_media_free(&media);
    intake_media_free(&media);
    use.max_bytes = n_bytes - 1;
    assert_int_equal(intake_media_open(&media, d, &task, &use, fd, NULL, &crashed, &err), SAC_TOO_LONG);
    assert_null(media.frames);
    assert_int_equal(media.info.n_frames, 0);
    close(fd);
    intake_decoder_close(d);
    sac_model_free(model);
}

typedef struct progress {
    int64_t n, n_wrong;
    const atomic_int *spare; /* NULL = none */
    int least_spare;
} progress;

static void on_progress(void *ctx, int64_t n_done, int64_t n_chosen) {
    progress *p = ctx;
    p->n_wrong += n_done != p->n + 1 || n_chosen != 200;
    p->n = n_done;
    if (p->spare && atomic_load(p->spare) < p->least_spare) p->least_spare = atomic_load(p->spare);
}

static bool same_frame(const sac_prepared *a, const sac_prepared *b) {
    return a->n_bytes == b->n_bytes && !memcmp(&a->digest, &b->digest, sizeof a->digest);
}

/* Several children give the frames and times of one, in order; all spare ones come back. */
static void parts_are_decoded_side_by_side(void **state) {
    (void)state;
    sac_model *model;
    intake_decoder *d;
    intake_media one, many;
    bool crashed;
    sac_error err;
    intake_task task = honest_task(true);
    task.max_frames = 200;
    assert_ok(sac_model_open(&model, "models/demo", NULL, &err), err);
    assert_ok(intake_decoder_open(&d, &err), err);
    int fd = open(LONG_VIDEO, O_RDONLY | O_CLOEXEC);
    progress told = {0};
    intake_use use = {.model = model, .max_bytes = 1 << 28, .progress = on_progress, .ctx = &told};
    assert_ok(intake_media_open(&one, d, &task, &use, fd, NULL, &crashed, &err), err);
    assert_int_equal(one.info.n_frames, 200);
    atomic_size_t in_flight = 0;
    for (int n_spare = -1; n_spare < 9; n_spare += 2) {
        atomic_int spare = n_spare;
        use.n_spare = &spare;
        told = (progress){.spare = &spare, .least_spare = n_spare};
        use.in_flight = &in_flight;
        use.max_in_flight = one.n_bytes;
        assert_ok(intake_media_open(&many, d, &task, &use, fd, NULL, &crashed, &err), err);
        assert_int_equal(atomic_load(&spare), n_spare);
        if (n_spare >= 3) assert_true(told.least_spare < n_spare - 1);
        assert_int_equal(atomic_exchange(&in_flight, 0), many.n_bytes);
        assert_int_equal(many.info.n_frames, 200);
        assert_string_equal(many.info.rule, one.info.rule);
        assert_int_equal(many.n_bytes, one.n_bytes);
        assert_int_equal(told.n, 200);
        assert_int_equal(told.n_wrong, 0);
        assert_memory_equal(many.times, one.times, 200 * sizeof *one.times);
        for (int i = 0; i < 200; i++) assert_true(same_frame(many.frames[i], one.frames[i]));
        intake_media_free(&many);
    }
    atomic_int spare = 4;
    use.n_spare = &spare;
    told = (progress){0};
    use.max_in_flight = one.n_bytes - 1;
    assert_int_equal(intake_media_open(&many, d, &task, &use, fd, NULL, &crashed, &err), SAC_IO);
    assert_int_equal(atomic_load(&in_flight), 0);
    assert_int_equal(atomic_load(&spare), 4);
    use.max_bytes = one.n_bytes - 1; /* all parts together */
    assert_int_equal(intake_media_open(&many, d, &task, &use, fd, NULL, &crashed, &err), SAC_TOO_LONG);
    assert_int_equal(atomic_load(&spare), 4);
    assert_null(many.frames);
    assert_int_equal(atomic_load(&in_flight), 0);
    atomic_bool cancelled = true;
    assert_int_equal(intake_media_open(&many, d, &task, &use, fd, &cancelled, &crashed, &err), SAC_CANCELLED);
    assert_int_equal(atomic_load(&spare), 4);
    intake_media_free(&one);
    close(fd);
    intake_decoder_close(d);
    sac_model_free(model);
}

/* Else a program whose main knows no helper would start itself again and again. */
static void a_helper_starts_no_helper(void **state) {
    (void)state;
    intake_decoder *d = NULL;
    sac_error err;
    setenv("SAC_MEDIA_HELPER", "1", 1);
    assert_int_equal(intake_decoder_open(&d, &err), SAC_IO);
    unsetenv("SAC_MEDIA_HELPER");
    assert_non_null(strstr(err.text, "intake_child_run"));
    intake_decoder_close(d);
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "media-helper")) return run_helper(atoi(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_lie_is_believed),
        cmocka_unit_test(texts_without_an_end_are_cut),
        cmocka_unit_test(a_helper_that_dies_is_started_again),
        cmocka_unit_test(a_helper_starts_no_helper),
        cmocka_unit_test(a_wait_can_be_cancelled),
        cmocka_unit_test(a_picture_arrives_whole),
        cmocka_unit_test(a_video_arrives_frame_by_frame),
        cmocka_unit_test(frames_are_prepared_as_they_come),
        cmocka_unit_test(parts_are_decoded_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
