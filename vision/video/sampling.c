#include "sampling.h"

#include "pace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate {
    sac_sampling_rule rule;
    int64_t n_frames;
    char asked[48]; /* "fps 2" */
} candidate;

const char *sac_sampling_rule_text(sac_sampling_rule rule) {
    switch (rule) {
#define X(name, text)                                                                                        \
    case SAC_SAMPLED_BY_##name: return text;
        SAC_SAMPLING_RULE_LIST(X)
#undef X
    }
    return "unknown";
}

int64_t sac_linspace_index(int64_t total, int64_t n, int64_t i) {
    if (n < 2) return 0;
    if (i == n - 1) return total - 1; /* numpy sets the end exactly; i * step may fall just short of it */
    double step = (double)(total - 1) / (double)(n - 1);
    return (int64_t)floor((double)i * step);
}

sac_status sac_sampling_check(const sac_frame_request *request, sac_error *err) {
    if (request->has_fps && !(request->fps > 0 && request->fps <= SAC_SAMPLING_MAX_FPS))
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "fps: %g frames a second cannot be sampled: give a number above 0, at most %g",
                        request->fps, SAC_SAMPLING_MAX_FPS);
    if (request->has_num_frames && request->num_frames < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "num_frames: %" PRId64 " frames cannot be sampled: give at least 1",
                        request->num_frames);
    if (request->has_max_frames && request->max_frames < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "max_frames: a limit of %" PRId64 " leaves nothing: give at least 1",
                        request->max_frames);
    if (request->pace == SAC_PACE_SECONDS && !(request->most_s >= 1 && request->most_s <= SAC_PACE_MOST_S))
        return sac_fail(err, SAC_BAD_ARGUMENT, "most_s: %g seconds cannot be sampled: give 1 to %d", request->most_s,
                        SAC_PACE_MOST_S);
    if (request->has_max_pixels && request->max_pixels < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "max_pixels: a limit of %" PRId64 " leaves nothing: give at least 1",
                        request->max_pixels);
    return SAC_OK;
}

/* In the order that vLLM and transformers compute it, so that rounding falls the same way for every input. */
static int64_t frames_at(const sac_frame_request *request, const sac_sampling_source *source) {
    if (request->pace != SAC_PACE_EVEN) return sac_pace_choose(request, source->total_frames, source->fps, NULL);
    double n = (double)source->total_frames / source->fps * request->fps;
    n = request->skip_s > 0 ? rint(n) : floor(n); /* halves to even */
    if (n >= (double)source->total_frames) return source->total_frames;
    return n < 1 ? 1 : (int64_t)n;
}

static int list_candidates(candidate *list, const sac_frame_request *request,
                           const sac_sampling_source *source) {
    int n = 0;
    list[n++] = (candidate){SAC_SAMPLED_BY_ALL, source->total_frames, "all frames"};
    if (request->has_num_frames) {
        candidate *c = &list[n++];
        *c = (candidate){SAC_SAMPLED_BY_NUM_FRAMES, request->num_frames, ""};
        snprintf(c->asked, sizeof c->asked, "num_frames %" PRId64, request->num_frames);
    }
    if (request->has_fps) {
        candidate *c = &list[n++];
        *c = (candidate){SAC_SAMPLED_BY_FPS, frames_at(request, source), ""};
        if (request->pace == SAC_PACE_LENGTH)
            snprintf(c->asked, sizeof c->asked, "fps for its length");
        else
            snprintf(c->asked, sizeof c->asked, "fps %g", request->fps);
    }
    if (request->has_max_frames) {
        candidate *c = &list[n++];
        *c = (candidate){SAC_SAMPLED_BY_MAX_FRAMES, request->max_frames, ""};
        snprintf(c->asked, sizeof c->asked, "max_frames %" PRId64, request->max_frames);
    }
    if (request->has_max_pixels) {
        int64_t each = request->frame_pixels > 0 ? request->frame_pixels : source->frame_pixels;
        candidate *c = &list[n++];
        *c = (candidate){SAC_SAMPLED_BY_MAX_PIXELS, request->max_pixels / (each > 0 ? each : 1), ""};
        snprintf(c->asked, sizeof c->asked, "max_pixels %" PRId64, request->max_pixels);
    }
    return n;
}

/* "16 of 325 frames by max_frames 16 (fps 2 asks for 26)" */
static void describe(sac_frame_plan *plan, const sac_frame_request *request, const candidate *list, int n,
                     int chosen) {
    size_t used = 0;
    int wrote = snprintf(plan->text, sizeof plan->text, "%" PRId64 " of %" PRId64 " frames", plan->n_frames,
                         plan->total_frames);
    if (chosen > 0) {
        used = (size_t)wrote;
        wrote = snprintf(plan->text + used, sizeof plan->text - used, " by %s", list[chosen].asked);
    }
    const char *before = " (";
    for (int k = 1; k < n && wrote > 0; k++) {
        bool silent = list[k].rule == SAC_SAMPLED_BY_MAX_FRAMES && request->max_frames_silent;
        if (k == chosen || silent) continue;
        used += (size_t)wrote;
        if (used >= sizeof plan->text) return;
        if (list[k].rule == SAC_SAMPLED_BY_FPS || list[k].rule == SAC_SAMPLED_BY_MAX_PIXELS)
            wrote = snprintf(plan->text + used, sizeof plan->text - used, "%s%s asks for %" PRId64, before,
                             list[k].asked, list[k].n_frames);
        else
            wrote = snprintf(plan->text + used, sizeof plan->text - used, "%s%s", before, list[k].asked);
        before = ", ";
    }
    used = strlen(plan->text);
    if (before[0] == ',' && used + 1 < sizeof plan->text) memcpy(plan->text + used, ")", 2);
}

/* The first and the last frame that may be chosen. */
static void find_ends(const sac_frame_request *request, const sac_frame_plan *plan, int64_t *first,
                      int64_t *last) {
    const double skip = request->skip_s, skipped = skip * plan->source_fps;
    *first = 0;
    *last = plan->total_frames - 1;
    if (!(skip > 0) || !request->has_fps ||
        !(plan->duration_s - 2 * skip > (double)request->skip_most * request->fps))
        return;
    const int64_t from = (int64_t)skipped, to = (int64_t)((double)plan->total_frames - skipped);
    if (from >= to || from >= *last) return;
    *first = from;
    if (to < *last) *last = to;
}

static int64_t spread(int64_t first, int64_t last, int64_t n, int64_t i) {
    if (first == 0) return sac_linspace_index(last + 1, n, i);
    if (n < 2) return first;
    const double step = (double)(last - first) / (double)(n - 1);
    return i == n - 1 ? last : (int64_t)floor((double)i * step + (double)first);
}

static sac_status fill(sac_frame_plan *plan, const sac_frame_request *request, sac_error *err) {
    int64_t first, last;
    find_ends(request, plan, &first, &last);
    if (plan->n_frames > last - first + 1) plan->n_frames = last - first + 1; /* each at most once */
    size_t n = (size_t)plan->n_frames;
    plan->index = calloc(n, sizeof *plan->index);
    plan->time_s = calloc(n, sizeof *plan->time_s);
    if (!plan->index || !plan->time_s) {
        sac_frame_plan_free(plan);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a list of %zu frames: lower num_frames or fps", n);
    }
    const bool has_pace = request->pace != SAC_PACE_EVEN && plan->rule == SAC_SAMPLED_BY_FPS;
    if (has_pace) sac_pace_choose(request, plan->total_frames, plan->source_fps, plan->index);
    for (int64_t i = 0; i < plan->n_frames; i++) {
        if (!has_pace) plan->index[i] = spread(first, last, plan->n_frames, i);
        plan->time_s[i] = plan->source_fps > 0 ? (double)plan->index[i] / plan->source_fps : 0;
    }
    return SAC_OK;
}

sac_status sac_sampling_plan(sac_frame_plan *plan, const sac_frame_request *request,
                             const sac_sampling_source *source, sac_error *err) {
    memset(plan, 0, sizeof *plan);
    SAC_TRY(sac_sampling_check(request, err));
    if (source->total_frames < 1) return sac_fail(err, SAC_BAD_FILE, "the video has no frames");
    bool known = isfinite(source->fps) && source->fps > 0;
    if (request->has_fps && !known)
        return sac_fail(err, SAC_BAD_FILE,
                        "fps: the video states no frame rate and no times: ask for num_frames instead");

    candidate list[5];
    int n = list_candidates(list, request, source), chosen = 0;
    for (int k = 1; k < n; k++)
        if (list[k].n_frames < list[chosen].n_frames) chosen = k;
    if (list[chosen].n_frames < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "max_pixels: %" PRId64 " is less than one frame: raise it or lower the resolution",
                        request->max_pixels);

    plan->n_frames = list[chosen].n_frames;
    plan->rule = list[chosen].rule;
    plan->total_frames = source->total_frames;
    plan->source_fps = known ? source->fps : 0;
    plan->duration_s = known ? (double)source->total_frames / source->fps : 0;
    SAC_TRY(fill(plan, request, err));
    describe(plan, request, list, n, chosen);
    return SAC_OK;
}

void sac_frame_plan_free(sac_frame_plan *plan) {
    free(plan->index);
    free(plan->time_s);
    memset(plan, 0, sizeof *plan);
}
