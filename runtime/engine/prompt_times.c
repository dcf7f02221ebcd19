#include "prompt_times.h"

#include <stdlib.h>
#include <string.h>

enum { TIME_BYTES = 48, SEGMENTS_A_STEP = 4 };

typedef struct writer {
    const sac_session *s;
    sac_text_segment *segments;
    size_t n;
    char *times; /* TIME_BYTES for each step */
} writer;

static void put_token(writer *w, int32_t id) {
    w->segments[w->n++] = (sac_text_segment){.is_token = true, .token_id = id};
}

/* The middle of the times of a step's frames; the last stands for those that a video no longer has. */
static double time_of_step(const sac_media *m, int64_t step) {
    const int64_t first = step * m->plan.frames, last = first + m->plan.frames - 1,
                  end = m->frames.n_frames - 1;
    return (m->frames.time_s[first] + m->frames.time_s[last < end ? last : end]) / 2;
}

static void put_time(writer *w, int n_bytes) {
    w->segments[w->n++] =
        (sac_text_segment){.text = w->times, .n_bytes = n_bytes < TIME_BYTES ? (size_t)n_bytes : TIME_BYTES - 1};
    w->times += TIME_BYTES;
}

static void put_video(writer *w, const sac_media *m) {
    const sac_loaded_model *model = &w->s->model->loaded;
    const bool is_before = model->frame_layout == SAC_FRAMES_TIMED;
    for (int64_t step = 0; step < m->n_blocks; step++) {
        if (is_before) put_time(w, snprintf(w->times, TIME_BYTES, "<%.1f seconds>", time_of_step(m, step)));
        put_token(w, model->vision_start);
        put_token(w, SAC_PROMPT_MARK);
        put_token(w, model->vision_end);
        if (!is_before)
            put_time(w, model->processor.dialect->seconds(m->frames.time_s[step * m->plan.frames], w->times, TIME_BYTES));
    }
}

/* A token's text at the end of what the chat wrote before a video, or at the beginning of what it wrote behind, goes. */
static void cut_end(sac_text_segment *t, sac_text_span token) {
    if (t->is_token || !t->parse_special || !token.n_bytes || t->n_bytes < token.n_bytes) return;
    if (memcmp(t->text + t->n_bytes - token.n_bytes, token.text, token.n_bytes) == 0)
        t->n_bytes -= token.n_bytes;
}
static void cut_begin(sac_text_segment *t, sac_text_span token) {
    if (t->is_token || !t->parse_special || !token.n_bytes || t->n_bytes < token.n_bytes) return;
    if (memcmp(t->text, token.text, token.n_bytes) != 0) return;
    t->text += token.n_bytes;
    t->n_bytes -= token.n_bytes;
}

/* The next picture's or video's mark, and whether what follows it is to be cut. */
static bool put_mark(writer *w, const sac_media *m) {
    const sac_loaded_model *model = &w->s->model->loaded;
    if (m->content == SAC_PART_IMAGE) {
        put_token(w, SAC_PROMPT_MARK);
        return false;
    }
    const bool cuts = model->frame_layout == SAC_FRAMES_TIMED && !w->s->chat.keep_video_marks;
    if (cuts && w->n) cut_end(&w->segments[w->n - 1], sac_token_text(model->tokenizer, model->vision_start));
    put_video(w, m);
    return cuts;
}

static void write_all(writer *w, const sac_prompt_text *text) {
    const sac_loaded_model *model = &w->s->model->loaded;
    size_t medium = 0;
    bool cut = false;
    for (size_t i = 0; i < text->n_segments; i++) {
        const sac_text_segment *from = &text->segments[i];
        if (from->is_token && from->token_id == SAC_PROMPT_MARK && medium < w->s->n_media) {
            cut = put_mark(w, &w->s->media[medium++]);
            continue;
        }
        sac_text_segment *to = &w->segments[w->n++];
        *to = *from;
        if (cut) cut_begin(to, sac_token_text(model->tokenizer, model->vision_end));
        cut = false;
    }
}

sac_status sac_prompt_time_frames(const sac_session *s, sac_prompt_text *text, sac_error *err) {
    size_t n_steps = 0;
    for (size_t i = 0; i < s->n_media; i++)
        if (s->media[i].content != SAC_PART_IMAGE) n_steps += (size_t)s->media[i].n_blocks;
    if (n_steps == 0) return SAC_OK;
    writer w = {.s = s};
    w.segments = calloc(text->n_segments + SEGMENTS_A_STEP * n_steps, sizeof *w.segments);
    text->times = w.times = malloc(n_steps * TIME_BYTES);
    if (!w.segments || !w.times) {
        free(w.segments);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the times of %zu frames", n_steps);
    }
    write_all(&w, text);
    text->timed = text->segments = w.segments;
    text->n_segments = w.n;
    return SAC_OK;
}
