#include "prompt_counts.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 24, SEGMENTS_A_FRAME = 4 }; /* "\nFrame2147483647: " */

typedef struct writer {
    const sac_loaded_model *model;
    sac_text_segment *segments;
    size_t n;
    char *numbers; /* NUMBER_BYTES for each frame */
} writer;

static void put_token(writer *w, int32_t id) {
    w->segments[w->n++] = (sac_text_segment){.is_token = true, .token_id = id};
}

static void put_mark(writer *w) {
    put_token(w, w->model->vision_start);
    put_token(w, SAC_PROMPT_MARK);
    put_token(w, w->model->vision_end);
}

static void put_video(writer *w, const sac_media *m) {
    for (int64_t i = 0; i < m->n_blocks; i++, w->numbers += NUMBER_BYTES) {
        int n = snprintf(w->numbers, NUMBER_BYTES, "%sFrame%lld: ", i ? "\n" : "", (long long)i + 1);
        w->segments[w->n++] = (sac_text_segment){.text = w->numbers,
                                                 .n_bytes = n < NUMBER_BYTES ? (size_t)n : NUMBER_BYTES - 1};
        put_mark(w);
    }
}

static void write_all(writer *w, const sac_session *s, const sac_prompt_text *text) {
    size_t medium = 0;
    for (size_t i = 0; i < text->n_segments; i++) {
        const sac_text_segment *from = &text->segments[i];
        if (!from->is_token || from->token_id != SAC_PROMPT_MARK || medium == s->n_media)
            w->segments[w->n++] = *from;
        else if (s->media[medium++].content == SAC_PART_IMAGE)
            put_mark(w);
        else
            put_video(w, &s->media[medium - 1]);
    }
}

sac_status sac_prompt_count_frames(const sac_session *s, sac_prompt_text *text, sac_error *err) {
    size_t n_marks = 0;
    for (size_t i = 0; i < s->n_media; i++) n_marks += (size_t)s->media[i].n_blocks;
    if (n_marks == 0) return SAC_OK;
    writer w = {.model = &s->model->loaded};
    w.segments = calloc(text->n_segments + SEGMENTS_A_FRAME * n_marks, sizeof *w.segments);
    text->times = w.numbers = malloc(n_marks * NUMBER_BYTES);
    if (!w.segments || !w.numbers) {
        free(w.segments);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the numbers of %zu frames", n_marks);
    }
    write_all(&w, s, text);
    text->timed = text->segments = w.segments;
    text->n_segments = w.n;
    return SAC_OK;
}
