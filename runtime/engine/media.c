/* Pictures and videos: measured first, so that a prompt that does not fit is refused before the tower runs;
 * encoded after that, straight into the rows of hidden states where the prompt wants them. Measuring a
 * picture takes its decoding, of which only the tower's tiles are kept; of a video the container is read.
 * What this model has measured before is known without opening it (source.h), and then it is opened only if
 * its embeddings are in no cache. */
#define _GNU_SOURCE
#include "clock.h"
#include "device_tower.h"
#include "generate.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

uint64_t sac_media_identity(const sac_session *s, size_t i, int64_t index) {
    uint64_t h;
    memcpy(&h, s->media[i].key.hash, sizeof h);
    h ^= (uint64_t)index * 0x9e3779b97f4a7c15u;
    return h | (uint64_t)1 << 63; /* token ids have no top bit, so a visual row never equals a text row */
}

/* ---------------------------------------------------------------- opening and measuring */

static sac_status open_picture(sac_image *image, const char *path, const void *bytes, size_t n_bytes,
                               sac_error *err) {
    if (path) return sac_image_open(image, path, NULL, err);
    if (!bytes) return sac_fail(err, SAC_BAD_ARGUMENT, "a picture needs a path or bytes");
    return sac_image_decode(image, bytes, n_bytes, NULL, err);
}

/* Bytes of n tiles of the tower's input. */
static size_t tile_bytes(const sac_session *s, int64_t n) {
    size_t side = (size_t)s->model->loaded.processor.tile_size;
    return (size_t)n * side * side * 3;
}

static sac_reduce_picture tiling(const sac_visual_plan *p) {
    return (sac_reduce_picture){p->n_tiles, p->grid, p->tiles_w, p->tiles_h};
}

static sac_status plan_picture(sac_session *s, sac_media *m, int width, int height, sac_error *err) {
    SAC_TRY(sac_processor_plan(&s->model->loaded.processor, width, height, false, &m->plan, err));
    sac_reduce_picture picture = tiling(&m->plan);
    if (s->reduce.is_on) m->plan.n_tokens = sac_reduce_count(&s->reduce, &picture);
    if (m->plan.n_tiles > s->vision.max_tiles || m->plan.n_tokens > s->vision.max_tokens)
        return sac_fail(err, SAC_INTERNAL,
                        "a picture of %d tiles and %lld tokens is more than was planned for", m->plan.n_tiles,
                        (long long)m->plan.n_tokens);
    return SAC_OK;
}

static sac_status cut_picture(sac_session *s, sac_media *m, const sac_image *image, sac_error *err) {
    const sac_processor_config *p = &s->model->loaded.processor;
    m->tiles = malloc(tile_bytes(s, m->plan.n_tiles));
    if (!m->tiles) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d tiles", m->plan.n_tiles);
    return sac_processor_run(p, image, &m->plan, m->tiles, err);
}

static sac_status open_tiles(sac_session *s, sac_media *m, int *width, int *height, sac_error *err) {
    const sac_part *p = m->part;
    sac_image image = {0};
    SAC_TRY(open_picture(&image, p->path, p->bytes, p->n_bytes, err));
    *width = image.width;
    *height = image.height;
    sac_status st = plan_picture(s, m, image.width, image.height, err);
    if (st == SAC_OK) st = cut_picture(s, m, &image, err);
    sac_image_free(&image);
    return st;
}

static sac_status prepare_image(sac_session *s, sac_media *m, sac_error *err) {
    int width, height;
    if (sac_source_recall(s, m, NULL, &width, &height)) {
        SAC_TRY(plan_picture(s, m, width, height, err));
    } else {
        SAC_TRY(open_tiles(s, m, &width, &height, err));
        SAC_TRY(sac_source_read(s, m, err));
        sac_source_remember(s, m, NULL, width, height);
    }
    m->n_blocks = 1;
    m->block_tokens = m->plan.n_tokens;
    m->report = (sac_media_report){.kind = m->part->kind,
                                   .width = width,
                                   .height = height,
                                   .n_frames = 1,
                                   .n_tiles = m->plan.n_tiles,
                                   .rule = "picture"};
    return SAC_OK;
}

/* What one frame costs does not depend on its size: every family makes one tile of it. */
static sac_status plan_frame(sac_session *s, int width, int height, sac_visual_plan *plan, sac_error *err) {
    SAC_TRY(sac_processor_plan(&s->model->loaded.processor, width, height, true, plan, err));
    if (plan->n_tiles != 1 || plan->n_tokens != plan->tokens_per_tile)
        return sac_fail(err, SAC_INTERNAL, "a video frame of %d tiles", plan->n_tiles);
    return SAC_OK;
}

/* Frames that the share of the context left to this video can hold: the bound when nobody gives one. */
static int64_t context_frames(int64_t room, const sac_visual_plan *frame) {
    int64_t each = frame->n_tokens + 1;
    return room / each > 0 ? room / each : 1;
}

/* A frame costs the pixels of the tower's input, whatever the size of the source: that is what the model pays
 * for. */
static sac_status frame_request(const sac_video_options *o, int64_t room, const sac_visual_plan *frame,
                                sac_frame_request *r, sac_error *err) {
    if (o->num_frames < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "num_frames %d: give 1 or more", o->num_frames);
    if (o->max_frames < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "max_frames %d: give 1 or more", o->max_frames);
    if (o->max_pixels < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "max_pixels %lld: give 1 or more", (long long)o->max_pixels);
    *r = (sac_frame_request){.has_fps = o->fps != 0,
                             .fps = o->fps,
                             .has_num_frames = o->num_frames != 0,
                             .num_frames = o->num_frames,
                             .has_max_frames = true,
                             .max_frames = o->max_frames ? o->max_frames : context_frames(room, frame),
                             .max_frames_silent = o->max_frames == 0,
                             .has_max_pixels = o->max_pixels != 0,
                             .max_pixels = o->max_pixels,
                             .frame_pixels = (int64_t)frame->tile_size * frame->tile_size};
    return SAC_OK;
}

static void describe_frames(sac_media *m, const sac_visual_plan *plan, sac_frame_layout layout, int width,
                            int height) {
    m->plan = *plan;
    m->n_blocks = layout == SAC_FRAMES_SEPARATE ? m->frames.n_frames : 1;
    m->block_tokens = layout == SAC_FRAMES_SEPARATE ? plan->n_tokens : plan->n_tokens * m->frames.n_frames;
    m->report = (sac_media_report){.kind = m->part->kind,
                                   .width = width,
                                   .height = height,
                                   .n_frames = (int)m->frames.n_frames,
                                   .n_tiles = (int)m->frames.n_frames,
                                   .source_fps = m->frames.source_fps,
                                   .duration_s = m->frames.duration_s,
                                   .source_frames = m->frames.total_frames,
                                   .rule = m->frames.text,
                                   .time_s = m->frames.time_s};
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

static sac_status prepare_video(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    int side = s->model->loaded.processor.tile_size, width, height;
    sac_frame_request request;
    sac_visual_plan frame;
    SAC_TRY(plan_frame(s, side, side, &frame, err));
    SAC_TRY(frame_request(&m->part->video, room, &frame, &request, err));
    if (!recall_video(s, m, &request, &width, &height)) {
        SAC_TRY(open_video(s, m, err));
        const sac_video_info *info = sac_video_get_info(m->video);
        width = info->width;
        height = info->height;
        SAC_TRY(sac_video_plan(m->video, &request, &m->frames, err));
        SAC_TRY(sac_source_read(s, m, err));
        remember_video(s, m, &request, width, height);
    }
    SAC_TRY(plan_frame(s, width, height, &frame, err));
    describe_frames(m, &frame, s->model->loaded.frame_layout, width, height);
    return SAC_OK;
}

/* Size of the first picture of a list goes into the report; all are decoded when they are encoded. */
static sac_status plan_list(sac_media *m, const sac_frame_request *request, int *width, int *height,
                            sac_error *err) {
    const sac_part *p = m->part;
    sac_image first = {0};
    SAC_TRY(open_picture(&first, p->frames[0].path, p->frames[0].bytes, p->frames[0].n_bytes, err));
    *width = first.width;
    *height = first.height;
    sac_image_free(&first);
    double span = p->frames[p->n_frames - 1].time_s - p->frames[0].time_s;
    sac_sampling_source source = {.total_frames = (int64_t)p->n_frames,
                                  .frame_pixels = (int64_t)*width * *height,
                                  .fps = span > 0 ? (double)(p->n_frames - 1) / span : 0};
    SAC_TRY(sac_sampling_plan(&m->frames, request, &source, err));
    for (int64_t i = 0; i < m->frames.n_frames; i++)
        m->frames.time_s[i] = p->frames[m->frames.index[i]].time_s;
    return SAC_OK;
}

static sac_status prepare_frames(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    const sac_part *p = m->part;
    if (p->n_frames == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "a list of frames is empty");
    for (size_t i = 1; i < p->n_frames; i++)
        if (!(p->frames[i].time_s > p->frames[i - 1].time_s))
            return sac_fail(err, SAC_BAD_ARGUMENT, "frame %zu at %g s does not come after frame %zu at %g s",
                            i, p->frames[i].time_s, i - 1, p->frames[i - 1].time_s);
    int side = s->model->loaded.processor.tile_size, width, height;
    sac_visual_plan frame;
    sac_frame_request request;
    SAC_TRY(plan_frame(s, side, side, &frame, err));
    SAC_TRY(frame_request(&p->video, room, &frame, &request, err));
    if (!recall_video(s, m, &request, &width, &height)) {
        SAC_TRY(plan_list(m, &request, &width, &height, err));
        SAC_TRY(sac_source_read(s, m, err));
        remember_video(s, m, &request, width, height);
    }
    SAC_TRY(plan_frame(s, width, height, &frame, err));
    describe_frames(m, &frame, s->model->loaded.frame_layout, width, height);
    return SAC_OK;
}

static sac_status prepare(sac_session *s, sac_media *m, int64_t room, sac_error *err) {
    SAC_TRY(sac_session_check_cancel(s, err));
    SAC_TRY(sac_source_find(s, m, err));
    switch (m->part->kind) {
    case SAC_PART_IMAGE: SAC_TRY(prepare_image(s, m, err)); break;
    case SAC_PART_VIDEO: SAC_TRY(prepare_video(s, m, room, err)); break;
    case SAC_PART_FRAMES: SAC_TRY(prepare_frames(s, m, room, err)); break;
    case SAC_PART_TEXT: break;
    }
    m->report.n_tokens = m->n_blocks * m->block_tokens;
    m->start = calloc((size_t)m->n_blocks, sizeof *m->start);
    if (!m->start) return sac_fail(err, SAC_NO_MEMORY, "no memory for %lld frames", (long long)m->n_blocks);
    return sac_source_key(s, m, err);
}

static bool is_picture(const sac_media *m) {
    return m->part->kind == SAC_PART_IMAGE;
}

/* Tokens that the conversation's texts take, each on its own; the chat format's few come on top. */
static sac_status count_text(const sac_session *s, const sac_message *messages, size_t n_messages, int64_t *n,
                             sac_error *err) {
    *n = 0;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++) {
            const sac_part *p = &messages[i].parts[j];
            if (p->kind != SAC_PART_TEXT || !p->text) continue;
            sac_text_segment segment = {.text = p->text, .n_bytes = strlen(p->text)};
            size_t n_ids = 0;
            sac_status st =
                sac_tokenize(s->model->loaded.tokenizer, &segment, 1, false, NULL, 0, &n_ids, err);
            if (st != SAC_OK && st != SAC_TOO_LONG) return st;
            *n += (int64_t)n_ids;
        }
    return SAC_OK;
}

/* Pictures first: what they, the texts and an answer leave of the context is shared by the videos. */
static sac_status prepare_all(sac_session *s, const sac_message *messages, size_t n_messages,
                              sac_error *err) {
    enum { ANSWER_AND_FORMAT = 256 };
    int64_t n_text, n_videos = 0;
    SAC_TRY(count_text(s, messages, n_messages, &n_text, err));
    int64_t room = s->memory.n_ctx - ANSWER_AND_FORMAT - n_text;
    for (size_t i = 0; i < s->n_media; i++) {
        n_videos += !is_picture(&s->media[i]);
        if (!is_picture(&s->media[i])) continue;
        SAC_TRY(prepare(s, &s->media[i], 0, err));
        room -= s->media[i].report.n_tokens;
    }
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media *m = &s->media[i];
        if (is_picture(m)) continue;
        SAC_TRY(prepare(s, m, room / n_videos--, err));
        room -= m->report.n_tokens;
    }
    for (size_t i = 0; i < s->n_media; i++) s->reports[i] = s->media[i].report;
    return SAC_OK;
}

sac_status sac_media_prepare(sac_session *s, const sac_message *messages, size_t n_messages, sac_error *err) {
    sac_media_release(s);
    size_t n = 0;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++) n += messages[i].parts[j].kind != SAC_PART_TEXT;
    if (n == 0) return SAC_OK;
    if (!s->model->loaded.has_vision)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "this model reads text only (family %s): give a model with a vision tower for "
                        "pictures and videos",
                        s->model->loaded.family);
    s->media = calloc(n, sizeof *s->media);
    s->reports = calloc(n, sizeof *s->reports);
    if (!s->media || !s->reports) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu pictures", n);
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++)
            if (messages[i].parts[j].kind != SAC_PART_TEXT) {
                s->media[s->n_media].part_kind = messages[i].parts[j].kind;
                s->media[s->n_media++].part = &messages[i].parts[j];
            }
    return prepare_all(s, messages, n_messages, err);
}

static void close_source(sac_media *m) {
    free(m->tiles);
    m->tiles = NULL;
    sac_video_free(m->video);
    m->video = NULL;
}

void sac_media_close(sac_session *s) {
    for (size_t i = 0; i < s->n_media; i++) close_source(&s->media[i]);
}

void sac_media_release(sac_session *s) {
    for (size_t i = 0; i < s->n_media; i++) {
        close_source(&s->media[i]);
        sac_frame_plan_free(&s->media[i].frames);
        free(s->media[i].start);
    }
    free(s->media);
    free(s->reports);
    s->media = NULL;
    s->reports = NULL;
    s->n_media = 0;
}

/* ---------------------------------------------------------------- places */

/* Visual token t of an item: its tile, and its place among the tile's tokens; -1 for a newline. */
static int64_t tile_token(const sac_session *s, const sac_media *m, int64_t t, int64_t *tile) {
    int64_t each = m->plan.tokens_per_tile;
    int64_t row = m->part_kind == SAC_PART_IMAGE && !s->reduce.is_on ? s->vision.layout[t] : t;
    *tile = row < 0 ? -1 : row / each;
    return row < 0 ? -1 : row % each;
}

void sac_media_places(sac_session *s, size_t i, sac_token_place *places, int64_t capacity) {
    const sac_media *m = &s->media[i];
    int grid = m->plan.grid, n_class = m->plan.tokens_per_tile - grid * grid;
    if (m->part_kind == SAC_PART_IMAGE && !s->reduce.is_on)
        sac_processor_layout(&m->plan, s->model->loaded.processor.kind, s->vision.layout);
    for (int64_t t = 0; t < m->n_blocks * m->block_tokens; t++) {
        int64_t tile, at = m->start[t / m->block_tokens] + t % m->block_tokens;
        int64_t cell = tile_token(s, m, t, &tile) - n_class;
        if (at >= capacity || tile < 0 || cell < 0) continue;
        places[at] = (sac_token_place){(int32_t)i, (int32_t)tile, (int32_t)(cell / grid),
                                       (int32_t)(cell % grid), grid};
    }
}

size_t sac_session_media(const sac_session *s, const sac_media_report **media) {
    *media = s->reports;
    return s->n_media;
}

/* ---------------------------------------------------------------- encoding */

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
                        tiles + tile_bytes(e->s, i));
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
    return e->s->decoder.embeddings + (e->m->start[token / each] + token % each) * hidden;
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

static sac_status on_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    (void)i;
    (void)time_s;
    encoder *e = ctx;
    const sac_processor_config *p = &e->s->model->loaded.processor;
    sac_visual_plan plan; /* pictures in a list may differ in size */
    SAC_TRY(plan_frame(e->s, frame->width, frame->height, &plan, err));
    SAC_TRY(sac_processor_run(p, frame, &plan, slot_tiles(e, e->slot) + tile_bytes(e->s, e->n_tiles), err));
    return ++e->n_tiles == e->s->vision.batch_tiles ? flush_frames(e, err) : SAC_OK;
}

static sac_status encode_frame_list(encoder *e, sac_error *err) {
    const sac_part *p = e->m->part;
    for (int64_t i = 0; i < e->m->frames.n_frames; i++) {
        const sac_frame *f = &p->frames[e->m->frames.index[i]];
        sac_image image = {0};
        SAC_TRY(open_picture(&image, f->path, f->bytes, f->n_bytes, err));
        sac_status st = on_frame(e, i, f->time_s, &image, err);
        sac_image_free(&image);
        SAC_TRY(st);
    }
    return SAC_OK;
}

/* Where each visual token of a picture comes from. */
static void lay_out(sac_session *s, const sac_media *m) {
    const sac_loaded_model *model = &s->model->loaded;
    sac_reduce_picture picture = tiling(&m->plan);
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
        const uint8_t *tiles = e->m->tiles + tile_bytes(s, first);
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

/* What was measured from memory is opened now; it must be what it was. */
static sac_status reopen(sac_session *s, sac_media *m, sac_error *err) {
    int width = m->report.width, height = m->report.height;
    if (m->part->kind == SAC_PART_IMAGE && !m->tiles) {
        SAC_TRY(open_tiles(s, m, &width, &height, err));
    } else if (m->part->kind == SAC_PART_VIDEO && !m->video) {
        SAC_TRY(open_video(s, m, err));
        width = sac_video_get_info(m->video)->width;
        height = sac_video_get_info(m->video)->height;
    }
    if (width == m->report.width && height == m->report.height && m->plan.n_tokens > 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%s has changed since it was measured: ask again",
                    m->part->path ? m->part->path : "a picture or video");
}

static sac_status encode(encoder *e, sac_error *err) {
    sac_media *m = e->m;
    if (m->part->kind == SAC_PART_IMAGE) return encode_picture(e, err);
    if (m->part->kind == SAC_PART_FRAMES)
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
    sac_vision_blocks blocks = {s->decoder.embeddings, m->start, m->n_blocks, m->block_tokens,
                                s->model->loaded.projector.out};
    s->vision.vit.class_first = s->vision.vit.class_last = NULL;
    m->report.from_cache = sac_vision_cache_get(s->model->vision_cache, &m->key, &blocks);
    s->reports[i] = m->report;
    if (m->report.from_cache) {
        close_source(m);
        return SAC_OK;
    }
    int64_t start_ns = sac_now_ns();
    double vision_before = *vision_seconds;
    report_progress(&e, 0);
    SAC_TRY(reopen(s, m, err));
    sac_status st = encode(&e, err);
    if (st != SAC_OK) {
        sac_tower_drain(s);
        return st;
    }
    close_source(m);
    if (sac_source_is_unchanged(m)) sac_vision_cache_put(s->model->vision_cache, &m->key, &blocks);
    *media_seconds += sac_seconds_since(start_ns) - (*vision_seconds - vision_before);
    return SAC_OK;
}
