#define _GNU_SOURCE
#include "media_store.h"
#include "clock.h"
#include "hash.h"
#include "intake_media.h"
#include "media_source.h"
#include "methods.h"
#include "metrics.h"
#include "progress.h"
#include "request.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that a request waits for others to let go of their media. */
#define ROOM_SECONDS 30

struct serve_media {
    uint8_t key[32];
    int64_t most; /* frames that were allowed: what other texts leave of the context may differ */
    intake_media prepared;
    int n_owners; /* requests that use it */
    serve_media *newer, *older;
};

struct serve_media_store {
    serve_server *server;
    intake_decoder *decoder;
    atomic_int n_spare; /* children that may be started beside those of each thread that decodes */
    atomic_size_t in_flight; /* bytes that are prepared and not in the store yet */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    serve_media *newest, *oldest;
    size_t n_bytes;
};

/* ---------------------------------------------------------------- the store */

sac_status serve_media_store_open(serve_media_store **out, serve_server *s, sac_error *err) {
    serve_media_store *store = *out = calloc(1, sizeof *store);
    if (!store) return sac_fail(err, SAC_NO_MEMORY, "no memory for media");
    store->server = s;
    atomic_init(&store->n_spare, serve_n_decoders());
    atomic_init(&store->in_flight, 0);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->freed, NULL);
    return intake_decoder_open(&store->decoder, err);
}

static void unlink_media(serve_media_store *store, serve_media *m) {
    *(m->newer ? &m->newer->older : &store->newest) = m->older;
    *(m->older ? &m->older->newer : &store->oldest) = m->newer;
}

static void link_newest(serve_media_store *store, serve_media *m) {
    m->newer = NULL;
    m->older = store->newest;
    *(m->older ? &m->older->newer : &store->oldest) = m;
    store->newest = m;
}

static void drop(serve_media_store *store, serve_media *m) {
    unlink_media(store, m);
    store->n_bytes -= m->prepared.n_bytes;
    intake_media_free(&m->prepared);
    free(m);
}

void serve_media_store_close(serve_media_store *store) {
    if (!store) return;
    while (store->oldest) drop(store, store->oldest);
    intake_decoder_close(store->decoder);
    pthread_cond_destroy(&store->freed);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

size_t serve_media_store_bytes(serve_media_store *store) {
    pthread_mutex_lock(&store->lock);
    size_t n = store->n_bytes;
    pthread_mutex_unlock(&store->lock);
    return n;
}

/* Would a bound of `most` frames have chosen the same ones? A bound that was not reached decided nothing. */
static bool serves(const serve_media *m, int64_t most) {
    int64_t n = m->prepared.info.n_frames;
    return n < m->most ? n <= most : most == m->most;
}

/* Tens of entries, each worth many milliseconds: a walk is nothing beside them. Under the lock. */
static serve_media *find(serve_media_store *store, const uint8_t key[32], int64_t most) {
    serve_media *m = store->newest;
    while (m && (memcmp(m->key, key, sizeof m->key) != 0 || !serves(m, most))) m = m->older;
    if (m) {
        m->n_owners++;
        unlink_media(store, m);
        link_newest(store, m);
    }
    return m;
}

static serve_media *get(serve_media_store *store, const uint8_t key[32], int64_t most) {
    pthread_mutex_lock(&store->lock);
    serve_media *m = find(store, key, most);
    pthread_mutex_unlock(&store->lock);
    return m;
}

/* Drops what nobody uses until n bytes fit; under the lock. */
static bool make_room(serve_media_store *store, size_t n) {
    size_t most = store->server->config->max_decoded_bytes;
    for (serve_media *m = store->oldest, *next; m && store->n_bytes + n > most; m = next) {
        next = m->newer;
        if (m->n_owners == 0) drop(store, m);
    }
    return store->n_bytes + n <= most;
}

static int compare_pointers(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (serve_media *const *)a, y = (uintptr_t) * (serve_media *const *)b;
    return x < y ? -1 : x > y;
}

/* Bytes that the request itself holds; what it names twice counts once. 0 without memory for finding out. */
static size_t own_bytes(const serve_request *r) {
    size_t n = 0, n_bytes = 0;
    for (size_t i = 0; i < r->n_media; i++) n += r->media[i].media ? r->media[i].n_urls : 0;
    serve_media **held = calloc(n + 1, sizeof *held);
    n = 0;
    for (size_t i = 0; held && i < r->n_media; i++)
        for (size_t k = 0; r->media[i].media && k < r->media[i].n_urls; k++)
            if (r->media[i].media[k]) held[n++] = r->media[i].media[k];
    if (n) qsort(held, n, sizeof *held, compare_pointers);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || held[i] != held[i - 1]) n_bytes += held[i]->prepared.n_bytes;
    free(held);
    return n_bytes;
}

/* Whether a request's media fit into the store when it has it for itself: else there is nothing to wait for. */
static bool can_fit(const serve_job *j, size_t n_more, const char *param, serve_problem *p) {
    size_t most = j->server->config->max_decoded_bytes;
    if (n_more <= most && own_bytes(j->request) <= most - n_more) return true;
    return serve_refuse(p, 413, param, "media_too_large",
                        "%s: with it the media of this request take more than the %zu bytes that all may "
                        "have (--decoded-mib)",
                        param, most);
}

/* Adds what was prepared; waits for room, for a time. Takes it over. NULL: no room or memory. */
static serve_media *put(serve_job *j, const uint8_t key[32], int64_t most, intake_media *prepared,
                        const char *param, serve_problem *p) {
    serve_media_store *store = j->server->media;
    serve_media *m = calloc(1, sizeof *m);
    int64_t start = sac_now_ns();
    if (!can_fit(j, prepared->n_bytes, param, p)) {
        free(m);
        intake_media_free(prepared);
        return NULL;
    }
    pthread_mutex_lock(&store->lock);
    bool fits = m != NULL;
    while (fits && !make_room(store, prepared->n_bytes)) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_sec++;
        pthread_cond_timedwait(&store->freed, &store->lock, &t);
        fits = sac_seconds_since(start) < ROOM_SECONDS && !atomic_load(&j->cancelled);
    }
    if (fits) {
        memcpy(m->key, key, sizeof m->key);
        m->most = most;
        m->prepared = *prepared;
        m->n_owners = 1;
        link_newest(store, m);
        store->n_bytes += prepared->n_bytes;
    }
    pthread_mutex_unlock(&store->lock);
    if (fits) return m;
    free(m);
    intake_media_free(prepared);
    return NULL;
}

static void give_back(serve_media_store *store, serve_media *m) {
    pthread_mutex_lock(&store->lock);
    m->n_owners--;
    pthread_cond_broadcast(&store->freed);
    pthread_mutex_unlock(&store->lock);
}

/* ---------------------------------------------------------------- one item */

/* The same bytes, looked at in the same way, make the same tiles. */
static void make_key(uint8_t key[32], const serve_source *source, const intake_task *t, bool is_frame) {
    sac_sha256 *h;
    memset(key, 0, 32);
    if (sac_sha256_open(&h, NULL) != SAC_OK) return;
    int64_t how[] = {t->is_video,         is_frame,           t->video.no_rotate, t->video.key_frames,
                     t->video.num_frames, t->video.max_pixels, t->is_video ? 0 : t->max_pixels}; /* above the last it was refused */
    const double at[] = {t->video.fps, t->video.skip_s, t->video.max_frames, t->video.pace, t->video.most_s};
    sac_sha256_update(h, source->hash, sizeof source->hash);
    sac_sha256_update(h, how, sizeof how);
    sac_sha256_update(h, at, sizeof at);
    sac_sha256_finish(h, key);
}

static intake_task make_task(const serve_server *s, bool is_video, const sac_video_options *v,
                             int64_t room_frames) {
    const serve_config *c = s->config;
    int64_t most = room_frames < c->max_frames ? room_frames : c->max_frames;
    if (v->max_frames && v->max_frames < most) most = v->max_frames;
    return (intake_task){
        .is_video = is_video,
        .video = *v,
        .frame_pixels = (int64_t)s->info.image_size * s->info.image_size,
        .max_bytes = (int64_t)c->max_media_bytes,
        .max_pixels = c->max_pixels,
        .max_frames = is_video ? most : 1,
        .max_duration_s = c->max_duration_s,
        .max_frame_bytes = c->max_decoded_bytes / 2,
        .seconds = (uint32_t)(c->decode_s + 0.999),
    };
}

/* What decoding failed with, in a reply's words. */
static void refuse_decoding(serve_problem *p, const char *param, bool crashed, const sac_error *why) {
    sac_error err = {.status = why->status};
    snprintf(err.text, sizeof err.text, "%s: %.300s", param, why->text);
    if (crashed)
        serve_refuse(p, 400, param, "media_failed", "%s", err.text);
    else if (why->status == SAC_TOO_LONG)
        serve_refuse(p, 413, param, "media_too_large", "%s", err.text);
    else if (why->status == SAC_IO)
        serve_refuse(p, 503, param, "overloaded", "%s", err.text);
    else
        serve_refuse_status(p, why->status, &err);
    snprintf(p->param, sizeof p->param, "%s", param);
}

typedef struct decoding {
    serve_job *job;
    int64_t medium;
} decoding;

static void on_frame(void *ctx, int64_t n_done, int64_t n_chosen) {
    const decoding *d = ctx;
    serve_progress_tell(d->job, "decode", d->medium, n_done, n_chosen);
}

/* Closes the source before it waits for room. */
static serve_media *decode(serve_job *j, int64_t medium, serve_source *source, intake_task *t,
                           bool is_frame, const uint8_t key[32], const char *param, serve_problem *p) {
    serve_server *s = j->server;
    decoding told = {j, medium};
    intake_use use = {.model = s->model,
                      .is_frame = is_frame,
                      .max_bytes = s->config->max_decoded_bytes / 2,
                      .progress = is_frame ? NULL : on_frame, /* frames sent one by one: each is a file */
                      .ctx = &told,
                      .n_spare = &s->media->n_spare,
                      .in_flight = &s->media->in_flight,
                      .max_in_flight = s->config->max_decoded_bytes};
    intake_media prepared;
    bool crashed;
    sac_error err;
    int64_t start = sac_now_ns();
    t->max_memory_bytes = source->n_bytes + ((uint64_t)3 << 29); /* decoders' own: 1.5 GiB */
    sac_status st =
        intake_media_open(&prepared, s->media->decoder, t, &use, source->fd, &j->cancelled, &crashed, &err);
    if (crashed) serve_metrics_count(s->metrics, SERVE_COUNT_decoder_crashes, 1);
    if (st != SAC_OK) {
        refuse_decoding(p, param, crashed, &err);
        return NULL;
    }
    serve_metrics_observe(s->metrics, SERVE_TIME_media, sac_seconds_since(start));
    serve_metrics_observe(s->metrics, SERVE_TIME_resize, prepared.prepare_s);
    serve_metrics_count(s->metrics, SERVE_COUNT_media_misses, 1);
    serve_source_close(source);
    size_t n_bytes = prepared.n_bytes;
    serve_media *m = put(j, key, t->max_frames, &prepared, param, p);
    atomic_fetch_sub(&s->media->in_flight, n_bytes);
    if (!m && !p->status)
        serve_refuse(p, 503, param, "overloaded", "%s: no room for decoded media now", param);
    return m;
}

static serve_media *get_item(serve_job *j, const serve_media_ref *ref, size_t i, bool in_list,
                             int64_t room_frames, serve_problem *p) {
    serve_server *s = j->server;
    serve_source source;
    uint8_t key[32];
    if (!serve_source_open(&source, s, ref->urls[i], in_list, ref->param, &j->cancelled, p)) return NULL;
    bool is_video = ref->kind == SAC_PART_VIDEO, is_frame = ref->kind == SAC_PART_FRAMES;
    sac_video_options options = ref->part->video;
    if (is_video) options = sac_model_video_options(s->model, options);
    intake_task t = make_task(s, is_video, &options, room_frames);
    int64_t most = j->request->image_max_pixels;
    if (!is_video && most && most < t.max_pixels) t.max_pixels = most;
    make_key(key, &source, &t, is_frame);
    serve_media *m = get(s->media, key, t.max_frames);
    if (m)
        serve_metrics_count(s->metrics, SERVE_COUNT_media_hits, 1);
    else
        m = decode(j, ref - j->request->media, &source, &t, is_frame, key, ref->param, p);
    serve_source_close(&source);
    return m;
}

/* ---------------------------------------------------------------- a reference */

static bool fill_frames(serve_media_ref *ref, serve_problem *p) {
    bool video = ref->kind == SAC_PART_VIDEO;
    size_t n = video ? (size_t)ref->media[0]->prepared.info.n_frames : ref->n_urls;
    ref->frames = calloc(n, sizeof *ref->frames);
    if (!ref->frames) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for %zu frames", n);
    for (size_t i = 0; i < n; i++) {
        const intake_media *m = &ref->media[video ? 0 : i]->prepared;
        ref->frames[i] =
            (sac_frame){.prepared = m->frames[video ? i : 0], .time_s = video ? m->times[i] : ref->times[i]};
    }
    ref->part->kind = SAC_PART_FRAMES;
    ref->part->frames = ref->frames;
    ref->part->n_frames = n;
    if (video) ref->part->video = (sac_video_options){0}; /* the child has chosen the frames */
    ref->n_frames = n;
    return true;
}

/* What the child has said of a video, before its frames were chosen. */
static serve_video_facts facts_of(const intake_info *info) {
    return (serve_video_facts){.fps = info->source_fps,
                               .duration_s = info->duration_s,
                               .n_frames = info->source_frames,
                               .rule = info->rule};
}

static bool fill(serve_media_ref *ref, serve_problem *p) {
    sac_sha256 *h;
    if (sac_sha256_open(&h, NULL) == SAC_OK) {
        for (size_t i = 0; i < ref->n_urls; i++) {
            sac_sha256_update(h, ref->media[i]->key, 32);
            sac_sha256_update(h, &ref->media[i]->prepared.info.n_frames, sizeof(int64_t));
        }
        sac_sha256_finish(h, ref->key);
    }
    if (ref->kind == SAC_PART_VIDEO) ref->video = facts_of(&ref->media[0]->prepared.info);
    if (ref->kind != SAC_PART_IMAGE) return fill_frames(ref, p);
    ref->part->prepared = ref->media[0]->prepared.frames[0];
    ref->n_frames = 1;
    return true;
}

static bool get_reference(serve_job *j, serve_media_ref *ref, int64_t room_frames, serve_problem *p) {
    ref->media = calloc(ref->n_urls, sizeof *ref->media);
    if (!ref->media) return serve_refuse(p, 503, NULL, "out_of_memory", "no memory for media");
    for (size_t i = 0; i < ref->n_urls; i++) {
        ref->media[i] = get_item(j, ref, i, ref->in_one_url, room_frames, p);
        if (!ref->media[i]) return false;
    }
    return fill(ref, p);
}

/* ---------------------------------------------------------------- a request */

static bool is_in(const serve_media_ref *ref, const sac_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ref->part >= messages[i].parts && ref->part < messages[i].parts + messages[i].n_parts) return true;
    return false;
}

/* Pictures first: what they leave of the context is shared by the videos. */
static bool get_pictures(serve_job *j, const sac_message *messages, size_t n, sac_room *room, serve_problem *p) {
    serve_request *r = j->request;
    sac_error err;
    for (size_t i = 0; i < r->n_media; i++) {
        serve_media_ref *ref = &r->media[i];
        if (ref->kind != SAC_PART_IMAGE || !is_in(ref, messages, n)) continue;
        if (!get_reference(j, ref, 1, p)) return false;
        const intake_info *info = &ref->media[0]->prepared.info;
        int64_t before = room->n_tokens;
        sac_status st = sac_room_picture(room, info->width, info->height, &err);
        if (st != SAC_OK) return serve_refuse_status(p, st, &err);
        ref->n_tokens = before - room->n_tokens;
    }
    return true;
}

static bool get_videos(serve_job *j, const sac_message *messages, size_t n, sac_room *room, serve_problem *p) {
    serve_request *r = j->request;
    for (size_t i = 0; i < r->n_media; i++) {
        serve_media_ref *ref = &r->media[i];
        if (ref->kind == SAC_PART_IMAGE || !is_in(ref, messages, n)) continue;
        if (!get_reference(j, ref, sac_room_frames(room), p)) return false;
        int64_t before = room->n_tokens;
        sac_room_video(room, (int64_t)ref->n_frames);
        ref->n_tokens = before - room->n_tokens;
    }
    return true;
}

/* Media of messages that share a context. */
static bool get_together(serve_job *j, const sac_message *messages, size_t n, serve_problem *p) {
    const serve_server *s = j->server;
    const serve_methods *methods = j->request->methods;
    const char *reduce = methods->reduce[0] ? methods->reduce : s->config->session.reduce;
    sac_room room;
    sac_error err;
    sac_status st = sac_room_open(&room, s->model, s->n_ctx, reduce, messages, n, &err);
    if (st != SAC_OK) return serve_refuse_status(p, st, &err);
    return get_pictures(j, messages, n, &room, p) && get_videos(j, messages, n, &room, p);
}

bool serve_media_get(serve_job *j, serve_problem *p) {
    const serve_server *s = j->server;
    const serve_request *r = j->request;
    if (r->n_media == 0) return true;
    if (!s->info.has_vision)
        return serve_refuse(p, 400, r->media[0].param, "unsupported", "this model reads text only");
    if (!r->each_alone) return get_together(j, r->messages, r->n_messages, p);
    for (size_t i = 0; i < r->n_messages; i++)
        if (!get_together(j, &r->messages[i], 1, p)) return false;
    return true;
}

void serve_media_release(serve_request *r, serve_media_store *store) {
    for (size_t i = 0; i < r->n_media; i++) {
        serve_media_ref *ref = &r->media[i];
        for (size_t k = 0; ref->media && k < ref->n_urls; k++)
            if (ref->media[k]) give_back(store, ref->media[k]);
        free(ref->media);
        free(ref->frames);
        ref->media = NULL;
        ref->frames = NULL;
    }
}
