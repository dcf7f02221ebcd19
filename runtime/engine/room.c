#include "room.h"
#include "picture.h"

#include <string.h>

enum { INSTRUCTION = 80 }; /* tokens of what is said of a video besides its frames' times (prompt_instruction.h) */
enum { TIME_AND_MARKS = 12 }; /* tokens of "<1234.5 seconds>" or "\nFrame1234: ", and two control tokens */
enum { FRAME_TEXT = 22 };         /* of "\nFrame from 00:00:" in any tokenizer, and of three control tokens */
enum { TILE_TEXT = 4 };           /* of line ends and two control tokens */
enum { CROP_TEXT = 3, NUMBER_TEXT = 8 }; /* the same, of a picture's parts; of its number between two control tokens */
enum { ANSWER_AND_FORMAT = 256 }; /* tokens kept free: a short answer, and what the chat format adds */

/* Tokens that the conversation's texts take, each on its own; the chat format's few come on top. */
static sac_status count_text(const sac_model *m, const sac_message *messages, size_t n_messages, int64_t *n,
                             sac_error *err) {
    *n = 0;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++) {
            const sac_part *p = &messages[i].parts[j];
            if (p->kind != SAC_PART_TEXT || !p->text) continue;
            sac_text_segment segment = {.text = p->text, .n_bytes = strlen(p->text)};
            size_t n_ids = 0;
            sac_status st = sac_tokenize(m->loaded.tokenizer, &segment, 1, false, NULL, 0, &n_ids, err);
            if (st != SAC_OK && st != SAC_TOO_LONG) return st;
            *n += (int64_t)n_ids;
        }
    return SAC_OK;
}

sac_status sac_room_open(sac_room *room, const sac_model *m, int64_t n_ctx, const char *reduce,
                         const sac_message *messages, size_t n_messages, sac_error *err) {
    int64_t n_text;
    *room = (sac_room){.model = m, .reduce = reduce};
    SAC_TRY(count_text(m, messages, n_messages, &n_text, err));
    room->n_tokens = n_ctx - ANSWER_AND_FORMAT - n_text;
    for (size_t i = 0; i < n_messages; i++)
        for (size_t j = 0; j < messages[i].n_parts; j++) {
            sac_part_kind kind = sac_part_content(&messages[i].parts[j]);
            room->n_videos += kind == SAC_PART_VIDEO || kind == SAC_PART_FRAMES;
        }
    return SAC_OK;
}

int64_t sac_room_share(const sac_room *room) {
    return room->n_tokens / room->n_videos;
}

void sac_room_take_picture(sac_room *room, int64_t n_tokens, const sac_visual_plan *plan) {
    const bool has_texts = sac_processor_has_texts(&room->model->loaded.processor);
    room->n_tokens -= n_tokens + (plan->crops.n ? CROP_TEXT * plan->crops.n + NUMBER_TEXT
                                  : plan->n_lines ? plan->n_lines : has_texts ? (int64_t)TILE_TEXT * plan->n_tiles : 0);
}

void sac_room_take_video(sac_room *room, int64_t n_tokens) {
    room->n_tokens -= n_tokens;
    room->n_videos--;
}

int64_t sac_room_video_tokens(const sac_reduce *reduce, const sac_visual_plan *frame, int64_t n_frames) {
    const sac_reduce_video v = {.n_tiles = sac_visual_tiles(frame, n_frames), .cells = sac_grid_cells(frame->tokens)};
    const int64_t whole = v.n_tiles * frame->n_tokens;
    if (!sac_reduce_sees_videos(reduce)) return whole;
    const int64_t n = reduce->reducer->count_video(reduce->p, &v);
    return n < v.n_tiles * v.cells ? n : whole;
}

/* The same where a reducer makes a video's tokens fewer: tiles by the share that stays of a long video, then as many fewer as it
 * takes for the room, because of a short one more may stay. */
static int64_t reduced_frames_in(const sac_reduce *reduce, int64_t n_tokens, const sac_visual_plan *frame, int between) {
    enum { MANY = 1 << 12 };
    const double each = (double)sac_room_video_tokens(reduce, frame, (int64_t)MANY * frame->frames) / MANY + between;
    int64_t n = n_tokens > 0 ? (int64_t)((double)n_tokens / each) + 1 : 1;
    while (n > 1 && sac_room_video_tokens(reduce, frame, n * frame->frames) + n * between > n_tokens) n--;
    return n * frame->frames;
}

int64_t sac_room_frames_in(const sac_model *m, const sac_reduce *reduce, int64_t n_tokens, const sac_visual_plan *frame) {
    const sac_frame_layout layout = m->loaded.frame_layout;
    const bool is_written = layout == SAC_FRAMES_TIMED || layout == SAC_FRAMES_SECONDS || layout == SAC_FRAMES_COUNTED ||
                            m->loaded.time_instruction;
    const int between = is_written                                      ? TIME_AND_MARKS
                        : frame->crops.n > 0                            ? CROP_TEXT * frame->crops.n
                        : frame->n_lines > 0                            ? frame->n_lines
                        : sac_processor_has_texts(&m->loaded.processor)            ? FRAME_TEXT
                                                                                   : 1;
    if (m->loaded.time_instruction) n_tokens -= n_tokens > INSTRUCTION ? INSTRUCTION : 0;
    if (sac_reduce_sees_videos(reduce)) return reduced_frames_in(reduce, n_tokens, frame, between);
    int64_t n = n_tokens / (frame->n_tokens + between) * frame->frames;
    return n > 0 ? n : 1;
}

/* ---------------------------------------------------------------- the public calls */

static sac_status read_reduce(const sac_room *room, sac_reduce *reduce, sac_error *err) {
    return sac_reduce_parse(reduce, room->reduce ? room->reduce : "none", err);
}

sac_status sac_room_picture(sac_room *room, int width, int height, sac_error *err) {
    sac_visual_plan plan;
    sac_reduce reduce;
    SAC_TRY(read_reduce(room, &reduce, err));
    SAC_TRY(sac_processor_plan(&room->model->loaded.processor, width, height, false, &plan, err));
    sac_reduce_picture picture = {plan.n_tiles, plan.tokens.h, plan.tokens.w, plan.tiles_w, plan.tiles_h};
    sac_room_take_picture(room, sac_reduce_sees_pictures(&reduce) ? sac_reduce_count(&reduce, &picture) : plan.n_tokens,
                          &plan);
    return SAC_OK;
}

/* A frame costs the same whatever its size, or what most cost. False for a model that sees nothing. */
static bool plan_frame(const sac_room *room, sac_visual_plan *frame) {
    const sac_processor_config *p = &room->model->loaded.processor;
    return room->model->loaded.has_vision && sac_processor_usual_frame(p, frame, NULL) == SAC_OK;
}

int64_t sac_room_frames(const sac_room *room) {
    sac_visual_plan frame;
    sac_reduce reduce;
    if (room->n_videos < 1 || !plan_frame(room, &frame) || read_reduce(room, &reduce, NULL) != SAC_OK) return 1;
    return sac_room_frames_in(room->model, &reduce, sac_room_share(room), &frame);
}

void sac_room_video(sac_room *room, int64_t n_frames) {
    sac_visual_plan frame;
    sac_reduce reduce;
    if (room->n_videos < 1 || !plan_frame(room, &frame) || read_reduce(room, &reduce, NULL) != SAC_OK) return;
    int64_t most = sac_room_frames_in(room->model, &reduce, sac_room_share(room), &frame);
    sac_room_take_video(room, sac_room_video_tokens(&reduce, &frame, n_frames < most ? n_frames : most));
}
