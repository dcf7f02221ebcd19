#include "intake_media.h"
#include "clock.h"
#include "image.h"
#include "status.h"

#include <stdlib.h>

typedef struct preparation {
    intake_media *out;
    const intake_use *use;
    bool is_frame;
} preparation;

bool intake_can_read(const char *format) {
    return sac_image_can_read(format);
}

void intake_media_free(intake_media *m) {
    for (int64_t i = 0; i < m->info.n_frames; i++) sac_prepared_free(m->frames[i]);
    free(m->frames);
    free(m->times);
    *m = (intake_media){0};
}

static sac_status grow(intake_media *m, sac_error *err) {
    if (m->info.n_frames < m->capacity) return SAC_OK;
    size_t n = m->capacity ? (size_t)m->capacity * 2 : 16;
    sac_prepared **frames = realloc(m->frames, n * sizeof *frames);
    if (frames) m->frames = frames;
    double *times = realloc(m->times, n * sizeof *times);
    if (times) m->times = times;
    if (!frames || !times) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu frames", n);
    m->capacity = (int64_t)n;
    return SAC_OK;
}

static sac_status take(void *ctx, const intake_frame *f, sac_error *err) {
    const preparation *p = ctx;
    intake_media *m = p->out;
    int64_t start_ns = sac_now_ns();
    if (f->index == 0) intake_media_free(m);
    SAC_TRY(grow(m, err));
    sac_part part = {.kind = SAC_PART_PIXELS,
                     .pixels = {.width = f->width, .height = f->height, .rgb = f->rgb}};
    SAC_TRY(sac_prepared_create(&m->frames[f->index], p->use->model, &part, p->is_frame, err));
    m->times[f->index] = f->time_s;
    m->info.n_frames = f->index + 1;
    m->n_bytes += sac_prepared_bytes(m->frames[f->index]);
    m->prepare_s += sac_seconds_since(start_ns);
    if (p->use->progress) p->use->progress(p->use->ctx, m->info.n_frames, f->n_chosen);
    if (m->n_bytes <= p->use->max_bytes) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG, "the decoded frames take more memory than is allowed");
}

sac_status intake_media_open(intake_media *out, intake_decoder *d, const intake_task *task,
                             const intake_use *use, int input, const atomic_bool *cancelled, bool *crashed,
                             sac_error *err) {
    preparation p = {out, use, task->is_video || use->is_frame};
    intake_sink sink = {.ctx = &p, .take = take};
    intake_info info;
    *out = (intake_media){0};
    sac_status st = intake_decode(d, task, input, cancelled, &sink, &info, crashed, err);
    if (st == SAC_OK)
        out->info = info;
    else
        intake_media_free(out);
    return st;
}
