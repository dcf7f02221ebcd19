#include "media_encode.h"

#include "call.h"
#include "clock.h"
#include "device_tower.h"
#include "media_open.h"
#include "media_reduce.h"
#include "patches.h"
#include "picture.h"
#include "prepared.h"
#include "source.h"
#include "visual_rows.h"

#include <string.h>

/* Tiles collect in a buffer until a batch is full. On a device there are two: one is filled while the device has
 * the other. */
static uint8_t *slot_patches(const sac_media_work *w, int slot) {
    return slot ? w->s->device_vision.slot[slot].patches : w->s->vision.patches;
}

/* Tiles are through: what the tower saw of them. */
static void tell_tiles(const sac_media_work *w, const uint8_t *patches, int64_t first_tile, int n) {
    const sac_visual_plan *p = &w->m->plan;
    const sac_events *events = w->s->events;
    uint8_t *tile = w->s->vision.tile;
    const int parts = p->crops.n ? p->crops.n : 1;
    const size_t area = (size_t)p->patch * (size_t)p->patch * 3;
    for (int i = 0; i < n * parts && events && events->tile; i++) {
        const sac_patch_order order = p->crops.n ? sac_visual_crop_order(p, i % parts) : sac_visual_order(p);
        const size_t before = p->crops.n ? (size_t)sac_crops_before(&p->crops, i % parts) * area : 0;
        sac_patches_join(tile, &order, 0, patches + sac_visual_bytes(p, i / parts) + before);
        events->tile(events->ctx, (size_t)(w->m - w->s->media), first_tile * parts + i, order.w * p->patch, order.h * p->patch, tile);
    }
}

/* Tiles of this item that go into the tower's buffers. */
static int full_batch(const sac_media_work *w) {
    const sac_vision_state *v = &w->s->vision;
    int64_t n = v->batch_patches / w->m->tower.n_patches;
    return n < 1 ? 1 : n < v->batch_tiles ? (int)n : v->batch_tiles;
}

/* Whether a tile's rows have the same bits whatever tiles are beside it: on the host, as long as it has more rows
 * than those that linear layers treat apart, and attention does not share the keys of few heads out among threads. */
static bool may_cut_batch(const sac_media_work *w) {
    enum { SHARED_KEYS = 1024, ENOUGH_HEADS = 12 };
    const sac_loaded_model *m = &w->s->model->loaded;
    const int64_t rows = w->m->tower.n_features / sac_merger_joins(&m->merger);
    return !w->s->device_vision.is_open && rows > SAC_LINEAR_FEW_ROWS && w->m->plan.tokens_per_tile > SAC_LINEAR_FEW_ROWS &&
           (w->m->tower.n_inside < SHARED_KEYS || m->tower.config.n_heads >= ENOUGH_HEADS);
}

/* Those that it takes at a time. */
static int batch_tiles(const sac_media_work *w) {
    const int n = full_batch(w);
    const double most = w->most_patches / (double)w->m->tower.n_patches;
    if (w->most_patches <= 0 || most >= n || !may_cut_batch(w)) return n;
    return most < 1 ? 1 : (int)most;
}

static void report_progress(const sac_media_work *w, int64_t done) {
    const sac_events *e = w->s->events;
    if (e && e->progress) e->progress(e->ctx, "vision", done, w->m->report.n_frames);
}

/* ---------------------------------------------------------------- a batch */

/* Where a batch's rows go: rows of the decoder's, in its type, or the host's in f32. */
typedef struct batch_rows {
    sac_visual_mat y;
    bool on_host;
} batch_rows;

static batch_rows host_rows(const sac_media_work *w, int64_t first, int64_t n) {
    const sac_vision_state *v = &w->s->vision;
    return (batch_rows){
        sac_visual_buffer(&w->s->model->loaded.merger, v->pooled, SAC_DTYPE_F32, v->pooled_rows, first, n),
        true};
}

/* The same in a device's buffer, where the tower runs there. */
static batch_rows buffer_rows(const sac_media_work *w, int64_t first, int64_t n) {
    const sac_session *s = w->s;
    if (!s->device_vision.is_open) return host_rows(w, first, n);
    return (batch_rows){sac_visual_buffer(&s->model->loaded.merger, s->device_vision.rows, s->decoder.dtype,
                                          s->vision.pooled_rows, first, n),
                        false};
}

/* A video's tiles go straight to the prompt's rows where these follow one another. */
static batch_rows frame_rows(const sac_media_work *w, int64_t first_tile, int n) {
    int64_t each = w->m->plan.n_tokens, n_tokens = n * each;
    sac_visual_mat run = sac_visual_run(w->s, w->m, first_tile * each, n_tokens);
    if (run.rows.rows < n_tokens) return buffer_rows(w, 0, n_tokens);
    return (batch_rows){run, !sac_model_on_device(w->s->model)};
}

/* n tiles through the host's tower, the same order. */
static sac_status run_tower(const sac_media_work *w, const uint8_t *patches, int n, sac_visual_mat y) {
    sac_session *s = w->s;
    const sac_media *media = w->m;
    const sac_loaded_model *m = &s->model->loaded;
    sac_vision_state *v = &s->vision;
    int64_t n_rows = n * media->tower.n_features;
    sac_tower_run tower = {&m->tower, &v->tower, &s->model->ops, &s->stream};
    sac_merger_run merger = {.merger = &m->merger,
                             .ops = &s->model->ops,
                             .stream = &s->stream,
                             .fast = s->model->fast,
                             .n = n,
                             .grid = media->tower.patches,
                             .pool = media->plan.pool,
                             .blend = sac_media_frame_blend(media, v->blend),
                             .features = sac_mat_f32(v->features, n_rows, m->merger.in),
                             .mid =
                                 sac_mat_f32(v->mid, n_rows / sac_merger_joins(&m->merger), m->merger.hidden),
                             .raw = v->raw,
                             .y = y.rows,
                             .deep = y.deep};
    sac_patch_rows rows = sac_media_patch_rows(s, media, patches, n);
    SAC_TRY(sac_tower_encode(&tower, &rows, merger.features));
    return m->merger.kind->run(&merger);
}

/* The same for rows anywhere. */
static sac_status run_on_host(const sac_media_work *w, const uint8_t *patches, int n, batch_rows to) {
    if (to.on_host) return run_tower(w, patches, n, to.y);
    batch_rows here = host_rows(w, 0, to.y.rows.rows);
    SAC_TRY(run_tower(w, patches, n, here.y));
    SAC_TRY(sac_visual_write(w->s, to.y.rows, here.y.rows.data));
    return sac_visual_write(w->s, to.y.deep, here.y.deep.data);
}

/* In a slot of the device, to be waited for, or at once on the host: then nothing is in flight. */
static sac_status submit(sac_media_work *w, int slot, const uint8_t *patches, int n, batch_rows to,
                         sac_error *err) {
    int64_t start_ns = sac_now_ns();
    sac_status st = sac_tower_submit(w->s, slot, w->m, patches, n, to.y, err);
    if (st == SAC_OK) w->in_flight[slot] = n;
    if (st == SAC_UNSUPPORTED) { /* the device has no kernels for it */
        st = run_on_host(w, patches, n, to);
        st = sac_tower_explain(w->s, st, err);
    }
    w->vision_seconds += sac_seconds_since(start_ns);
    return st;
}

static sac_status wait_for(sac_media_work *w, int slot, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    if (!w->in_flight[slot]) return SAC_OK;
    SAC_TRY(sac_tower_wait(w->s, slot, err));
    w->in_flight[slot] = 0;
    w->vision_seconds += sac_seconds_since(start_ns);
    return SAC_OK;
}

/* ---------------------------------------------------------------- frames */

/* Rows to where the prompt wants the item's tokens from `first` on. */
static sac_status spread(const sac_media_work *w, int64_t first, batch_rows from) {
    return (from.on_host ? sac_visual_write_tokens : sac_visual_copy_tokens)(w->s, w->m, first, from.y);
}

/* The rows of n tiles that were not made where the prompt wants them go there. On a device the copies come
 * behind the batch in the session's stream. */
static sac_status spread_frames(const sac_media_work *w, int64_t first_tile, int n, batch_rows from) {
    int64_t each = w->m->plan.n_tokens, first = first_tile * each;
    sac_visual_mat run = sac_visual_run(w->s, w->m, first, n * each);
    return run.rows.data == from.y.rows.data ? SAC_OK : spread(w, first, from);
}

static void tell_frames(sac_media_work *w, int slot, int n) {
    tell_tiles(w, slot_patches(w, slot), w->n_done, n);
    w->n_done += n;
    int64_t n_frames = w->n_done * w->m->plan.frames;
    report_progress(w, n_frames < w->m->frames.n_frames ? n_frames : w->m->frames.n_frames);
}

static sac_status collect_frames(sac_media_work *w, int slot, sac_error *err) {
    int n = w->in_flight[slot];
    SAC_TRY(wait_for(w, slot, err));
    if (n) tell_frames(w, slot, n);
    return SAC_OK;
}

/* What waits goes to the device; then the batch before it is collected, and its slot is the next to fill. */
static sac_status flush_frames(sac_media_work *w, sac_error *err) {
    int n = w->n_tiles, slot = w->slot;
    if (n == 0) return SAC_OK;
    SAC_TRY(sac_session_check_cancel(w->s, err));
    int64_t first = w->n_done + w->in_flight[!slot];
    batch_rows rows = w->m->n_kept ? buffer_rows(w, 0, n * w->m->plan.n_tokens) : frame_rows(w, first, n);
    SAC_TRY(submit(w, slot, slot_patches(w, slot), n, rows, err));
    if (w->m->n_kept)
        SAC_TRY(sac_tower_explain(w->s, sac_reduction_add(w->s, w->m, n, rows.y, rows.on_host, err), err));
    else
        SAC_TRY(sac_tower_explain(w->s, spread_frames(w, first, n, rows), err));
    SAC_TRY(collect_frames(w, !slot, err));
    w->n_tiles = 0;
    if (w->in_flight[slot])
        w->slot = !slot;
    else
        tell_frames(w, slot, n);
    return SAC_OK;
}

static uint8_t *next_tile(const sac_media_work *w) {
    return slot_patches(w, w->slot) + sac_visual_bytes(&w->m->plan, w->n_tiles);
}

/* Where a frame's own rows are made: in the tile, or apart where they then go between those of other frames. */
static uint8_t *frame_alone(const sac_media_work *w) {
    return w->m->plan.frames == 1 ? next_tile(w) : w->s->vision.frame;
}

/* Frames of one video share their grid. */
static sac_status check_frame(const sac_media_work *w, const sac_visual_plan *p, sac_error *err) {
    const sac_visual_plan *all = &w->m->plan;
    if (p->patches.h == all->patches.h && p->patches.w == all->patches.w && sac_crops_equal(&p->crops, &all->crops)) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "a frame of %d x %d pixels among frames of %d x %d: this model takes frames of one size",
                    p->width, p->height, w->m->report.width, w->m->report.height);
}

static sac_status cut_frame(const sac_media_work *w, const sac_image *frame, sac_error *err) {
    const sac_processor_config *p = &w->s->model->loaded.processor;
    sac_visual_plan plan; /* pictures in a list may differ in size */
    SAC_TRY(sac_media_plan_frame(w->s, frame->width, frame->height, w->m->frames.n_frames, &plan, err));
    SAC_TRY(check_frame(w, &plan, err));
    return sac_processor_cut_frame(p, frame, &plan, frame_alone(w), err);
}

/* Frame i of a list. */
static sac_status read_listed(const sac_media_work *w, int64_t i, sac_error *err) {
    sac_picture f = sac_part_picture(w->m->part, (size_t)w->m->frames.index[i]);
    sac_image image;
    if (f.prepared && f.prepared->is_cut) {
        SAC_TRY(check_frame(w, &f.prepared->plan, err));
        memcpy(frame_alone(w), f.prepared->patches, f.prepared->n_bytes);
        return SAC_OK;
    }
    SAC_TRY(sac_picture_open(&image, &f, err));
    sac_status st = cut_frame(w, &image, err);
    sac_picture_close(&image, &f);
    return st;
}

static sac_status read_frame(const sac_media_work *w, sac_error *err) {
    sac_image frame;
    if (w->m->content == SAC_PART_FRAMES) return read_listed(w, w->n_read, err);
    SAC_TRY(sac_video_next(w->m->video, &frame, err));
    return cut_frame(w, &frame, err);
}

/* Reads a tile: the frames that share its patches. The last stands for those that a video no longer has. */
static sac_status read_tile(sac_media_work *w, sac_error *err) {
    const sac_visual_plan *p = &w->m->plan;
    for (int k = 0; k < p->frames; k++) {
        if (w->n_read < w->m->frames.n_frames) {
            SAC_TRY(read_frame(w, err));
            w->n_read++;
        }
        if (p->frames > 1) sac_processor_place_frame(p, k, w->s->vision.frame, next_tile(w));
    }
    return SAC_OK;
}

/* The newline that ends a video's rows, where the model has one there. */
static sac_status end_frames(const sac_media_work *w, sac_error *err) {
    sac_session *s = w->s;
    const sac_loaded_model *m = &s->model->loaded;
    if (!m->video_newline) return SAC_OK;
    /* Nothing uses `raw` any more. */
    const sac_visual_mat newline = {.rows = sac_mat_f32(s->vision.raw, 1, m->merger.out)};
    memcpy(newline.rows.data, m->image_newline, (size_t)m->merger.out * sizeof(float));
    return sac_tower_explain(s, sac_visual_write_tokens(s, w->m, sac_media_n_tokens(w->m) - 1, newline), err);
}

/* What a reducer left of a video. */
static sac_status write_reduced(const sac_media_work *w, sac_error *err) {
    SAC_TRY(sac_reduction_write(w->s, w->m, err));
    sac_reduction_free(w->m->reduction);
    w->m->reduction = NULL;
    return end_frames(w, err);
}

static sac_status next_frames(sac_media_work *w, bool *done, sac_error *err) {
    int64_t n_frames = w->m->frames.n_frames;
    for (; w->n_read < n_frames && w->n_tiles < batch_tiles(w); w->n_tiles++) SAC_TRY(read_tile(w, err));
    SAC_TRY(flush_frames(w, err));
    *done = w->n_read == n_frames;
    if (!*done) return SAC_OK;
    SAC_TRY(collect_frames(w, !w->slot, err));
    if (w->m->n_kept) SAC_TRY(sac_reduction_end(w->s, w->m, err));
    if (w->only_chooses) return SAC_OK;
    if (w->m->n_kept) return write_reduced(w, err);
    return end_frames(w, err);
}

/* ---------------------------------------------------------------- a picture */

/* Where each visual token of a picture comes from. */
static void choose_layout(sac_session *s, const sac_media *m) {
    const sac_loaded_model *model = &s->model->loaded;
    sac_reduce_picture picture = sac_media_tiling(&m->plan);
    int64_t stride = m->plan.tokens_per_tile + 1; /* the class token's own share comes first */
    const float *first = s->vision.class_attention + 1, *last = first + s->vision.max_tiles * stride;
    if (sac_reduce_sees_pictures(&s->reduce))
        sac_reduce_choose(&s->reduce, &picture, first, last, stride, s->vision.layout);
    else if (m->plan.blends)
        sac_processor_blend(&model->processor, &m->plan, s->vision.blend.source, s->vision.blend.weight);
    else
        sac_processor_layout(&model->processor, &m->plan, s->vision.layout);
}

/* The tower says what its class token looks at, from tile `first` on. */
static void watch_class(sac_session *s, const sac_media *m, int64_t first) {
    sac_tower_state *v = &s->vision.tower;
    int64_t stride = m->plan.tokens_per_tile + 1;
    const bool is_watched = sac_reduce_sees_pictures(&s->reduce);
    v->class_first = is_watched ? s->vision.class_attention + first * stride : NULL;
    v->class_last = is_watched ? v->class_first + s->vision.max_tiles * stride : NULL;
}

/* Tokens y of the picture, from token `first` on, out of its tiles' rows x. */
static sac_status lay_out_rows(const sac_media_work *w, sac_mat y, int64_t first, sac_mat x,
                               const float *newline) {
    const sac_session *s = w->s;
    const sac_vision_state *v = &s->vision;
    const sac_ops *ops = &s->model->ops;
    if (w->m->plan.blends)
        return ops->blend_rows(&s->stream,
                               &(sac_blend_rows_args){.y = y,
                                                      .x = x,
                                                      .source = v->blend.source + first * SAC_BLEND_TAPS,
                                                      .weight = v->blend.weight + first * SAC_BLEND_TAPS,
                                                      .fill = newline,
                                                      .n_tiles = 1});
    return ops->gather_rows(
        &s->stream, &(sac_gather_rows_args){.y = y, .x = x, .source = v->layout + first, .fill = newline});
}

/* Of the host's rows, some at a time where the prompt's are on a device. */
static sac_status lay_out_on_host(const sac_media_work *w, sac_mat to, sac_mat from, const float *newline) {
    const sac_session *s = w->s;
    const sac_vision_state *v = &s->vision;
    bool direct = !sac_model_on_device(s->model);
    int64_t raw_rows = full_batch(w) * w->m->tower.n_features / sac_merger_joins(&s->model->loaded.merger);
    int64_t most = direct ? to.rows : raw_rows;
    for (int64_t at = 0; at < to.rows && to.data; at += most) {
        sac_mat some = sac_mat_rows(to, at, to.rows - at < most ? to.rows - at : most);
        sac_mat y = direct ? some : sac_mat_f32(v->raw, some.rows, some.cols);
        SAC_TRY(lay_out_rows(w, y, at, from, newline));
        if (!direct) SAC_TRY(sac_visual_write(s, some, v->raw));
    }
    return SAC_OK;
}

static sac_status lay_out(const sac_media_work *w, sac_error *err) {
    sac_session *s = w->s;
    const batch_rows from = buffer_rows(w, 0, (int64_t)w->m->plan.n_tiles * w->m->plan.tokens_per_tile);
    if (w->m->n_blocks > 1) return sac_tower_explain(s, spread(w, 0, from), err);
    sac_visual_mat to = sac_visual_run(s, w->m, 0, w->m->plan.n_tokens);
    choose_layout(s, w->m);
    if (!from.on_host) return sac_tower_lay_out(s, to, from.y, w->m->plan.blends, err);
    sac_status st = lay_out_on_host(w, to.rows, from.y.rows, s->model->loaded.image_newline);
    if (st == SAC_OK) st = lay_out_on_host(w, to.deep, from.y.deep, NULL);
    return sac_tower_explain(s, st, err);
}

static sac_status next_tiles(sac_media_work *w, bool *done, sac_error *err) {
    sac_session *s = w->s;
    const sac_visual_plan *p = &w->m->plan;
    int64_t first = w->n_done, left = p->n_tiles - first, each = p->tokens_per_tile;
    int n = left < batch_tiles(w) ? (int)left : batch_tiles(w);
    const uint8_t *patches = w->m->patches + sac_visual_bytes(p, first);
    SAC_TRY(sac_session_check_cancel(s, err));
    watch_class(s, w->m, first);
    SAC_TRY(submit(w, 0, patches, n, buffer_rows(w, first * each, n * each), err));
    SAC_TRY(wait_for(w, 0, err));
    tell_tiles(w, patches, first, n);
    w->n_done += n;
    *done = w->n_done == p->n_tiles;
    if (!*done) return SAC_OK;
    SAC_TRY(lay_out(w, err));
    report_progress(w, 1);
    return SAC_OK;
}

/* ---------------------------------------------------------------- the work */

static void finish(sac_media_work *w) {
    sac_media_close_source(w->m);
    w->s = NULL;
}

void sac_media_work_drop(sac_media_work *w) {
    if (!w->s) return;
    sac_tower_drain(w->s);
    finish(w);
}

/* The tables by which the merger blends the tokens of each frame. */
static sac_status begin_frames(const sac_media_work *w, sac_error *err) {
    sac_session *s = w->s;
    const sac_visual_plan *p = &w->m->plan;
    if (!p->is_video_frame || !p->blends) return SAC_OK;
    sac_processor_blend(&s->model->loaded.processor, p, s->vision.blend.source, s->vision.blend.weight);
    return sac_tower_send_blend(s, p->n_tokens, err);
}

/* Which rows of the video stay was found out before the prompt was placed, and they wait. */
static sac_status end_chosen(sac_media_work *w, sac_error *err) {
    SAC_TRY(write_reduced(w, err));
    if (sac_source_is_unchanged(w->m)) SAC_TRY(sac_visual_keep(w->s, w->m, err));
    finish(w);
    return SAC_OK;
}

static sac_status begin(sac_media_work *w, sac_error *err) {
    sac_session *s = w->s;
    sac_media *m = w->m;
    s->vision.tower.class_first = s->vision.tower.class_last = NULL;
    if (m->reduction) return end_chosen(w, err);
    if (!w->only_chooses) SAC_TRY(sac_visual_recall(s, m, &m->report.from_cache, err));
    s->reports[m - s->media] = sac_media_told(m);
    if (m->report.from_cache) {
        finish(w);
        return SAC_OK;
    }
    report_progress(w, 0);
    SAC_TRY(sac_media_reopen(s, m, err));
    SAC_TRY(begin_frames(w, err));
    if (m->n_kept) SAC_TRY(sac_reduction_begin(s, m, err));
    if (m->content != SAC_PART_VIDEO) return SAC_OK;
    sac_rotate rotate = m->part->video.no_rotate ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO;
    return sac_video_begin(m->video, &m->frames, rotate, err);
}

static sac_status next(sac_media_work *w, sac_error *err) {
    bool done;
    SAC_TRY(w->m->content == SAC_PART_IMAGE ? next_tiles(w, &done, err) : next_frames(w, &done, err));
    if (!done) return SAC_OK;
    if (!w->only_chooses && sac_source_is_unchanged(w->m)) SAC_TRY(sac_visual_keep(w->s, w->m, err));
    finish(w);
    return SAC_OK;
}

/* Of the time since then, all that was not the tower's counts as the media's. */
static sac_status count(sac_media_work *w, sac_status st, int64_t start_ns, double vision_before) {
    w->media_seconds += sac_seconds_since(start_ns) - (w->vision_seconds - vision_before);
    if (st != SAC_OK) sac_media_work_drop(w);
    return st;
}

static sac_status begin_item(sac_media_work *w, sac_session *s, size_t i, bool only_chooses, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    *w = (sac_media_work){.s = s, .m = &s->media[i], .only_chooses = only_chooses};
    return count(w, begin(w, err), start_ns, 0);
}

sac_status sac_media_work_begin(sac_media_work *w, sac_session *s, size_t i, sac_error *err) {
    return begin_item(w, s, i, false, err);
}

sac_status sac_media_work_begin_choice(sac_media_work *w, sac_session *s, size_t i, sac_error *err) {
    return begin_item(w, s, i, true, err);
}

sac_status sac_media_work_next(sac_media_work *w, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    double vision_before = w->vision_seconds;
    return count(w, next(w, err), start_ns, vision_before);
}
