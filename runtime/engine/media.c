/* Pictures and videos of a conversation: measured first, all of them (media_open.h), so that a prompt that
 * does not fit is refused before the tower runs; encoded after that, straight into the rows of hidden states
 * where the prompt wants them (media_encode.c). */
#include "media_open.h"
#include "media_reduce.h"
#include "picture.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

sac_identity sac_media_identity(const sac_session *s, size_t i, int64_t index) {
    sac_identity h;
    memcpy(&h, s->media[i].key.hash, sizeof h);
    h.a ^= (uint64_t)index * 0x9e3779b97f4a7c15u;
    h.a |= (uint64_t)1 << 63; /* token ids have no top bit, so a visual row never equals a text row */
    return h;
}

int64_t sac_media_index(const sac_media *m, const sac_prompt_span *span, int64_t t) {
    if (!m->n_kept) return sac_media_block_first(m, span - m->spans) + t;
    const int64_t i = span->cells - m->kept + t;
    return i < m->n_kept ? m->kept[i] : m->n_cells;
}

static bool is_picture(const sac_media *m) {
    return m->content == SAC_PART_IMAGE;
}

int32_t sac_media_token(const sac_session *s, const sac_media *m) {
    return is_picture(m) ? s->model->loaded.image_token : s->model->loaded.video_token;
}

/* The grid of a span's rows, where they are one: of n_tiles tiles behind one another. */
static sac_grid grid_of(const sac_session *s, const sac_media *m, int n_tiles, int b) {
    const sac_visual_plan *p = &m->plan;
    sac_grid g = {n_tiles * p->tokens.t, p->tokens.h, p->tokens.w};
    bool is_reduced = sac_reduce_sees_pictures(&s->reduce) && is_picture(m);
    if (p->crops.n) g = sac_visual_crop_tokens(p, b % p->crops.n);
    if (p->crops.n > 1 && !is_reduced) return m->n_kept ? (sac_grid){0} : g;
    if (m->n_kept) return sac_grid_cells(g) * m->n_blocks == m->n_cells ? g : (sac_grid){0};
    return (p->n_tiles == 1 || p->n_tiles == m->n_blocks) && !is_reduced &&
                   sac_grid_cells(g) == m->block_tokens
               ? g
               : (sac_grid){0};
}

/* Frames that share their patches are one step. Of a video, by the rate that it was sampled at, as Qwen2.5-VL counts
 * it; of a list of frames, by their times. */
static double seconds_a_step(const sac_media *m, int n_frames) {
    const sac_frame_plan *f = &m->frames;
    if (n_frames < 2) return 0;
    double each = (f->time_s[n_frames - 1] - f->time_s[0]) / (n_frames - 1);
    if (m->content == SAC_PART_VIDEO && f->duration_s > 0) each = f->duration_s / n_frames;
    return each * m->plan.frames;
}

/* Of the family's axis of time. */
static double time_step(const sac_session *s, const sac_media *m, int n_frames) {
    double rate = s->model->loaded.tokens_per_second;
    return rate > 0 && n_frames > 1 ? rate * seconds_a_step(m, n_frames) : 1;
}

/* Positions on the axis of time are whole numbers, which must hold all that the media of a prompt take. */
static sac_status check_times(const sac_session *s, sac_error *err) {
    const double most = 1 << 30;
    double n = 0;
    for (int i = 0; i < s->n_spans; i++) {
        const sac_prompt_span *span = &s->spans[i];
        n += span->grid.t * span->time_step;
        if (!(n <= most))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "the frames of medium %d are %g s apart: this model's positions do not reach over so long a time", span->media,
                            span->step_s);
    }
    return SAC_OK;
}

/* What every placeholder of the prompt will show. */
static sac_status make_spans(sac_session *s, sac_error *err) {
    int64_t n = 0;
    for (size_t i = 0; i < s->n_media; i++) n += s->media[i].n_blocks;
    s->spans = n < INT32_MAX ? calloc((size_t)n, sizeof *s->spans) : NULL;
    if (!s->spans) return sac_fail(err, SAC_NO_MEMORY, "no memory for %lld frames", (long long)n);
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media *m = &s->media[i];
        const int parts = m->n_blocks > 1 ? sac_visual_parts(&m->plan) : 1, n_shown = (int)m->n_blocks / parts;
        int tiles = m->report.n_tiles / n_shown; /* all in one block, or one in each, or in several */
        int each = is_picture(m) ? 1 : m->report.n_frames / n_shown;
        m->spans = s->spans + s->n_spans;
        for (int b = 0; b < (int)m->n_blocks; b++)
            s->spans[s->n_spans++] = (sac_prompt_span){.n = sac_media_block_tokens(m, b),
                                                       .media = (int)i,
                                                       .frame = b / parts * each,
                                                       .n_frames = each,
                                                       .step_s = seconds_a_step(m, each),
                                                       .time_step = time_step(s, m, each),
                                                       .grid = grid_of(s, m, is_picture(m) ? 1 : tiles, b)};
        sac_media_lay_out_spans(s, m);
    }
    return check_times(s, err);
}

/* Pictures first: what they leave of the context is shared by the videos. */
static sac_status prepare_all(sac_session *s, const sac_message *messages, size_t n_messages,
                              sac_error *err) {
    sac_room room;
    SAC_TRY(sac_room_open(&room, s->model, s->memory.n_ctx, NULL, messages, n_messages, err));
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media *m = &s->media[i];
        if (!is_picture(m)) continue;
        SAC_TRY(sac_media_measure(s, m, 0, err));
        sac_room_take_picture(&room, m->report.n_tokens, &m->plan);
    }
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media *m = &s->media[i];
        if (is_picture(m)) continue;
        SAC_TRY(sac_media_measure(s, m, sac_room_share(&room), err));
        sac_room_take_video(&room, m->report.n_tokens);
    }
    for (size_t i = 0; i < s->n_media; i++) s->reports[i] = sac_media_told(&s->media[i]);
    return make_spans(s, err);
}

sac_status sac_media_prepare(sac_session *s, const sac_message *messages, size_t n_messages, sac_error *err) {
    sac_media_release(s);
    size_t n = 0;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++) n += messages[i].parts[j].kind != SAC_PART_TEXT;
    if (n == 0) return SAC_OK;
    SAC_TRY(sac_model_check_vision(s->model, err));
    s->media = calloc(n, sizeof *s->media);
    s->reports = calloc(n, sizeof *s->reports);
    if (!s->media || !s->reports) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu pictures", n);
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++)
            if (messages[i].parts[j].kind != SAC_PART_TEXT) {
                s->media[s->n_media].content = sac_part_content(&messages[i].parts[j]);
                s->media[s->n_media++].part = &messages[i].parts[j];
            }
    return prepare_all(s, messages, n_messages, err);
}
void sac_media_close(sac_session *s) {
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media_close_source(&s->media[i]);
        sac_reduction_free(s->media[i].reduction);
        s->media[i].reduction = NULL;
    }
}

void sac_media_release(sac_session *s) {
    for (size_t i = 0; i < s->n_media; i++) {
        sac_media_close_source(&s->media[i]);
        sac_frame_plan_free(&s->media[i].frames);
        sac_reduction_free(s->media[i].reduction);
        free(s->media[i].kept);
    }
    free(s->media);
    free(s->reports);
    free(s->spans);
    s->spans = NULL;
    s->n_spans = 0;
    s->media = NULL;
    s->reports = NULL;
    s->n_media = 0;
}

/* ---------------------------------------------------------------- places */

/* Visual token t of an item: its tile, and its place among the tile's tokens; -1 for a newline. */
static int64_t tile_token(const sac_session *s, const sac_media *m, int64_t t, int64_t *tile) {
    int64_t each = m->plan.tokens_per_tile;
    int64_t row = m->content == SAC_PART_IMAGE && !sac_reduce_sees_pictures(&s->reduce) ? s->vision.layout[t] : t;
    if (row >= m->report.n_tiles * each) row = -1; /* behind the frames of a video */
    *tile = row < 0 ? -1 : row / each;
    return row < 0 ? -1 : row % each;
}

/* Cell of a block that is a picture of a tile. */
static void place_in_crop(const sac_media *m, int32_t medium, int64_t block, int64_t cell, sac_token_place *place) {
    const sac_grid g = sac_visual_crop_tokens(&m->plan, (int)(block % m->plan.crops.n));
    *place = (sac_token_place){.media = medium,
                               .tile = (int32_t)block,
                               .row = (int32_t)(cell / g.w),
                               .column = (int32_t)(cell % g.w),
                               .rows = g.h,
                               .columns = g.w};
}

/* Of a video that a reducer leaves cells out of. */
static void kept_places(const sac_media *m, int32_t medium, sac_token_place *places, int64_t capacity) {
    const sac_grid g = m->plan.tokens;
    const int64_t each = sac_grid_cells(g);
    for (int64_t b = 0; m->kept && b < m->n_blocks; b++)
        for (int64_t t = 0; t < m->spans[b].n; t++) {
            const int64_t at = m->spans[b].first + t, cell = sac_media_index(m, &m->spans[b], t);
            if (at >= capacity || cell == m->n_cells) continue;
            if (m->plan.crops.n) {
                place_in_crop(m, medium, b, cell - sac_media_block_first(m, b), &places[at]);
                continue;
            }
            places[at] = (sac_token_place){.media = medium,
                                           .tile = (int32_t)(cell / each),
                                           .row = (int32_t)(cell % each / g.w),
                                           .column = (int32_t)(cell % g.w),
                                           .rows = g.h,
                                           .columns = g.w};
        }
}

void sac_media_places(sac_session *s, size_t i, sac_token_place *places, int64_t capacity) {
    const sac_media *m = &s->media[i];
    int rows = m->plan.tokens.h, columns = m->plan.tokens.w;
    int n_class =
        m->plan.tokens_per_tile - (int)sac_grid_cells(m->plan.tokens) - sac_visual_newlines(&m->plan);
    if (m->n_kept) {
        kept_places(m, (int32_t)i, places, capacity);
        return;
    }
    if (m->content == SAC_PART_IMAGE && !sac_reduce_sees_pictures(&s->reduce))
        sac_processor_layout(&s->model->loaded.processor, &m->plan, s->vision.layout);
    int64_t block = 0;
    for (int64_t t = 0; t < sac_media_block_first(m, m->n_blocks); t++) {
        while (t >= sac_media_block_first(m, block + 1)) block++;
        int64_t tile, at = m->spans[block].first + t - sac_media_block_first(m, block);
        int64_t cell = tile_token(s, m, t, &tile) - n_class;
        if (at >= capacity || tile < 0 || cell < 0) continue;
        cell = sac_visual_cell(&m->plan, cell);
        if (cell < 0) continue;
        if (m->plan.crops.n) {
            place_in_crop(m, (int32_t)i, block, t - sac_media_block_first(m, block), &places[at]);
            continue;
        }
        places[at] = (sac_token_place){.media = (int32_t)i,
                                       .tile = (int32_t)tile,
                                       .row = (int32_t)(cell / columns),
                                       .column = (int32_t)(cell % columns),
                                       .rows = rows,
                                       .columns = columns};
    }
}

size_t sac_session_media(const sac_session *s, const sac_media_report **media) {
    *media = s->reports;
    return s->n_media;
}
