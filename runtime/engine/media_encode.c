/* A picture or video through the tower, in batches of tiles, straight into the rows of hidden states where
 * the prompt wants it. */
#include "call.h"
#include "clock.h"
#include "device_tower.h"
#include "media_open.h"
#include "picture.h"
#include "prepared.h"
#include "source.h"

#include <string.h>

/* One item on its way through the tower: tiles collect in a buffer until a batch is full. On a device there
 * are two: one is filled while the other's batch is there (device_tower.h). */
typedef struct encoder {
    sac_session *s;
    sac_media *m;
    const sac_events *events;
    double *vision_seconds;
    int64_t n_done;                 /* frames encoded */
    int n_tiles;                    /* waiting */
    int slot;                       /* that they wait in; 0 on the host */
    int in_flight[SAC_TOWER_SLOTS]; /* tiles of each slot that the device has */
} encoder;

static uint8_t *slot_tiles(const encoder *e, int slot) {
    return slot ? e->s->device_vision.slot[slot].tiles : e->s->vision.tiles;
}
static float *slot_pooled(const encoder *e, int slot) {
    return slot ? e->s->device_vision.slot[slot].pooled : e->s->vision.pooled;
}

/* Tiles are through. */
static void tell_tiles(const encoder *e, const uint8_t *tiles, int64_t first_tile, int n) {
    for (int i = 0; i < n && e->events && e->events->tile; i++)
        e->events->tile(e->events->ctx, (size_t)(e->m - e->s->media), first_tile + i, e->m->plan.tile_size,
                        tiles + sac_media_tile_bytes(e->s, i));
}

/* n tiles to rows of pooled projector outputs, the same order, on the host. */
static sac_status run_tower(const encoder *e, const uint8_t *tiles, int n, float *pooled) {
    sac_session *s = e->s;
    const sac_loaded_model *m = &s->model->loaded;
    const sac_ops *ops = &s->model->ops;
    sac_vision_state *v = &s->vision;
    int rows = sac_vit_rows(&m->vit.config), grid = sac_vit_grid(&m->vit.config);
    int pool = e->m->plan.pool, hidden = m->projector.out;
    sac_mat features = sac_mat_f32(v->features, (int64_t)n * rows, sac_vit_cols(&m->vit.config));
    sac_mat mid = sac_mat_f32(v->mid, (int64_t)n * rows, m->projector.hidden);
    sac_mat raw = sac_mat_f32(pool > 1 ? v->raw : pooled, (int64_t)n * rows, hidden);
    SAC_TRY(sac_vit_forward(&m->vit, &v->vit, ops, &s->stream, tiles, n, m->processor.mean, m->processor.std,
                            features));
    SAC_TRY(sac_projector_forward(&m->projector, ops, &s->stream, features, mid, raw, s->model->fast));
    if (pool <= 1) return SAC_OK;
    sac_mat y = sac_mat_f32(pooled, (int64_t)n * e->m->plan.tokens_per_tile, hidden);
    return ops->pool_tokens(
        &s->stream, &(sac_pool_tokens_args){.y = y, .x = raw, .n_tiles = n, .grid = grid, .stride = pool});
}

/* The same in a slot of the device, to be waited for, or at once on the host: then nothing is in flight. */
static sac_status submit(encoder *e, int slot, const uint8_t *tiles, int n, float *pooled, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    sac_status st =
        sac_tower_submit(e->s, slot, tiles, n, e->m->plan.pool, e->m->plan.tokens_per_tile, pooled, err);
    if (st == SAC_OK) e->in_flight[slot] = n;
    if (st == SAC_UNSUPPORTED) st = run_tower(e, tiles, n, pooled); /* what the device has no kernels for */
    *e->vision_seconds += sac_seconds_since(start_ns);
    return st;
}

static sac_status wait_for(encoder *e, int slot, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    if (!e->in_flight[slot]) return SAC_OK;
    SAC_TRY(sac_tower_wait(e->s, slot, err));
    e->in_flight[slot] = 0;
    *e->vision_seconds += sac_seconds_since(start_ns);
    return SAC_OK;
}

static float *token_row(const encoder *e, int64_t token) {
    int64_t each = e->m->block_tokens, hidden = e->s->model->loaded.projector.out;
    return e->s->decoder.embeddings + (e->m->spans[token / each].first + token % each) * hidden;
}

static void report_progress(const encoder *e, int64_t done) {
    if (e->events && e->events->progress)
        e->events->progress(e->events->ctx, "vision", done, e->m->report.n_frames);
}

/* The next n frames, whose rows are in a slot, go to their places in the prompt. */
static void place_frames(encoder *e, int slot, int n) {
    int64_t each = e->m->plan.n_tokens, hidden = e->s->model->loaded.projector.out;
    tell_tiles(e, slot_tiles(e, slot), e->n_done, n);
    for (int i = 0; i < n; i++)
        memcpy(token_row(e, (e->n_done + i) * each), slot_pooled(e, slot) + i * each * hidden,
               (size_t)(each * hidden) * sizeof(float));
    e->n_done += n;
    report_progress(e, e->n_done);
}

static sac_status collect_frames(encoder *e, int slot, sac_error *err) {
    int n = e->in_flight[slot];
    SAC_TRY(wait_for(e, slot, err));
    if (n) place_frames(e, slot, n);
    return SAC_OK;
}

/* What waits goes to the device; then the batch before it is collected, and its slot is the next to fill. */
static sac_status flush_frames(encoder *e, sac_error *err) {
    int n = e->n_tiles, slot = e->slot;
    if (n == 0) return SAC_OK;
    sac_events_yield(e->events);
    SAC_TRY(sac_session_check_cancel(e->s, err));
    SAC_TRY(submit(e, slot, slot_tiles(e, slot), n, slot_pooled(e, slot), err));
    SAC_TRY(collect_frames(e, !slot, err));
    e->n_tiles = 0;
    if (e->in_flight[slot])
        e->slot = !slot;
    else
        place_frames(e, slot, n);
    return SAC_OK;
}

static sac_status finish_frames(encoder *e, sac_error *err) {
    SAC_TRY(flush_frames(e, err));
    return collect_frames(e, !e->slot, err);
}

/* One more tile waits. */
static sac_status count_tile(encoder *e, sac_error *err) {
    return ++e->n_tiles == e->s->vision.batch_tiles ? flush_frames(e, err) : SAC_OK;
}

static uint8_t *next_tile(const encoder *e) {
    return slot_tiles(e, e->slot) + sac_media_tile_bytes(e->s, e->n_tiles);
}

static sac_status take_prepared(encoder *e, const sac_prepared *p, sac_error *err) {
    memcpy(next_tile(e), p->tiles, sac_media_tile_bytes(e->s, 1));
    return count_tile(e, err);
}

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)i;
    (void)time_s;
    encoder *e = ctx;
    const sac_processor_config *p = &e->s->model->loaded.processor;
    sac_visual_plan plan; /* pictures in a list may differ in size */
    SAC_TRY(sac_media_plan_frame(e->s, frame->width, frame->height, &plan, err));
    SAC_TRY(sac_processor_run(p, frame, &plan, next_tile(e), err));
    return count_tile(e, err);
}

static sac_status encode_frame_list(encoder *e, sac_error *err) {
    for (int64_t i = 0; i < e->m->frames.n_frames; i++) {
        sac_picture f = sac_part_picture(e->m->part, (size_t)e->m->frames.index[i]);
        sac_image image;
        if (f.prepared) {
            SAC_TRY(take_prepared(e, f.prepared, err));
            continue;
        }
        SAC_TRY(sac_picture_open(&image, &f, err));
        sac_status st = on_frame(e, i, f.time_s, &image, err);
        sac_picture_close(&image, &f);
        SAC_TRY(st);
    }
    return SAC_OK;
}

/* Where each visual token of a picture comes from. */
static void lay_out(sac_session *s, const sac_media *m) {
    const sac_loaded_model *model = &s->model->loaded;
    sac_reduce_picture picture = sac_media_tiling(&m->plan);
    int64_t stride = m->plan.tokens_per_tile + 1; /* the class token's own share comes first */
    const float *first = s->vision.class_attention + 1, *last = first + s->vision.max_tiles * stride;
    if (s->reduce.is_on)
        sac_reduce_choose(&s->reduce, &picture, first, last, stride, s->vision.layout);
    else
        sac_processor_layout(&m->plan, model->processor.kind, s->vision.layout);
}

/* The tower says what its class token looks at, from tile `first` on. */
static void watch_class(sac_session *s, const sac_media *m, int first) {
    sac_vit_state *v = &s->vision.vit;
    int64_t stride = m->plan.tokens_per_tile + 1;
    v->class_first = s->reduce.is_on ? s->vision.class_attention + first * stride : NULL;
    v->class_last = s->reduce.is_on ? v->class_first + s->vision.max_tiles * stride : NULL;
}

static sac_status encode_picture(encoder *e, sac_error *err) {
    sac_session *s = e->s;
    const sac_loaded_model *m = &s->model->loaded;
    int64_t hidden = m->projector.out;
    for (int first = 0; first < e->m->plan.n_tiles; first += s->vision.batch_tiles) {
        int left = e->m->plan.n_tiles - first,
            n = left < s->vision.batch_tiles ? left : s->vision.batch_tiles;
        sac_events_yield(e->events);
        SAC_TRY(sac_session_check_cancel(s, err));
        watch_class(s, e->m, first);
        const uint8_t *tiles = e->m->tiles + sac_media_tile_bytes(s, first);
        SAC_TRY(submit(e, 0, tiles, n,
                       s->vision.pooled + (int64_t)first * e->m->plan.tokens_per_tile * hidden, err));
        SAC_TRY(wait_for(e, 0, err));
        tell_tiles(e, tiles, first, n);
    }
    lay_out(s, e->m);
    report_progress(e, 1);
    return s->model->ops.gather_rows(
        &s->stream, &(sac_gather_rows_args){
                        .y = sac_mat_f32(token_row(e, 0), e->m->plan.n_tokens, hidden),
                        .x = sac_mat_f32(s->vision.pooled,
                                         (int64_t)e->m->plan.n_tiles * e->m->plan.tokens_per_tile, hidden),
                        .source = s->vision.layout,
                        .fill = m->image_newline,
                    });
}

static sac_status encode(encoder *e, sac_error *err) {
    sac_media *m = e->m;
    if (m->content == SAC_PART_IMAGE) return encode_picture(e, err);
    if (m->content == SAC_PART_FRAMES)
        SAC_TRY(encode_frame_list(e, err));
    else
        SAC_TRY(sac_video_read(m->video, &m->frames,
                               m->part->video.no_rotate ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO, on_frame, e,
                               NULL, err));
    return finish_frames(e, err);
}

sac_status sac_media_encode(sac_session *s, size_t i, const sac_events *events, double *media_seconds,
                            double *vision_seconds, sac_error *err) {
    sac_media *m = &s->media[i];
    encoder e = {.s = s, .m = m, .events = events, .vision_seconds = vision_seconds};
    sac_vision_blocks blocks = {s->decoder.embeddings, m->spans, m->n_blocks, m->block_tokens,
                                s->model->loaded.projector.out};
    s->vision.vit.class_first = s->vision.vit.class_last = NULL;
    m->report.from_cache = sac_vision_cache_get(s->model->vision_cache, &m->key, &blocks);
    s->reports[i] = m->report;
    if (m->report.from_cache) {
        sac_media_close_source(m);
        return SAC_OK;
    }
    int64_t start_ns = sac_now_ns();
    double vision_before = *vision_seconds;
    report_progress(&e, 0);
    SAC_TRY(sac_media_reopen(s, m, err));
    sac_status st = encode(&e, err);
    if (st != SAC_OK) {
        sac_tower_drain(s);
        return st;
    }
    sac_media_close_source(m);
    if (sac_source_is_unchanged(m)) sac_vision_cache_put(s->model->vision_cache, &m->key, &blocks);
    *media_seconds += sac_seconds_since(start_ns) - (*vision_seconds - vision_before);
    return SAC_OK;
}
