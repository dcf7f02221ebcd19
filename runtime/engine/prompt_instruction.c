#include "prompt_instruction.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENTENCE_BYTES = 300, TIME_BYTES = 32 /* of a frame */ };

typedef struct writer {
    char *at, *end;
} writer;

/* What has no room is cut: times that are no times. */
__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    va_list list;
    const size_t room = (size_t)(w->end - w->at);
    va_start(list, format);
    const int n = vsnprintf(w->at, room, format, list);
    va_end(list);
    if (n > 0) w->at += (size_t)n < room ? (size_t)n : room - 1;
}

static void put_sentence(writer *w, const sac_media *m) {
    const sac_frame_plan *f = &m->frames;
    const int64_t n = f->n_frames;
    const bool is_known = m->content == SAC_PART_VIDEO && f->duration_s > 0;
    put(w, "\nThe video lasts for %.2f seconds, and %lld frames are uniformly sampled from it. These frames are located at ",
        is_known ? f->duration_s : f->time_s[n - 1], (long long)n);
    for (int64_t i = 0; i < n; i++) put(w, "%s%.2fs", i ? "," : "", f->time_s[i]);
    put(w, ".Please answer the following questions related to this video.");
}

static bool is_video(const sac_media *m) {
    return m->content != SAC_PART_IMAGE && m->frames.n_frames > 0;
}

static void write_all(const sac_session *s, const sac_prompt_text *text, writer *w, sac_text_segment *out) {
    size_t medium = 0;
    for (size_t i = 0; i < text->n_segments; i++) {
        const sac_text_segment *from = &text->segments[i];
        *out++ = *from;
        if (!from->is_token || from->token_id != SAC_PROMPT_MARK || medium == s->n_media) continue;
        const sac_media *m = &s->media[medium++];
        if (!is_video(m)) continue;
        const char *begin = w->at;
        put_sentence(w, m);
        *out++ = (sac_text_segment){.text = begin, .n_bytes = (size_t)(w->at - begin)};
    }
}

sac_status sac_prompt_instruct(const sac_session *s, sac_prompt_text *text, sac_error *err) {
    size_t n_videos = 0, n_bytes = 1;
    for (size_t i = 0; i < s->n_media; i++)
        if (is_video(&s->media[i])) {
            n_videos++;
            n_bytes += SENTENCE_BYTES + TIME_BYTES * (size_t)s->media[i].frames.n_frames;
        }
    if (n_videos == 0) return SAC_OK;
    sac_text_segment *segments = calloc(text->n_segments + n_videos, sizeof *segments);
    text->times = malloc(n_bytes);
    if (!segments || !text->times) {
        free(segments);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for what is said of %zu videos", n_videos);
    }
    writer w = {text->times, text->times + n_bytes};
    write_all(s, text, &w, segments);
    text->timed = text->segments = segments;
    text->n_segments += n_videos;
    return SAC_OK;
}
