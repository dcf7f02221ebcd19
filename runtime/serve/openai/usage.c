#include "usage.h"

/* A video reaches the engine as the frames that were chosen of it; what it was before is in the
 * reference. */
static sac_media_report describe(const sac_media_report *m, const serve_media_ref *ref) {
    sac_media_report r = *m;
    if (ref->kind != SAC_PART_VIDEO) return r;
    r.source_fps = ref->video.fps;
    r.duration_s = ref->video.duration_s;
    r.source_frames = ref->video.n_frames;
    r.rule = ref->video.rule;
    return r;
}

static json_t *media_json(const sac_media_report *m) {
    json_t *times = m->time_s ? json_array() : json_null();
    for (int i = 0; m->time_s && i < m->n_frames; i++) json_array_append_new(times, json_real(m->time_s[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:I, s:o, s:f, s:f, s:I, s:s?, s:b}", "kind",
                     m->kind == SAC_PART_IMAGE ? "image" : "video", "width", m->width, "height", m->height,
                     "frames", m->n_frames, "tokens", (json_int_t)m->n_tokens, "timestamps", times,
                     "source_fps", m->source_fps, "duration", m->duration_s, "source_frames",
                     (json_int_t)m->source_frames, "rule", m->rule, "cached", (int)m->from_cache);
}

json_t *serve_usage_of(const serve_request *request, const sac_result *r, double kept_ratio) {
    json_t *media = json_array();
    int64_t frames = 0;
    for (size_t i = 0; i < r->n_media; i++) {
        sac_media_report m = describe(&r->media[i], &request->media[i]);
        json_array_append_new(media, media_json(&m));
        frames += r->media[i].n_frames;
    }
    json_int_t prompt = r->n_prompt_tokens, answer = r->n_tokens;
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:I}, s:{s:I, s:I, s:I}, s:I, s:I, s:f, s:o}", "prompt_tokens", prompt,
                     "completion_tokens", answer, "total_tokens", prompt + answer, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)r->n_reused_tokens, "image_tokens",
                     (json_int_t)r->n_visual_tokens, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)0, "accepted_prediction_tokens", (json_int_t)r->n_accepted_tokens,
                     "rejected_prediction_tokens", (json_int_t)(r->n_drafted_tokens - r->n_accepted_tokens),
                     "visual_tokens", (json_int_t)r->n_visual_tokens, "frames", (json_int_t)frames, "kept_ratio", kept_ratio, "media", media);
}

static void add_to(json_t *usage, const char *key, int64_t n) {
    json_int_t had = json_integer_value(json_object_get(usage, key));
    json_object_set_new(usage, key, json_integer(had + (json_int_t)n));
}

void serve_usage_add(json_t *usage, int64_t n_prompt, const sac_result *r) {
    json_t *details = json_object_get(usage, "completion_tokens_details");
    add_to(usage, "prompt_tokens", n_prompt);
    add_to(usage, "completion_tokens", r->n_tokens);
    add_to(usage, "total_tokens", n_prompt + r->n_tokens);
    add_to(details, "accepted_prediction_tokens", r->n_accepted_tokens);
    add_to(details, "rejected_prediction_tokens", r->n_drafted_tokens - r->n_accepted_tokens);
}

void serve_usage_set_reasoning(json_t *usage, int64_t n) {
    json_object_set_new(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens",
                        json_integer((json_int_t)n));
}

static int64_t count_of(const json_t *object, const char *key) {
    return (int64_t)json_integer_value(json_object_get(object, key));
}

int64_t serve_usage_prompt(const json_t *usage) {
    return count_of(usage, "prompt_tokens");
}

int64_t serve_usage_cached(const json_t *usage) {
    return count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

int64_t serve_usage_answer(const json_t *usage) {
    return count_of(usage, "completion_tokens");
}

const json_t *serve_usage_details(const json_t *usage) {
    return json_object_get(usage, "completion_tokens_details");
}

void serve_usage_copy_own(json_t *to, const json_t *usage) {
    static const char *const own[] = {"visual_tokens", "frames", "kept_ratio", "media"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        json_object_set(to, own[i], json_object_get(usage, own[i]));
}
