#define _GNU_SOURCE
#include "intake_media.h"
#include "clock.h"
#include "image.h"
#include "status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct opening;

/* A share of the frames: a child's, which the caller's thread or one of its own listens to. */
typedef struct part {
    struct opening *whole;
    intake_task task;
    intake_media media;
    pthread_t thread;
    bool has_thread;
    bool ended; /* the thread has nothing left to do; under the lock */
    bool crashed;
    sac_status status;
    sac_error err;
} part;

typedef struct opening {
    intake_decoder *decoder;
    const intake_use *use;
    int input;
    bool is_frame;
    atomic_bool stop; /* a part has failed: the others need not go on */
    pthread_mutex_t lock;
    pthread_cond_t part_ended;
    size_t n_bytes; /* of all parts */
    int64_t n_done; /* frames, likewise */
    bool no_room; /* all calls together have prepared too much */
    int n_parts;
    part parts[INTAKE_MAX_SHARES];
} opening;

bool intake_can_read(const char *format) {
    return sac_image_can_read(format);
}

void intake_media_free(intake_media *m) {
    for (int64_t i = 0; i < m->info.n_frames; i++) sac_prepared_free(m->frames[i]);
    free(m->frames);
    free(m->times);
    *m = (intake_media){0};
}

/* ---------------------------------------------------------------- a frame */

static sac_status grow(intake_media *m, int64_t n_frames, sac_error *err) {
    if (n_frames <= m->capacity) return SAC_OK;
    size_t n = m->capacity ? (size_t)m->capacity * 2 : 16;
    if (n < (size_t)n_frames) n = (size_t)n_frames;
    sac_prepared **frames = realloc(m->frames, n * sizeof *frames);
    if (frames) m->frames = frames;
    double *times = realloc(m->times, n * sizeof *times);
    if (times) m->times = times;
    if (!frames || !times) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu frames", n);
    m->capacity = (int64_t)n;
    return SAC_OK;
}

/* Counts n_frames more frames (or fewer, when a child begins again) and tells how many there are. */
static bool count(opening *o, int64_t n_frames, int64_t n_bytes, int64_t n_chosen) {
    const intake_use *use = o->use;
    pthread_mutex_lock(&o->lock);
    o->n_done += n_frames;
    o->n_bytes += (size_t)n_bytes;
    bool fits = o->n_bytes <= use->max_bytes;
    if (use->in_flight) {
        size_t all = atomic_fetch_add(use->in_flight, (size_t)n_bytes) + (size_t)n_bytes;
        o->no_room |= n_bytes > 0 && all > use->max_in_flight;
    }
    if (use->progress && n_frames > 0) use->progress(use->ctx, o->n_done, n_chosen);
    pthread_mutex_unlock(&o->lock);
    return fits;
}

static bool lacks_room(opening *o) {
    pthread_mutex_lock(&o->lock);
    bool lacks = o->no_room;
    pthread_mutex_unlock(&o->lock);
    return lacks;
}

/* Nothing of it is kept. */
static void forget_bytes(opening *o) {
    if (o->use->in_flight) atomic_fetch_sub(o->use->in_flight, o->n_bytes);
    o->n_bytes = 0;
}

static sac_status take(void *ctx, const intake_frame *f, sac_error *err) {
    part *p = ctx;
    opening *o = p->whole;
    intake_media *m = &p->media;
    int64_t start_ns = sac_now_ns();
    if (atomic_load(&o->stop)) return sac_fail(err, SAC_CANCELLED, "another part of it has failed");
    if (f->index == 0 && m->info.n_frames) {
        count(o, -m->info.n_frames, -(int64_t)m->n_bytes, 0);
        intake_media_free(m);
    }
    SAC_TRY(grow(m, f->index + 1, err));
    sac_part pixels = {.kind = SAC_PART_PIXELS,
                       .pixels = {.width = f->width, .height = f->height, .rgb = f->rgb}};
    SAC_TRY(sac_prepared_create(&m->frames[f->index], o->use->model, &pixels, o->is_frame, err));
    size_t n_bytes = sac_prepared_bytes(m->frames[f->index]);
    m->times[f->index] = f->time_s;
    m->info.n_frames = f->index + 1;
    m->n_bytes += n_bytes;
    m->prepare_s += sac_seconds_since(start_ns);
    bool fits = count(o, 1, (int64_t)n_bytes, f->n_chosen);
    if (fits && lacks_room(o)) return sac_fail(err, SAC_IO, "no room for decoded media now");
    if (fits) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG, "the decoded frames take more memory than is allowed");
}

/* ---------------------------------------------------------------- parts side by side */

static int share(void *ctx, int n_most);

static void run_part(part *p, const atomic_bool *cancelled) {
    opening *o = p->whole;
    intake_sink sink = {.ctx = p, .take = take, .share = share};
    intake_info info;
    p->status = intake_decode(o->decoder, &p->task, o->input, cancelled, &sink, &info, &p->crashed, &p->err);
    if (p->status == SAC_OK)
        p->media.info = info;
    else
        atomic_store(&o->stop, true);
}

static void *run_thread(void *ctx) {
    part *p = ctx;
    opening *o = p->whole;
    run_part(p, &o->stop);
    pthread_mutex_lock(&o->lock);
    p->ended = true;
    pthread_cond_broadcast(&o->part_ended);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static bool take_spare(atomic_int *n_spare) {
    int n = atomic_load(n_spare);
    while (n > 0)
        if (atomic_compare_exchange_weak(n_spare, &n, n - 1)) return true;
    return false;
}

/* Starts the other parts while the first one's child waits. */
static int share(void *ctx, int n_most) {
    part *first = ctx;
    opening *o = first->whole;
    if (o->n_parts > 1) return o->n_parts; /* the first one's helper died, and it begins again */
    int n = 1;
    while (n < n_most && take_spare(o->use->n_spare)) n++;
    for (int k = 1; k < n; k++) {
        part *p = &o->parts[k];
        *p = (part){.whole = o, .task = first->task};
        p->task.share = k;
        p->task.n_shares = n;
        p->has_thread = pthread_create(&p->thread, NULL, run_thread, p) == 0;
    }
    return o->n_parts = n;
}

static void wait_a_moment(opening *o) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 50000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&o->part_ended, &o->lock, &t);
}

/* Waits for a part's thread; a part that got none is run now. */
static void finish_part(part *p, const atomic_bool *cancelled) {
    opening *o = p->whole;
    if (!p->has_thread) {
        if (atomic_load(&o->stop))
            p->status = sac_fail(&p->err, SAC_CANCELLED, "another part of it has failed");
        else
            run_part(p, cancelled);
        return;
    }
    pthread_mutex_lock(&o->lock);
    while (!p->ended) {
        if (cancelled && atomic_load(cancelled)) atomic_store(&o->stop, true);
        wait_a_moment(o);
    }
    pthread_mutex_unlock(&o->lock);
    pthread_join(p->thread, NULL);
}

/* Do the parts tell of one video? */
static bool agree(const intake_info *a, const intake_info *b) {
    return a->width == b->width && a->height == b->height && a->source_frames == b->source_frames &&
           a->source_fps == b->source_fps && a->duration_s == b->duration_s && !strcmp(a->rule, b->rule);
}

/* Moves a part's frames behind those of *out. */
static sac_status append(intake_media *out, intake_media *m, int64_t most, sac_error *err) {
    int64_t n = out->info.n_frames, more = m->info.n_frames;
    if (!agree(&out->info, &m->info) || more > most - n)
        return sac_fail(err, SAC_BAD_FILE, "its parts do not fit together");
    SAC_TRY(grow(out, n + more, err));
    memcpy(out->frames + n, m->frames, (size_t)more * sizeof *m->frames);
    memcpy(out->times + n, m->times, (size_t)more * sizeof *m->times);
    out->info.n_frames = n + more;
    out->info.n_replaced += m->info.n_replaced;
    out->n_bytes += m->n_bytes;
    out->prepare_s += m->prepare_s;
    m->info.n_frames = 0;
    return SAC_OK;
}

/* What the whole ends with: a part that only stopped because of another says nothing. */
static sac_status join(opening *o, intake_media *out, bool *crashed, sac_error *err) {
    const part *failed = NULL;
    for (int k = 0; k < o->n_parts; k++) {
        const part *p = &o->parts[k];
        if (p->status != SAC_OK && (!failed || failed->status == SAC_CANCELLED)) failed = p;
    }
    *crashed = failed && failed->crashed;
    if (failed) {
        *err = failed->err;
        return failed->status;
    }
    *out = o->parts[0].media;
    o->parts[0].media = (intake_media){0};
    for (int k = 1; k < o->n_parts; k++)
        SAC_TRY(append(out, &o->parts[k].media, o->parts[0].task.max_frames, err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- a file */

static sac_status open_once(opening *o, const intake_task *task, intake_media *out,
                            const atomic_bool *cancelled, bool *crashed, sac_error *err) {
    *out = (intake_media){0};
    o->n_parts = 1;
    o->n_bytes = 0;
    o->n_done = 0;
    atomic_store(&o->stop, false);
    o->parts[0] = (part){.whole = o, .task = *task};
    part *first = &o->parts[0];
    if (task->max_shares > 1) first->has_thread = pthread_create(&first->thread, NULL, run_thread, first) == 0;
    /* The first one's end settles how many there are. */
    for (int k = 0; k == 0 || k < o->n_parts; k++) finish_part(&o->parts[k], cancelled);
    sac_status st = join(o, out, crashed, err);
    for (int k = 0; k < o->n_parts; k++) intake_media_free(&o->parts[k].media);
    if (o->n_parts > 1) atomic_fetch_add(o->use->n_spare, o->n_parts - 1);
    if (st != SAC_OK) {
        intake_media_free(out);
        forget_bytes(o);
    }
    return st;
}

/* Where decoding begins must not matter: frames that stand in for damaged ones depend on it, and so may failures;
 * and one child may find the memory and descriptors that several did not. */
static bool wants_one_go(const opening *o, sac_status st, bool crashed, const intake_media *m) {
    if (o->n_parts == 1 || o->no_room) return false;
    return st == SAC_OK ? m->info.n_replaced > 0
                        : !crashed && (st == SAC_BAD_FILE || st == SAC_UNSUPPORTED || st == SAC_INTERNAL || st == SAC_NO_MEMORY ||
                                      st == SAC_IO);
}

static uint32_t seconds_left(const intake_task *t, int64_t start_ns) {
    double left = t->seconds - sac_seconds_since(start_ns);
    return left < 1 ? 1 : (uint32_t)left;
}

sac_status intake_media_open(intake_media *out, intake_decoder *d, const intake_task *task,
                             const intake_use *use, int input, const atomic_bool *cancelled, bool *crashed,
                             sac_error *err) {
    opening o = {.decoder = d, .use = use, .input = input, .is_frame = task->is_video || use->is_frame};
    intake_task t = *task;
    t.max_shares = use->n_spare && t.is_video ? INTAKE_MAX_SHARES : 1;
    int64_t start_ns = sac_now_ns();
    pthread_condattr_t steady;
    pthread_mutex_init(&o.lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&o.part_ended, &steady);
    pthread_condattr_destroy(&steady);
    if (use->n_spare) atomic_fetch_sub(use->n_spare, 1);
    sac_status st = open_once(&o, &t, out, cancelled, crashed, err);
    if (wants_one_go(&o, st, *crashed, out)) {
        intake_media_free(out);
        forget_bytes(&o);
        t.max_shares = 1;
        t.seconds = seconds_left(task, start_ns);
        st = open_once(&o, &t, out, cancelled, crashed, err);
    }
    if (use->n_spare) atomic_fetch_add(use->n_spare, 1);
    pthread_cond_destroy(&o.part_ended);
    pthread_mutex_destroy(&o.lock);
    return st;
}
