#include "media_batch.h"

#include "call.h"
#include "clock.h"
#include "device_tower.h"
#include "media_open.h"
#include "media_reduce.h"
#include "picture.h"
#include "prepared.h"
#include "source.h"

#include <string.h>

/* ---------------------------------------------------------------- frames */

/* Rows to where the prompt wants the item's tokens from `first` on. */
static sac_status spread(const sac_media_work *w, int64_t first, sac_batch_rows from) {
    return (from.on_host ? sac_visual_write_tokens : sac_visual_copy_tokens)(w->s, w->m, first, from.y);
}

/* The rows of n tiles that were not made where the prompt wants them go there. On a device the copies come
 * behind the batch in the session's stream. */
static sac_status spread_frames(const sac_media_work *w, int64_t first_tile, int n, sac_batch_rows from) {
    int64_t each = w->m->plan.n_tokens, first = first_tile * each;
    sac_visual_mat run = sac_visual_run(w->s, w->m, first, n * each);
    return run.rows.data == from.y.rows.data ? SAC_OK : spread(w, first, from);
}

static void tell_frames(sac_media_work *w, int slot, int n) {
    sac_media_tell_tiles(w, sac_media_slot_patches(w, slot), w->n_done, n);
    w->n_done += n;
    int64_t n_frames = w->n_done * w->m->plan.frames;
    sac_media_tell_progress(w, n_frames < w->m->frames.n_frames ? n_frames : w->m->frames.n_frames);
}

static sac_status collect_frames(sac_media_work *w, int slot, sac_error *err) {
    int n = w->in_flight[slot];
    SAC_TRY(sac_media_wait(w, slot, err));
    if (n) tell_frames(w, slot, n);
    return SAC_OK;
}

/* What waits goes to the device; then the batch before it is collected, and its slot is the next to fill. */
static sac_status flush_frames(sac_media_work *w, sac_error *err) {
    int n = w->n_tiles, slot = w->slot;
    if (n == 0) return SAC_OK;
    SAC_TRY(sac_session_check_cancel(w->s, err));
    int64_t first = w->n_done + w->in_flight[!slot];
    sac_batch_rows rows = w->m->n_kept ? sac_media_buffer_rows(w, 0, n * w->m->plan.n_tokens) : sac_media_frame_rows(w, first, n);
    SAC_TRY(sac_media_submit(w, slot, sac_media_slot_patches(w, slot), n, rows, err));
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
    return sac_media_slot_patches(w, w->slot) + sac_visual_bytes(&w->m->plan, w->n_tiles);
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
    for (; w->n_read < n_frames && w->n_tiles < sac_media_batch_tiles(w); w->n_tiles++) SAC_TRY(read_tile(w, err));
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
    int64_t raw_rows = sac_media_full_batch(w) * w->m->tower.n_features / sac_merger_joins(&s->model->loaded.merger);
    int64_t most = direct ? to.rows : raw_rows;
    for (int64_t at = 0; at < to.rows && to.data; at += most) {
        sac_mat some = sac_mat_rows(to, at, to.rows - at < most ? to.rows - at : most);
        sac_mat y = direct ? some : sac_mat_f32(v->raw, some.rows, some.cols);
        SAC_TRY(lay_out_rows(w, y, at, from, newline));
        if (!direct) SAC_TRY(sac_visual_write(s, some, v->raw));
    }
    return SAC_OK;
}

/* A picture whose rows begin at row `first` of the buffer. */
static sac_status lay_out(const sac_media_work *w, int64_t first, sac_error *err) {
    sac_session *s = w->s;
    const sac_batch_rows from =
        sac_media_buffer_rows(w, first, (int64_t)w->m->plan.n_tiles * w->m->plan.tokens_per_tile);
    if (w->m->n_blocks > 1) return sac_tower_explain(s, spread(w, 0, from), err);
    sac_visual_mat to = sac_visual_run(s, w->m, 0, w->m->plan.n_tokens);
    choose_layout(s, w->m);
    if (!from.on_host) return sac_tower_lay_out(s, to, from.y, w->m->plan.blends, err);
    sac_status st = lay_out_on_host(w, to.rows, from.y.rows, s->model->loaded.image_newline);
    if (st == SAC_OK) st = lay_out_on_host(w, to.deep, from.y.deep, NULL);
    return sac_tower_explain(s, st, err);
}

/* Into the cache, unless its rows come from there. */
static sac_status keep(const sac_media_work *w, sac_error *err) {
    if (w->only_chooses || w->m->report.from_cache || !sac_source_is_unchanged(w->m)) return SAC_OK;
    return sac_visual_keep(w->s, w->m, err);
}

/* Pictures that go together: one batch, then each to its places. Afterwards w->m is the last of them. */
static sac_status joined_tiles(sac_media_work *w, sac_error *err) {
    const int64_t each = w->m->plan.tokens_per_tile, start_ns = sac_now_ns();
    int n;
    SAC_TRY(sac_session_check_cancel(w->s, err));
    const uint8_t *patches = sac_media_joined_patches(w, &n);
    w->vision_seconds += sac_seconds_since(start_ns);
    SAC_TRY(sac_media_submit(w, 0, patches, n, sac_media_buffer_rows(w, 0, n * each), err));
    SAC_TRY(sac_media_wait(w, 0, err));
    for (const sac_media *last = w->m + w->n_joined;; w->m++) {
        if (!w->m->report.from_cache) {
            if (w->n_done) sac_media_tell_progress(w, 0);
            sac_media_tell_tiles(w, w->m->patches, 0, w->m->plan.n_tiles);
            SAC_TRY(lay_out(w, w->n_done * each, err));
            w->n_done += w->m->plan.n_tiles;
            sac_media_tell_progress(w, 1);
        }
        if (w->m == last) return SAC_OK;
        SAC_TRY(keep(w, err));
        sac_media_close_source(w->m);
    }
}

static sac_status next_tiles(sac_media_work *w, bool *done, sac_error *err) {
    sac_session *s = w->s;
    if (w->n_done == 0) SAC_TRY(sac_media_join(w, err));
    *done = w->n_joined > 0;
    if (*done) return joined_tiles(w, err);
    const sac_visual_plan *p = &w->m->plan;
    int64_t first = w->n_done, left = p->n_tiles - first, each = p->tokens_per_tile;
    int n = left < sac_media_batch_tiles(w) ? (int)left : sac_media_batch_tiles(w);
    const uint8_t *patches = w->m->patches + sac_visual_bytes(p, first);
    SAC_TRY(sac_session_check_cancel(s, err));
    watch_class(s, w->m, first);
    SAC_TRY(sac_media_submit(w, 0, patches, n, sac_media_buffer_rows(w, first * each, n * each), err));
    SAC_TRY(sac_media_wait(w, 0, err));
    sac_media_tell_tiles(w, patches, first, n);
    w->n_done += n;
    *done = w->n_done == p->n_tiles;
    if (!*done) return SAC_OK;
    SAC_TRY(lay_out(w, 0, err));
    sac_media_tell_progress(w, 1);
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
    sac_media_tell_progress(w, 0);
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
    SAC_TRY(keep(w, err));
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
