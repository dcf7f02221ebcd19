/* A picture or video through the tower, in batches of tiles, straight into the rows of hidden states where
 * the prompt wants it. */
#include "clock.h"
#include "device_tower.h"
#include "media_open.h"
#include "patches.h"
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

static uint8_t *slot_patches(const encoder *e, int slot) {
    return slot ? e->s->device_vision.slot[slot].patches : e->s->vision.patches;
}
static float *slot_pooled(const encoder *e, int slot) {
    return slot ? e->s->device_vision.slot[slot].pooled : e->s->vision.pooled;
}

/* Tiles are through: what the tower saw of them. */
static void tell_tiles(const encoder *e, const uint8_t *patches, int64_t first_tile, int n) {
    const sac_visual_plan *p = &e->m->plan;
    uint8_t *tile = e->s->vision.tile;
    for (int i = 0; i < n && e->events && e->events->tile; i++) {
        sac_patches_join(tile, patches + sac_visual_bytes(p, i), p->patch, p->patches.h, p->patches.w);
        e->events->tile(e->events->ctx, (size_t)(e->m - e->s->media), first_tile + i, p->patches.w * p->patch,
                        tile);
    }
}

/* n tiles to rows of pooled embeddings, the same order, on the host. */
static sac_status run_tower(const encoder *e, const uint8_t *patches, int n, float *pooled) {
    sac_session *s = e->s;
    const sac_media *media = e->m;
    const sac_loaded_model *m = &s->model->loaded;
    sac_vision_state *v = &s->vision;
    int64_t n_rows = n * media->tower.n_features, n_tokens = (int64_t)n * media->plan.tokens_per_tile;
    sac_tower_run tower = {&m->tower, &v->tower, &s->model->ops, &s->stream};
    sac_merger_run merger = {.merger = &m->merger,
                             .ops = &s->model->ops,
                             .stream = &s->stream,
                             .fast = s->model->fast,
                             .n = n,
                             .grid = media->tower.patches,
                             .pool = media->plan.pool,
                             .features = sac_mat_f32(v->features, n_rows, sac_tower_cols(&m->tower.config)),
                             .mid = sac_mat_f32(v->mid, n_rows, m->merger.hidden),
                             .raw = v->raw,
                             .y = sac_mat_f32(pooled, n_tokens, m->merger.out)};
    sac_patch_rows rows = sac_media_patch_rows(s, media, patches, n);
    SAC_TRY(sac_tower_encode(&tower, &rows, merger.features));
    return m->merger.kind->run(&merger);
}

/* The same in a slot of the device, to be waited for, or at once on the host: then nothing is in flight. */
static sac_status submit(encoder *e, int slot, const uint8_t *patches, int n, float *pooled, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    sac_status st = sac_tower_submit(e->s, slot, e->m, patches, n, pooled, err);
    if (st == SAC_OK) e->in_flight[slot] = n;
    if (st == SAC_UNSUPPORTED) st = run_tower(e, patches, n, pooled); /* what the device has no kernels for */
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
    int64_t each = e->m->block_tokens, hidden = e->s->model->loaded.merger.out;
    return e->s->decoder.embeddings + (e->m->spans[token / each].first + token % each) * hidden;
}

static void report_progress(const encoder *e, int64_t done) {
    if (e->events && e->events->progress)
        e->events->progress(e->events->ctx, "vision", done, e->m->report.n_frames);
}

/* The next n frames, whose rows are in a slot, go to their places in the prompt. */
static void place_frames(encoder *e, int slot, int n) {
    int64_t each = e->m->plan.n_tokens, hidden = e->s->model->loaded.merger.out;
    tell_tiles(e, slot_patches(e, slot), e->n_done, n);
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
    SAC_TRY(sac_session_check_cancel(e->s, err));
    SAC_TRY(submit(e, slot, slot_patches(e, slot), n, slot_pooled(e, slot), err));
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
    return slot_patches(e, e->slot) + sac_visual_bytes(&e->m->plan, e->n_tiles);
}

static sac_status take_prepared(encoder *e, const sac_prepared *p, sac_error *err) {
    memcpy(next_tile(e), p->patches, sac_visual_bytes(&p->plan, 1));
    return count_tile(e, err);
}

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)i;
    (void)time_s;
    encoder *e = ctx;
    const sac_processor_config *p = &e->s->model->loaded.processor;
    sac_visual_plan plan; /* pictures in a list may differ in size */
    SAC_TRY(sac_media_plan_frame(e->s, frame->width, frame->height, &plan, err));
    SAC_TRY(sac_processor_cut(p, frame, &plan, next_tile(e), err));
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
        sac_processor_layout(&model->processor, &m->plan, s->vision.layout);
}

/* The tower says what its class token looks at, from tile `first` on. */
static void watch_class(sac_session *s, const sac_media *m, int first) {
    sac_tower_state *v = &s->vision.tower;
    int64_t stride = m->plan.tokens_per_tile + 1;
    v->class_first = s->reduce.is_on ? s->vision.class_attention + first * stride : NULL;
    v->class_last = s->reduce.is_on ? v->class_first + s->vision.max_tiles * stride : NULL;
}

static sac_status encode_picture(encoder *e, sac_error *err) {
    sac_session *s = e->s;
    const sac_loaded_model *m = &s->model->loaded;
    int64_t hidden = m->merger.out;
    for (int first = 0; first < e->m->plan.n_tiles; first += s->vision.batch_tiles) {
        int left = e->m->plan.n_tiles - first,
            n = left < s->vision.batch_tiles ? left : s->vision.batch_tiles;
        SAC_TRY(sac_session_check_cancel(s, err));
        watch_class(s, e->m, first);
        const uint8_t *patches = e->m->patches + sac_visual_bytes(&e->m->plan, first);
        SAC_TRY(submit(e, 0, patches, n,
                       s->vision.pooled + (int64_t)first * e->m->plan.tokens_per_tile * hidden, err));
        SAC_TRY(wait_for(e, 0, err));
        tell_tiles(e, patches, first, n);
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
                                s->model->loaded.merger.out};
    s->vision.tower.class_first = s->vision.tower.class_last = NULL;
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
