#define _GNU_SOURCE
#include "caption_run.h"
#include "caption_decode.h"
#include "caption_queue.h"
#include "clock.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Threads that decode media, encode and prefill; while one of them decodes, another may encode, and answers
 * are written meanwhile. */
enum { PREPARERS_MAX = 2 };
/* One picture may ask for more memory than there is; a machine without memory fails them all. */
enum { MEMORY_FAILURES_MAX = 8 };
static const double seconds_between_notes = 60;

/* A session and what it is asked. A preparer takes it from free to ready, the stepping thread back to free.
 */
typedef enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY } slot_state;
typedef struct slot {
    sac_session *session;
    caption_request q;
    slot_state state;
} slot;

typedef struct work {
    run *r;
    const caption_input *in;
    const caption_shard *shard;
    caption_records *records;
    caption_stats *stats;
    caption_queue *queue;
    caption_decoder *decoder; /* NULL = files are decoded here */
    sac_batch *batch;
    sac_batch_item *items; /* [n_slots] */
    progress line;
    int64_t start_ns, noted_ns; /* when the job began, and when its last line for logs was written */

    pthread_mutex_t lock; /* for all below, and for records and stats */
    pthread_cond_t changed;
    slot *slots;
    size_t n_slots;
    int n_preparers;     /* still at work */
    int memory_failures; /* one after another */
    bool failed;
    atomic_bool stopping; /* the same, for those who do not hold the lock */
    sac_error err;        /* of what failed */
} work;

static void fail(work *w, const sac_error *err) {
    if (!w->failed) w->err = *err;
    w->failed = true;
    atomic_store(&w->stopping, true);
    pthread_cond_broadcast(&w->changed);
    caption_queue_stop(w->queue);
}

/* ---------------------------------------------------------------- records */

static json_t *begin_record(const work *w, const caption_request *q) {
    return json_pack("{s:I, s:I, s:s}", "source", (json_int_t)q->source, "index", (json_int_t)q->index, "id",
                     w->in->sources[q->source].items[q->index].id);
}

static json_t *error_record(const work *w, const caption_request *q, const sac_error *err) {
    json_t *j = begin_record(w, q);
    if (j && q->extra) json_object_update(j, q->extra);
    json_t *e =
        json_pack("{s:s, s:o}", "status", sac_status_name(err->status), "text", report_text(err->text));
    if (j && e && !json_object_set_new(j, "error", e)) return j;
    json_decref(j);
    return NULL;
}

static json_t *answer_record(const work *w, const caption_request *q, const sac_result *r) {
    json_t *j = begin_record(w, q);
    int64_t frames = 0;
    for (size_t i = 0; i < r->n_media; i++) frames += r->media[i].n_frames;
    const sac_media_report *m = r->n_media ? &r->media[0] : NULL;
    json_t *more =
        json_pack("{s:o, s:s, s:s?, s:i, s:i, s:I, s:I, s:I, s:I}", "caption", report_text(r->text), "finish",
                  r->finish_reason, "media", q->media, "width", m ? m->width : 0, "height", m ? m->height : 0,
                  "frames", (json_int_t)frames, "prompt_tokens", (json_int_t)r->n_prompt_tokens,
                  "visual_tokens", (json_int_t)r->n_visual_tokens, "tokens", (json_int_t)r->n_tokens);
    bool ok = j && more && !json_object_update(j, more) && (!q->extra || !json_object_update(j, q->extra));
    json_decref(more);
    if (ok) return j;
    json_decref(j);
    return NULL;
}

static void count_answer(caption_stats *s, const sac_result *r) {
    s->n_captions++;
    s->prompt_tokens += r->n_prompt_tokens;
    s->visual_tokens += r->n_visual_tokens;
    s->tokens += r->n_tokens;
    for (size_t i = 0; i < r->n_media; i++) s->frames += r->media[i].n_frames;
    s->media_s += r->seconds.media;
    s->vision_s += r->seconds.vision;
    s->prefill_s += r->seconds.prefill;
    s->decode_s += r->seconds.decode;
}

static bool ends_the_job(work *w, sac_status st) {
    if (st == SAC_NO_MEMORY) return ++w->memory_failures >= MEMORY_FAILURES_MAX;
    w->memory_failures = 0;
    return st == SAC_CANCELLED || st == SAC_DEVICE;
}

/* result: NULL when `why` says what went wrong. */
static void record(work *w, const caption_request *q, const sac_result *result, const sac_error *why) {
    pthread_mutex_lock(&w->lock);
    sac_error err;
    if (w->failed) {
        /* what came after the failure is done again by the next run */
    } else if (ends_the_job(w, result ? SAC_OK : why->status)) {
        fail(w, why);
    } else {
        json_t *j = result ? answer_record(w, q, result) : error_record(w, q, why);
        sac_status st = j ? caption_records_add(w->records, q->source, q->index, j, q->content, &err)
                          : sac_fail_no_memory(&err);
        json_decref(j);
        if (st != SAC_OK)
            fail(w, &err);
        else if (result)
            count_answer(w->stats, result);
        else
            w->stats->n_errors++;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---------------------------------------------------------------- preparing */

static bool is_stopped(void *ctx) {
    work *w = ctx;
    pthread_mutex_lock(&w->lock);
    bool failed = w->failed;
    pthread_mutex_unlock(&w->lock);
    return failed;
}

static slot *take_slot(work *w) {
    slot *found = NULL;
    pthread_mutex_lock(&w->lock);
    while (!w->failed && !found) {
        for (size_t i = 0; i < w->n_slots && !found; i++)
            if (w->slots[i].state == SLOT_FREE) found = &w->slots[i];
        if (!found) pthread_cond_wait(&w->changed, &w->lock);
    }
    if (found) found->state = SLOT_BUSY;
    pthread_mutex_unlock(&w->lock);
    return found;
}

static void set_state(work *w, slot *s, slot_state state) {
    pthread_mutex_lock(&w->lock);
    s->state = state;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* Decoding, vision and prefill. */
static void prepare(work *w, slot *s) {
    sac_events events = {.ctx = w, .stopped = is_stopped};
    caption_request *q = &s->q;
    if (q->status == SAC_OK && w->decoder) q->status = caption_decode(w->decoder, q, &w->stopping, &q->err);
    if (q->status == SAC_OK) {
        sac_session_reset(s->session); /* a caption must not depend on what was seen before */
        q->status =
            sac_session_begin(s->session, q->c.messages, q->c.n_messages, &q->sampling, &events, &q->err);
    }
    caption_decoded_free(q);
    bool ok = q->status == SAC_OK;
    if (!ok) record(w, q, NULL, &q->err);
    if (!ok) caption_request_free(q);
    set_state(w, s, ok ? SLOT_READY : SLOT_FREE);
}

static void *prepare_all(void *ctx) {
    work *w = ctx;
    slot *s;
    while ((s = take_slot(w))) {
        if (!caption_queue_take(w->queue, &s->q)) {
            set_state(w, s, SLOT_FREE);
            break;
        }
        prepare(w, s);
    }
    pthread_mutex_lock(&w->lock);
    w->n_preparers--;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---------------------------------------------------------------- answering */

static void finish(work *w, slot *s, const sac_batch_item *item) {
    sac_result result;
    sac_session_end(s->session, &result);
    record(w, &s->q, item->status == SAC_OK ? &result : NULL, &item->error);
    caption_request_free(&s->q);
    set_state(w, s, SLOT_FREE);
}

/* Sessions that have begun, into items; of[i] is the slot of the i-th. Waits while there is none and may yet
 * be one; 0 after a while without any, *over when there will be none. */
static size_t collect(work *w, slot **of, bool *over) {
    static const long wait_ns = 200000000;
    size_t n = 0;
    pthread_mutex_lock(&w->lock);
    for (int turn = 0; turn < 2 && !n; turn++) {
        for (size_t i = 0; i < w->n_slots; i++) {
            if (w->slots[i].state != SLOT_READY) continue;
            of[n] = &w->slots[i];
            w->items[n++] = (sac_batch_item){.session = w->slots[i].session};
        }
        *over = !n && !w->n_preparers;
        if (n || *over || turn) break;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += wait_ns;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

static void step(work *w, slot **of, size_t n) {
    sac_events events = {.ctx = w, .stopped = is_stopped};
    sac_error err;
    for (size_t i = 0; i < n; i++) w->items[i].events = &events;
    if (sac_batch_step(w->batch, w->items, n, &err) != SAC_OK) {
        pthread_mutex_lock(&w->lock);
        fail(w, &err);
        pthread_mutex_unlock(&w->lock);
    }
    for (size_t i = 0; i < n; i++)
        if (w->items[i].done || w->items[i].status != SAC_OK) finish(w, of[i], &w->items[i]);
}

/* ---------------------------------------------------------------- progress */

/* For logs: a line a minute where no progress is drawn. */
static void note(work *w, int64_t done, int64_t here) {
    if (w->line.on || w->r->s->quiet || sac_seconds_since(w->noted_ns) < seconds_between_notes) return;
    char left[40];
    double rate = (double)here / sac_seconds_since(w->start_ns);
    progress_duration(left, sizeof left, rate > 0 ? (double)(w->stats->n_items - done) / rate : 0);
    fprintf(stderr, "saccade: %s of %s items, %.2f a second, %s left, %" PRId64 " errors\n",
            report_count(done), report_count(w->stats->n_items), rate, here ? left : "?",
            w->records->n_errors);
    w->noted_ns = sac_now_ns();
}

static void tell(work *w) {
    pthread_mutex_lock(&w->lock);
    int64_t here = w->stats->n_captions + w->stats->n_errors, done = w->stats->n_before + here;
    int64_t n_errors = w->records->n_errors;
    note(w, done, here);
    pthread_mutex_unlock(&w->lock);
    if (n_errors) snprintf(w->line.note, sizeof w->line.note, "%s", report_counted(n_errors, "error"));
    progress_update(&w->line, "captions", here, w->stats->n_items - w->stats->n_before);
}

/* ---------------------------------------------------------------- the job */

static bool is_due(void *ctx, size_t source, size_t index) {
    work *w = ctx;
    pthread_mutex_lock(&w->lock);
    bool due = !w->records->places[source][index].state;
    pthread_mutex_unlock(&w->lock);
    return due && caption_is_mine(w->shard, w->in->by_source, source, w->in->sources[source].items[index].id);
}

static void count_items(work *w) {
    for (size_t s = 0; s < w->in->n_sources; s++)
        for (size_t i = 0; i < w->in->sources[s].n_items; i++) {
            if (!caption_is_mine(w->shard, w->in->by_source, s, w->in->sources[s].items[i].id)) continue;
            w->stats->n_items++;
            w->stats->n_before += w->records->places[s][i].state != 0;
        }
}

static sac_status open_work(work *w, const caption_how *how, size_t n_slots, sac_error *err) {
    w->slots = calloc(n_slots, sizeof *w->slots);
    w->items = calloc(n_slots, sizeof *w->items);
    if (!w->slots || !w->items) return sac_fail_no_memory(err);
    size_t n_prompts = n_slots < PREPARERS_MAX ? n_slots : PREPARERS_MAX;
    SAC_TRY(sac_batch_create(&w->batch, w->r->model, n_slots, err));
    SAC_TRY(sac_model_reserve_workspaces(w->r->model, n_prompts, err));
    for (; w->n_slots < n_slots; w->n_slots++)
        SAC_TRY(run_make_session(w->r, &w->slots[w->n_slots].session, err));
    sac_memory_report plan;
    sac_session_memory(w->slots[0].session, &plan);
    const char *reduce = w->r->session_config.reduce;
    if (!w->r->s->trust_media)
        SAC_TRY(caption_decoder_open(&w->decoder, w->r->model, plan.n_ctx, reduce, err));
    return caption_queue_start(&w->queue, w->in, how, is_due, w, err);
}

static void close_work(work *w) {
    caption_queue_free(w->queue);
    caption_decoder_close(w->decoder);
    for (size_t i = 0; i < w->n_slots; i++) sac_session_free(w->slots[i].session);
    sac_batch_free(w->batch);
    free(w->slots);
    free(w->items);
}

static sac_status work_through(work *w, sac_error *err) {
    pthread_t preparers[PREPARERS_MAX];
    slot **of = calloc(w->n_slots, sizeof(slot *));
    if (!of) return sac_fail_no_memory(err);
    int n = 0, most = w->n_slots < PREPARERS_MAX ? (int)w->n_slots : PREPARERS_MAX;
    pthread_mutex_lock(&w->lock); /* each of them counts itself out */
    while (n < most && !pthread_create(&preparers[n], NULL, prepare_all, w)) n++;
    w->n_preparers = n;
    pthread_mutex_unlock(&w->lock);
    for (bool over = !n; !over;) {
        size_t n_ready = collect(w, of, &over);
        if (n_ready) step(w, of, n_ready);
        tell(w);
    }
    for (int i = 0; i < n; i++) pthread_join(preparers[i], NULL);
    progress_clear(&w->line);
    free(of);
    if (!n) return sac_fail(err, SAC_NO_MEMORY, "no thread could be started");
    if (w->failed) *err = w->err;
    return w->failed ? err->status : SAC_OK;
}

sac_status caption_run(run *r, const caption_input *in, const caption_shard *shard, const caption_how *how,
                       caption_records *records, caption_stats *stats, sac_error *err) {
    *stats = (caption_stats){0};
    work w = {.r = r, .in = in, .shard = shard, .records = records, .stats = stats};
    count_items(&w);
    int64_t due = stats->n_items - stats->n_before;
    if (!due) return SAC_OK;
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    progress_init(&w.line, r->s->quiet);
    w.start_ns = w.noted_ns = sac_now_ns();
    sac_status st = open_work(&w, how, (size_t)(r->s->batch < due ? r->s->batch : due), err);
    if (st == SAC_OK) st = work_through(&w, err);
    close_work(&w);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    stats->seconds = sac_seconds_since(w.start_ns);
    return st;
}
