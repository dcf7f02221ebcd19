/* One picture or video, opened and measured: how many tiles and tokens, which frames. Measuring a picture
 * takes its decoding, of which only the patch rows are kept; of a video the container is read. What this
 * model has measured before is known without opening it (source.h), and then it is opened only if its
 * embeddings are in no cache. */
#include "media_open.h"
#include "media_reduce.h"
#include "picture.h"
#include "prepared.h"
#include "room.h"
#include "source.h"

#include <math.h>
#include <stdlib.h>

sac_reduce_picture sac_media_tiling(const sac_visual_plan *p) {
    return (sac_reduce_picture){p->n_tiles, p->tokens.h, p->tokens.w, p->tiles_w, p->tiles_h};
}

/* What the tower makes of the item's tiles. */
static sac_status plan_tower(const sac_session *s, sac_media *m, sac_error *err) {
    const sac_tower_config *c = &s->model->loaded.tower.config;
    return c->kind->plan(c, m->plan.tile_w, m->plan.tile_h, m->plan.frames, &m->tower, err);
}

static bool has_several_pictures(const sac_session *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_media; i++) n += s->media[i].content == SAC_PART_IMAGE;
    return n > 1;
}

static sac_status plan_picture(sac_session *s, sac_media *m, int width, int height, sac_error *err) {
    SAC_TRY(sac_processor_plan(&s->model->loaded.processor, width, height, has_several_pictures(s), &m->plan,
                               err));
    SAC_TRY(plan_tower(s, m, err));
    sac_reduce_picture picture = sac_media_tiling(&m->plan);
    if (sac_reduce_sees_pictures(&s->reduce)) m->plan.n_tokens = sac_reduce_count(&s->reduce, &picture);
    if (m->plan.n_tiles > s->vision.max_tiles || m->plan.n_tokens > s->vision.max_tokens)
        return sac_fail(err, SAC_INTERNAL,
                        "a picture of %d tiles and %lld tokens is more than was planned for", m->plan.n_tiles,
                        (long long)m->plan.n_tokens);
    return SAC_OK;
}

static sac_status cut_picture(sac_session *s, sac_media *m, const sac_image *image, sac_error *err) {
    const sac_processor_config *p = &s->model->loaded.processor;
    m->patches = m->own_patches = malloc(sac_visual_bytes(&m->plan, m->plan.n_tiles));
    if (!m->patches) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d tiles", m->plan.n_tiles);
    return sac_processor_cut(p, image, &m->plan, m->own_patches, err);
}

static sac_status open_picture(sac_session *s, sac_media *m, int *width, int *height, sac_error *err) {
    sac_picture p = sac_part_picture(m->part, 0);
    sac_image image;
    if (p.prepared) {
        SAC_TRY(plan_picture(s, m, *width = p.prepared->plan.width, *height = p.prepared->plan.height, err));
        m->patches = sac_prepared_patches(p.prepared, &m->plan);
        return SAC_OK;
    }
    SAC_TRY(sac_picture_open(&image, &p, err));
    *width = image.width;
    *height = image.height;
    sac_status st = plan_picture(s, m, image.width, image.height, err);
    if (st == SAC_OK) st = cut_picture(s, m, &image, err);
    sac_picture_close(&image, &p);
    return st;
}

/* A picture in a file is decoded for its size, unless this model has met it before. */
static sac_status prepare_image(sac_session *s, sac_media *m, sac_error *err) {
    sac_picture p = sac_part_picture(m->part, 0);
    int width, height;
    if (p.prepared) SAC_TRY(sac_prepared_check(p.prepared, s->model, false, err));
    if (sac_picture_has_size(&p, &width, &height) || sac_source_recall(s, m, NULL, &width, &height)) {
        SAC_TRY(plan_picture(s, m, width, height, err));
    } else {
        SAC_TRY(open_picture(s, m, &width, &height, err));
        SAC_TRY(sac_source_read(s, m, err));
        sac_source_remember(s, m, NULL, width, height);
    }
    const bool has_texts = sac_processor_has_texts(&s->model->loaded.processor);
    m->n_blocks = has_texts ? (int64_t)m->plan.n_tiles * sac_visual_parts(&m->plan) : 1;
    m->block_tokens = m->plan.crops.n > 1 ? 0 : m->plan.n_tokens / m->n_blocks;
    m->report = (sac_media_report){.kind = m->content,
                                   .width = width,
                                   .height = height,
                                   .n_frames = 1,
                                   .n_tiles = m->plan.n_tiles,
                                   .rule = "picture"};
    return SAC_OK;
}

sac_status sac_media_plan_frame(sac_session *s, int width, int height, int64_t n_frames,
                                sac_visual_plan *plan, sac_error *err) {
    SAC_TRY(sac_processor_plan_frame(&s->model->loaded.processor, width, height, n_frames, plan, err));
    if (plan->n_tiles != 1 || plan->n_tokens != plan->tokens_per_tile)
        return sac_fail(err, SAC_INTERNAL, "a video frame of %d tiles", plan->n_tiles);
    return SAC_OK;
}

/* A frame costs the pixels of the tower's input, whatever the size of the source: that is what the model pays
 * for. */
static sac_status frame_request(const sac_session *s, const sac_media *m, const sac_video_options *o,
                                int64_t room, const sac_visual_plan *frame, sac_frame_request *r,
                                sac_error *err) {
    if (o->num_frames < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "num_frames %d: give 1 or more", o->num_frames);
    if (o->max_frames < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "max_frames %d: give 1 or more", o->max_frames);
    if (o->max_pixels < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "max_pixels %lld: give 1 or more", (long long)o->max_pixels);
    const int64_t fit = sac_room_frames_in(s->model, &s->reduce, room, frame), most = o->max_frames;
    const bool is_asked = m->part->video.max_frames != 0; /* what nobody asked for may become less */
    *r = (sac_frame_request){.has_fps = o->fps != 0,
                             .fps = o->fps,
                             .has_num_frames = o->num_frames != 0,
                             .num_frames = o->num_frames,
                             .has_max_frames = true,
                             .max_frames = most && (is_asked || most < fit) ? most : fit,
                             .max_frames_silent = !is_asked,
                             .skip_s = o->skip_s,
                             .skip_most = most,
                             .pace = (sac_frame_pace)o->pace,
                             .most_s = o->most_s,
                             .key_frames = o->key_frames,
                             .has_max_pixels = o->max_pixels != 0,
                             .max_pixels = o->max_pixels,
                             .frame_pixels = (int64_t)frame->tile_w * frame->tile_h};
    return SAC_OK;
}

static sac_status describe_frames(const sac_session *s, sac_media *m, const sac_visual_plan *plan, int width,
                                  int height, sac_error *err) {
    sac_frame_layout layout = s->model->loaded.frame_layout;
    m->plan = *plan;
    int64_t n_tiles = sac_visual_tiles(plan, m->frames.n_frames);
    m->n_blocks = layout == SAC_FRAMES_JOINED ? 1 : n_tiles * sac_visual_parts(plan);
    m->block_tokens = plan->crops.n > 1 ? 0 : plan->n_tokens * n_tiles / m->n_blocks + s->model->loaded.video_newline;
    m->report = (sac_media_report){.kind = m->content,
                                   .width = width,
                                   .height = height,
                                   .n_frames = (int)m->frames.n_frames,
                                   .n_tiles = (int)n_tiles,
                                   .source_fps = m->frames.source_fps,
                                   .duration_s = m->frames.duration_s,
                                   .source_frames = m->frames.total_frames,
                                   .rule = m->frames.text,
                                   .time_s = m->frames.time_s};
    SAC_TRY(sac_media_reduce_plan(s, m, err));
    return plan_tower(s, m, err);
}

static sac_status open_video(sac_session *s, sac_media *m, sac_error *err) {
    const sac_part *p = m->part;
    sac_video_limits limits = sac_video_limits_default();
    limits.n_threads = sac_pool_n_threads(s->model->pool) < 8 ? sac_pool_n_threads(s->model->pool) : 8;
    if (p->path) return sac_video_open(&m->video, p->path, &limits, err);
    if (p->bytes) return sac_video_open_bytes(&m->video, p->bytes, p->n_bytes, &limits, err);
    return sac_fail(err, SAC_BAD_ARGUMENT, "a video needs a path or bytes");
}

/* A bound that only the context sets differs from question to question, and matters only where it binds: what
 * was chosen without it is remembered too. */
static bool recall_video(sac_session *s, sac_media *m, const sac_frame_request *r, int *width, int *height) {
    sac_frame_request unbound = *r;
    unbound.has_max_frames = false;
    if (sac_source_recall(s, m, r, width, height)) return true;
    if (m->part->video.max_frames || !sac_source_recall(s, m, &unbound, width, height)) return false;
    if (m->frames.n_frames <= r->max_frames) return true;
    sac_frame_plan_free(&m->frames);
    return false;
}

static void remember_video(sac_session *s, const sac_media *m, const sac_frame_request *r, int width,
                           int height) {
    sac_frame_request unbound = *r;
    unbound.has_max_frames = false;
    sac_source_remember(s, m, r, width, height);
    if (m->frames.rule != SAC_SAMPLED_BY_MAX_FRAMES) sac_source_remember(s, m, &unbound, width, height);
}

/* The frame that a video's frames are counted by: any, where all cost the same. Where they do not, its size must be
 * known first. */
static sac_status video_frame(sac_session *s, sac_media *m, sac_visual_plan *frame, sac_error *err) {
    const sac_processor_config *p = &s->model->loaded.processor;
    int width = p->tile_size, height = p->tile_size;
    if (p->dialect->largest && !sac_source_recall(s, m, NULL, &width, &height)) {
        SAC_TRY(open_video(s, m, err));
        width = sac_video_get_info(m->video)->width;
        height = sac_video_get_info(m->video)->height;
        SAC_TRY(sac_source_read(s, m, err));
        sac_source_remember(s, m, NULL, width, height);
    }
    return sac_media_plan_frame(s, width, height, 0, frame, err);
}

/* Chooses frames by the request that follows from a frame's plan. */
typedef sac_status (*choose_fn)(sac_session *s, sac_media *m, const sac_frame_request *request, int *width,
                                int *height, sac_error *err);

/* Frames by the options; *frame is the plan of one, at first of any, then of what was chosen. Where it depends on their
 * number, and their number on what fits, they are chosen until both agree, which they do from one side: a frame of more
 * never is larger. */
static sac_status choose_frames(sac_session *s, sac_media *m, const sac_video_options *options, int64_t room,
                                choose_fn choose, sac_visual_plan *frame, int *width, int *height,
                                sac_error *err) {
    enum { MOST_TURNS = 64 };
    int64_t n = 0;
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        sac_frame_request request;
        sac_frame_plan_free(&m->frames);
        SAC_TRY(frame_request(s, m, options, room, frame, &request, err));
        SAC_TRY(choose(s, m, &request, width, height, err));
        SAC_TRY(sac_media_plan_frame(s, *width, *height, m->frames.n_frames, frame, err));
        if (!s->model->loaded.processor.dialect->counts_frames || m->frames.n_frames == n) break;
        n = m->frames.n_frames;
    }
    return SAC_OK;
}

sac_video_options sac_model_video_options(const sac_model *m, sac_video_options asked) {
    const sac_processor_sampling *own = &m->loaded.processor.sampling;
    if (asked.fps != 0 || asked.num_frames != 0) return asked;
    asked.fps = own->fps > 0 ? own->fps : m->loaded.video_fps;
    asked.skip_s = own->skip_s;
    asked.pace = own->pace;
    asked.most_s = own->most_s;
    if (asked.max_frames == 0) asked.max_frames = own->most_frames;
    return asked;
}

static sac_status choose_of_video(sac_session *s, sac_media *m, const sac_frame_request *request, int *width,
                                  int *height, sac_error *err) {
    if (recall_video(s, m, request, width, height)) return SAC_OK;
    if (!m->video) SAC_TRY(open_video(s, m, err));
    const sac_video_info *info = sac_video_get_info(m->video);
    *width = info->width;
    *height = info->height;
    SAC_TRY(sac_video_plan(m->video, request, &m->frames, err));
    SAC_TRY(sac_source_read(s, m, err));
    remember_video(s, m, request, *width, *height);
    return SAC_OK;
}

static sac_status prepare_video(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    int width = 0, height = 0;
    sac_visual_plan frame;
    const sac_video_options options = sac_model_video_options(s->model, m->part->video);
    SAC_TRY(video_frame(s, m, &frame, err));
    SAC_TRY(choose_frames(s, m, &options, room, choose_of_video, &frame, &width, &height, err));
    return describe_frames(s, m, &frame, width, height, err);
}

/* Of the first picture of a list: it goes into the report; all are decoded when they are encoded. */
static sac_status list_size(const sac_media *m, int *width, int *height, sac_error *err) {
    sac_picture first = sac_part_picture(m->part, 0);
    sac_image image;
    if (sac_picture_has_size(&first, width, height)) return SAC_OK;
    SAC_TRY(sac_picture_open(&image, &first, err));
    *width = image.width;
    *height = image.height;
    sac_picture_close(&image, &first);
    return SAC_OK;
}

static sac_status plan_list(sac_media *m, const sac_frame_request *request, int *width, int *height,
                            sac_error *err) {
    size_t n = sac_part_n_pictures(m->part);
    sac_picture first = sac_part_picture(m->part, 0), last = sac_part_picture(m->part, n - 1);
    SAC_TRY(list_size(m, width, height, err));
    double span = last.time_s - first.time_s;
    sac_sampling_source source = {.total_frames = (int64_t)n,
                                  .frame_pixels = (int64_t)*width * *height,
                                  .fps = span > 0 ? (double)(n - 1) / span : 0};
    SAC_TRY(sac_sampling_plan(&m->frames, request, &source, err));
    for (int64_t i = 0; i < m->frames.n_frames; i++)
        m->frames.time_s[i] = sac_part_picture(m->part, (size_t)m->frames.index[i]).time_s;
    return SAC_OK;
}

/* Seconds: more than any clock's, and few enough for texts and whole numbers of them. */
#define MOST_SECONDS 1e12

/* A list has a frame at least, each comes after the one before, and what is prepared is a frame. */
static sac_status check_list(const sac_session *s, const sac_part *p, sac_error *err) {
    size_t n = sac_part_n_pictures(p);
    double before = 0;
    if (n == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "a list of frames is empty");
    for (size_t i = 0; i < n; i++) {
        sac_picture f = sac_part_picture(p, i);
        if (f.prepared) SAC_TRY(sac_prepared_check(f.prepared, s->model, true, err));
        if (!(fabs(f.time_s) <= MOST_SECONDS))
            return sac_fail(err, SAC_BAD_ARGUMENT, "frame %zu is at %g s: give times of at most %g s", i, f.time_s, MOST_SECONDS);
        if (i && !(f.time_s > before))
            return sac_fail(err, SAC_BAD_ARGUMENT, "frame %zu at %g s does not come after frame %zu at %g s",
                            i, f.time_s, i - 1, before);
        before = f.time_s;
    }
    return SAC_OK;
}

static sac_status choose_of_list(sac_session *s, sac_media *m, const sac_frame_request *request, int *width,
                                 int *height, sac_error *err) {
    if (recall_video(s, m, request, width, height)) return SAC_OK;
    SAC_TRY(plan_list(m, request, width, height, err));
    SAC_TRY(sac_source_read(s, m, err));
    remember_video(s, m, request, *width, *height);
    return SAC_OK;
}

static sac_status prepare_frames(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    SAC_TRY(check_list(s, m->part, err));
    const sac_processor_config *p = &s->model->loaded.processor;
    int width = p->tile_size, height = p->tile_size;
    sac_visual_plan frame;
    if (p->dialect->largest && !sac_source_recall(s, m, NULL, &width, &height)) {
        SAC_TRY(list_size(m, &width, &height, err));
        SAC_TRY(sac_source_read(s, m, err));
        sac_source_remember(s, m, NULL, width, height);
    }
    SAC_TRY(sac_media_plan_frame(s, width, height, 0, &frame, err));
    SAC_TRY(choose_frames(s, m, &m->part->video, room, choose_of_list, &frame, &width, &height, err));
    return describe_frames(s, m, &frame, width, height, err);
}

sac_status sac_media_measure(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    SAC_TRY(sac_session_check_cancel(s, err));
    SAC_TRY(sac_part_check(m->part, err));
    SAC_TRY(sac_source_find(s, m, err));
    switch (m->content) {
    case SAC_PART_IMAGE: SAC_TRY(prepare_image(s, m, err)); break;
    case SAC_PART_VIDEO: SAC_TRY(prepare_video(s, m, room, err)); break;
    case SAC_PART_FRAMES: SAC_TRY(prepare_frames(s, m, room, err)); break;
    case SAC_PART_TEXT:
    case SAC_PART_PIXELS: break; /* no content is either */
    }
    m->report.n_tokens = m->n_kept ? m->n_kept + s->model->loaded.video_newline : sac_media_block_first(m, m->n_blocks);
    SAC_TRY(sac_source_key(s, m, err));
    sac_media_recall_kept(s, m);
    return SAC_OK;
}
sac_status sac_media_reopen(sac_session *s, sac_media *m, sac_error *err) {
    int width = m->report.width, height = m->report.height;
    if (m->content == SAC_PART_IMAGE && !m->patches) {
        SAC_TRY(open_picture(s, m, &width, &height, err));
    } else if (m->content == SAC_PART_VIDEO && !m->video) {
        SAC_TRY(open_video(s, m, err));
        width = sac_video_get_info(m->video)->width;
        height = sac_video_get_info(m->video)->height;
    }
    if (width == m->report.width && height == m->report.height && m->plan.n_tokens > 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s has changed since it was measured: ask again",
                    m->part->path ? m->part->path : "a picture or video");
}

void sac_media_close_source(sac_media *m) {
    free(m->own_patches);
    m->patches = m->own_patches = NULL;
    sac_video_free(m->video);
    m->video = NULL;
}
