#include "prompt_tiles.h"

#include <stdlib.h>

typedef struct writer {
    const sac_session *s;
    sac_text_segment *segments;
    size_t n;
    char *texts; /* SAC_VISUAL_TEXT_BYTES for each */
} writer;

/* Its control tokens are such: the texts are the processor's, none is the user's. */
static void put_text(writer *w, const sac_visual_shown *shown, int64_t tile) {
    const sac_processor_config *p = &w->s->model->loaded.processor;
    const size_t n = sac_processor_text(p, shown, tile, w->texts);
    w->segments[w->n++] = (sac_text_segment){.text = w->texts, .n_bytes = n, .parse_special = true};
    w->texts += SAC_VISUAL_TEXT_BYTES;
}

/* How many media of its kind, pictures or videos, stand before it. */
static int number_of(const sac_session *s, const sac_media *m) {
    int n = 0;
    for (const sac_media *before = s->media; before < m; before++)
        n += (before->content == SAC_PART_IMAGE) == (m->content == SAC_PART_IMAGE);
    return n;
}

static void put_tiles(writer *w, const sac_media *m) {
    const sac_visual_shown shown = {.plan = &m->plan,
                                    .n_tiles = m->n_blocks,
                                    .time_s = m->frames.time_s,
                                    .duration_s = m->content == SAC_PART_VIDEO ? m->frames.duration_s : 0,
                                    .number = number_of(w->s, m)};
    for (int64_t tile = 0; tile < m->n_blocks; tile++) {
        put_text(w, &shown, tile);
        w->segments[w->n++] = (sac_text_segment){.is_token = true, .token_id = SAC_PROMPT_MARK};
    }
    put_text(w, &shown, m->n_blocks);
}

static void write_all(writer *w, const sac_prompt_text *text) {
    size_t medium = 0;
    for (size_t i = 0; i < text->n_segments; i++) {
        const sac_text_segment *from = &text->segments[i];
        if (from->is_token && from->token_id == SAC_PROMPT_MARK && medium < w->s->n_media)
            put_tiles(w, &w->s->media[medium++]);
        else
            w->segments[w->n++] = *from;
    }
}

sac_status sac_prompt_write_tiles(const sac_session *s, sac_prompt_text *text, sac_error *err) {
    size_t n_texts = 0;
    for (size_t i = 0; i < s->n_media; i++) n_texts += (size_t)s->media[i].n_blocks + 1;
    if (n_texts == 0) return SAC_OK;
    writer w = {.s = s};
    w.segments = calloc(text->n_segments + 2 * n_texts, sizeof *w.segments);
    text->times = w.texts = malloc(n_texts * SAC_VISUAL_TEXT_BYTES);
    if (!w.segments || !w.texts) {
        free(w.segments);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the texts of %zu tiles", n_texts);
    }
    write_all(&w, text);
    text->timed = text->segments = w.segments;
    text->n_segments = w.n;
    return SAC_OK;
}
