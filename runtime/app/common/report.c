#include "report.h"
#include "method_summary.h"
#include "output.h"
#include "run_files.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets a member and remembers a failure: an object that lacks a member must not be printed. */
typedef struct builder {
    json_t *object;
    bool failed;
} builder;

static builder begin(void) {
    return (builder){.object = json_object()};
}
static void set(builder *b, const char *key, json_t *value) {
    if (!b->object || !value || json_object_set_new(b->object, key, value)) {
        if (!b->object) json_decref(value);
        b->failed = true;
    }
}
static json_t *end(builder *b) {
    if (!b->failed && b->object) return b->object;
    json_decref(b->object);
    return NULL;
}
static void set_int(builder *b, const char *key, int64_t v) {
    set(b, key, json_integer(v));
}
static void set_real(builder *b, const char *key, double v) {
    set(b, key, report_real(v));
}
static void set_text(builder *b, const char *key, const char *v) {
    set(b, key, report_text(v));
}

/* A path less the model's own, so that records of one model are alike wherever it lies. */
static const char *within_model(const run *r, const char *path) {
    size_t n = strlen(r->model_path);
    return !strncmp(path, r->model_path, n) ? path + n + strspn(path + n, "/ ") : path;
}

/* Their files are told by a fingerprint, as the model's are where results depend on it. */
static json_t *adapters_of(const run *r) {
    json_t *list = json_array();
    sac_adapter_info a;
    for (int64_t i = 0; list && sac_model_get_adapter(r->model, i, &a); i++) {
        char fingerprint[17] = "";
        (void)run_files_fingerprint(a.folder, fingerprint, NULL);
        json_t *row =
            json_pack("{s:s*, s:o, s:s, s:o, s:i, s:i, s:I, s:s}", "name", a.name, "path",
                      report_text(a.folder), "kind", a.kind, "scale", report_real(a.scale), "rank", a.rank,
                      "tensors", a.n_tensors, "bytes", (json_int_t)a.n_bytes, "fingerprint", fingerprint);
        if (!json_array_append_new(list, row)) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* The file of the vision half. */
static json_t *mmproj_of(const run *r) {
    char fingerprint[17] = "";
    (void)run_files_fingerprint(r->info.mmproj, fingerprint, NULL);
    return json_pack("{s:o, s:s}", "path", report_text(r->info.mmproj), "fingerprint", fingerprint);
}

json_t *report_model(const run *r) {
    builder b = begin();
    sac_adapter_info first;
    set_text(&b, "path", r->model_path);
    if (r->info.mmproj) set(&b, "mmproj", mmproj_of(r));
    if (r->s->weights) set_text(&b, "weights", r->s->weights);
    if (r->info.n_unrounded) set_int(&b, "weights_left", r->info.n_unrounded);
    set_text(&b, "family", r->info.family);
    set_text(&b, "dtype", r->info.dtype);
    set_text(&b, "chat_format", r->info.chat_format);
    set_text(&b, "tokenizer", r->info.tokenizer);
    if (r->info.chat_source) set_text(&b, "chat_template", within_model(r, r->info.chat_source));
    set_int(&b, "parameters", r->info.n_parameters);
    set_int(&b, "weight_bytes", (int64_t)r->info.weight_bytes);
    if (sac_model_get_adapter(r->model, 0, &first)) set(&b, "adapters", adapters_of(r));
    return end(&b);
}

static json_t *stop_texts(const sac_sampling *p) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < p->n_stop; i++) {
        if (!json_array_append_new(list, report_text(p->stop[i]))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *sampling_settings(const sac_sampling *p) {
    builder b = begin();
    set_int(&b, "max_tokens", p->max_tokens);
    set_real(&b, "temperature", p->temperature);
    set_int(&b, "top_k", p->top_k);
    set_real(&b, "top_p", p->top_p);
    set_real(&b, "min_p", p->min_p);
    set_real(&b, "repetition_penalty", p->repetition_penalty);
    set(&b, "seed", json_integer((json_int_t)p->seed));
    set(&b, "stop", stop_texts(p));
    return end(&b);
}

static json_t *session_settings(const run *r) {
    sac_memory_report m;
    sac_session_method_lines lines;
    sac_session_memory(r->session, &m);
    sac_session_methods(r->session, &lines);
    builder b = begin();
    set_int(&b, "ctx", m.n_ctx);
    set_text(&b, "kv", r->session_config.kv ? r->session_config.kv : lines.kv);
    set_text(&b, "prefill", r->session_config.prefill);
    set_text(&b, "decode", r->session_config.decode);
    set_text(&b, "rope", r->session_config.rope ? r->session_config.rope : "model");
    set_text(&b, "reduce", r->session_config.reduce ? r->session_config.reduce : "none");
    set(&b, "measure_mass", json_boolean(r->session_config.measure_mass));
    set_int(&b, "prefill_chunk", r->session_config.prefill_chunk);
    if (r->session_config.draft) set_text(&b, "draft", lines.draft);
    return end(&b);
}

/* What was asked; 0 = not. What came of it is each medium's "rule". */
static json_t *video_settings(const settings *s) {
    builder b = begin();
    set_real(&b, "fps", s->fps);
    set_int(&b, "num_frames", s->num_frames);
    set_int(&b, "max_frames", s->max_frames);
    set_int(&b, "max_pixels", s->max_pixels);
    set(&b, "no_rotate", json_boolean(s->no_rotate));
    if (s->key_frames) set(&b, "key_frames", json_true());
    return end(&b);
}

json_t *report_settings(const run *r) {
    builder b = begin();
    set_int(&b, "threads", r->info.n_threads);
    if (r->device) set_text(&b, "device", r->device);
    set(&b, "fast", json_boolean(r->s->fast));
    if (r->s->chat_template_kwargs) set_text(&b, "chat_template_kwargs", r->s->chat_template_kwargs);
    if (r->s->parse_special) set(&b, "parse_special", json_true());
    if (r->s->keep_video_marks) set(&b, "keep_video_marks", json_true());
    set(&b, "sampling", sampling_settings(&r->sampling));
    set(&b, "video", video_settings(r->s));
    set(&b, "session", session_settings(r));
    return end(&b);
}

json_t *report_memory(const sac_memory_report *m) {
    builder parts = begin(), shared = begin();
    for (int i = 0; i < m->n_parts; i++)
        set_int(m->parts[i].is_shared ? &shared : &parts, m->parts[i].tag, (int64_t)m->parts[i].n_bytes);
    builder b = begin();
    set_int(&b, "ctx", m->n_ctx);
    set_int(&b, "weight_bytes", (int64_t)m->weight_bytes);
    set_int(&b, "workspace_bytes", (int64_t)m->workspace_bytes);
    set_int(&b, "session_bytes", (int64_t)m->total_bytes);
    if (m->device_bytes) set_int(&b, "device_bytes", (int64_t)m->device_bytes);
    if (m->workspace_device_bytes) set_int(&b, "workspace_device_bytes", (int64_t)m->workspace_device_bytes);
    if (m->device_vision_bytes) set_int(&b, "device_vision_bytes", (int64_t)m->device_vision_bytes);
    if (m->device_cache_bytes) set_int(&b, "device_cache_bytes", (int64_t)m->device_cache_bytes);
    set_int(&b, "kv_bytes_per_token", (int64_t)m->kv_bytes_per_token);
    set(&b, "parts", end(&parts));
    set(&b, "workspace_parts", end(&shared));
    return end(&b);
}

/* What the methods did; their lines as they run, which may be dense where the settings ask for a method. */
static json_t *methods(const run *r, const sac_result *result) {
    method_summary m;
    method_summary_read(r->session, &r->info, &m);
    builder b = {.object = method_summary_json(&m)};
    set(&b, "prefill_is_short", json_boolean(result->prefill_is_short));
    set(&b, "kept_by_layer", method_summary_layers_json(r->session));
    set_int(&b, "kv_bytes", (int64_t)sac_session_kv_bytes(r->session));
    return end(&b);
}

static json_t *usage(const sac_result *r) {
    builder b = begin();
    set_int(&b, "prompt_tokens", r->n_prompt_tokens);
    set_int(&b, "visual_tokens", r->n_visual_tokens);
    set_int(&b, "reused_tokens", r->n_reused_tokens);
    set_int(&b, "completion_tokens", r->n_tokens);
    set_int(&b, "total_tokens", r->n_prompt_tokens + r->n_tokens);
    if (r->n_drafted_tokens) {
        set_int(&b, "drafted_tokens", r->n_drafted_tokens);
        set_int(&b, "accepted_tokens", r->n_accepted_tokens);
    }
    return end(&b);
}

static json_t *timings(const run *r, const sac_result *result) {
    builder b = begin();
    set_real(&b, "load_s", r->load_seconds);
    set_real(&b, "media_s", result->seconds.media);
    set_real(&b, "vision_s", result->seconds.vision);
    set_real(&b, "prefill_s", result->seconds.prefill);
    set_real(&b, "decode_s", result->seconds.decode);
    set_real(&b, "first_token_s", result->seconds.first_token);
    set_real(&b, "total_s", result->seconds.total);
    set_real(&b, "prefill_tokens_per_s",
             (double)(result->n_prompt_tokens - result->n_reused_tokens) / result->seconds.prefill);
    set_real(&b, "decode_tokens_per_s", (double)result->n_tokens / result->seconds.decode);
    return end(&b);
}

static json_t *timestamps(const sac_media_report *m) {
    if (!m->time_s) return json_null();
    json_t *list = json_array();
    for (int i = 0; list && i < m->n_frames; i++) {
        /* Microseconds: more digits would be the noise of a division. */
        if (!json_array_append_new(list, report_real(round(m->time_s[i] * 1e6) / 1e6))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static const char *kind_name(sac_part_kind kind) {
    return kind == SAC_PART_IMAGE ? "image" : kind == SAC_PART_VIDEO ? "video" : "frames";
}

static json_t *media_item_report(const sac_media_report *m, const sac_part *part) {
    builder b = begin();
    set_text(&b, "kind", kind_name(m->kind));
    set_text(&b, "file", part ? part->path : NULL);
    set_int(&b, "width", m->width);
    set_int(&b, "height", m->height);
    set_int(&b, "frames", m->n_frames);
    set_int(&b, "tiles", m->n_tiles);
    set_int(&b, "tokens", m->n_tokens);
    set(&b, "from_cache", json_boolean(m->from_cache));
    if (m->kind != SAC_PART_IMAGE) {
        set_text(&b, "rule", m->rule);
        set_int(&b, "source_frames", m->source_frames);
        set_real(&b, "source_fps", m->source_fps);
        set_real(&b, "duration_s", m->duration_s);
        set(&b, "timestamps", timestamps(m));
    }
    return end(&b);
}

/* The part of the conversation that is its i-th picture or video. */
static const sac_part *media_part(const conversation *c, size_t i) {
    for (size_t m = 0; m < c->n_messages; m++)
        for (size_t p = 0; p < c->messages[m].n_parts; p++)
            if (c->messages[m].parts[p].kind != SAC_PART_TEXT && i-- == 0) return &c->messages[m].parts[p];
    return NULL;
}

static json_t *media_reports(const sac_result *result, const conversation *c) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < result->n_media; i++) {
        if (!json_array_append_new(list, media_item_report(&result->media[i], media_part(c, i)))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

json_t *report_answer(const run *r, const sac_result *result, const answer *a, const conversation *c) {
    sac_memory_report memory;
    sac_session_memory(r->session, &memory);
    builder b = begin();
    set_text(&b, "text", a->text);
    set_text(&b, "finish_reason", result->finish_reason);
    set(&b, "model", report_model(r));
    set(&b, "settings", report_settings(r));
    set(&b, "usage", usage(result));
    set(&b, "timings", timings(r, result));
    set(&b, "media", media_reports(result, c));
    set(&b, "methods", methods(r, result));
    set(&b, "memory", report_memory(&memory));
    return end(&b);
}

sac_status report_print(json_t *object, sac_error *err) {
    if (!object) return sac_fail_no_memory(err);
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
    return output_finish(err);
}

static void print_bytes(const char *tag, size_t n_bytes) {
    printf("  %-25s %12s\n", tag, report_bytes((double)n_bytes));
}

/* Of the session, or of the workspace that sessions share. */
static void print_parts(const sac_memory_report *m, bool shared) {
    for (int i = 0; i < m->n_parts; i++)
        if (m->parts[i].is_shared == shared) print_bytes(m->parts[i].tag, m->parts[i].n_bytes);
}

void report_print_memory(const sac_memory_report *m) {
    printf("memory for a context of %s tokens\n", report_count(m->n_ctx));
    print_parts(m, false);
    print_bytes("session", m->total_bytes);
    if (m->device_bytes) print_bytes("  on the device", m->device_bytes);
    print_parts(m, true);
    print_bytes("workspace (shared)", m->workspace_bytes);
    if (m->workspace_device_bytes) print_bytes("  on the device", m->workspace_device_bytes);
    if (m->device_cache_bytes) print_bytes("pictures (shared)", m->device_cache_bytes);
    print_bytes("weights (shared)", m->weight_bytes);
    print_bytes("total", m->total_bytes + m->workspace_bytes + m->weight_bytes);
    print_bytes("keys, values / token", m->kv_bytes_per_token);
}

void report_print_summary(const run *r, const sac_result *result) {
    const char *dim = progress_dim(&r->progress), *plain = progress_plain(&r->progress);
    for (size_t i = 0; i < result->n_media; i++) {
        const sac_media_report *m = &result->media[i];
        if (m->kind == SAC_PART_IMAGE || m->n_frames < 1) continue;
        fprintf(stderr, "%s[%s: %d of %s", dim, kind_name(m->kind), m->n_frames,
                report_counted(m->source_frames, "frame"));
        if (m->time_s) fprintf(stderr, ", %.2f to %.2f s", m->time_s[0], m->time_s[m->n_frames - 1]);
        fprintf(stderr, ", %s; rule: %s]%s\n", report_counted(m->n_tokens, "token"), m->rule, plain);
    }
    char rate[40] = "";
    if (result->n_tokens > 1 && result->seconds.decode > 0)
        snprintf(rate, sizeof rate, " at %.1f/s", (double)result->n_tokens / result->seconds.decode);
    fprintf(stderr, "%s[%s (%s visual, %s reused), %s%s, %.2f s%s]%s\n", dim,
            report_counted(result->n_prompt_tokens, "prompt token"), report_count(result->n_visual_tokens),
            report_count(result->n_reused_tokens), report_counted(result->n_tokens, "answer token"), rate,
            result->seconds.total, !strcmp(result->finish_reason, "length") ? ", cut at the limit" : "",
            plain);
    if (!result->prefill_is_short) return;
    sac_session_method_lines lines;
    sac_session_methods(r->session, &lines);
    fprintf(stderr, "%s[read densely: shorter than prefill %s asks for]%s\n", dim, lines.prefill, plain);
}
