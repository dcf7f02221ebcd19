#define _GNU_SOURCE
#include "run.h"
#include "clock.h"
#include "input.h"
#include "installed.h"
#include "interrupt.h"
#include "method_names.h"
#include "output.h"
#include "status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOLS_MAX_BYTES ((size_t)4 << 20)

static sac_status find_model(run *r, sac_error *err) {
    const char *named = getenv("SACCADE_MODEL");
    r->model_path = r->s->model       ? r->s->model
                    : named && *named ? named
                                      : installed_find(r->own_path, sizeof r->own_path, "demo", SAC_DEMO_MODEL_DIR);
    if (r->model_path) return SAC_OK;
    return sac_fail(err, SAC_NOT_FOUND, "no model: the demo model is not installed here; name one with -m");
}

sac_session_config run_session_config(const settings *s) {
    sac_session_config c;
    sac_session_config_default(&c);
    if (settings_given(s, offsetof(settings, ctx))) c.n_ctx = s->ctx;
    if (settings_given(s, offsetof(settings, prefill_chunk))) c.prefill_chunk = s->prefill_chunk;
    if (s->kv) c.kv = s->kv;
    if (s->prefill) c.prefill = s->prefill;
    if (s->decode) c.decode = s->decode;
    if (s->rope) c.rope = s->rope;
    if (s->reduce) c.reduce = s->reduce;
    if (s->draft) c.draft = s->draft;
    c.measure_mass = s->measure_mass;
    return c;
}

sac_sampling run_sampling(const settings *s, const sac_model *m) {
    sac_sampling p;
    sac_sampling_default(&p);
    sac_sampling_of_model(m, &p);
    if (settings_given(s, offsetof(settings, max_tokens))) p.max_tokens = (int)s->max_tokens;
    if (settings_given(s, offsetof(settings, temperature))) p.temperature = s->temperature;
    if (settings_given(s, offsetof(settings, top_k))) p.top_k = (int)s->top_k;
    if (settings_given(s, offsetof(settings, top_p))) p.top_p = s->top_p;
    if (settings_given(s, offsetof(settings, min_p))) p.min_p = s->min_p;
    if (settings_given(s, offsetof(settings, repetition_penalty)))
        p.repetition_penalty = s->repetition_penalty;
    if (settings_given(s, offsetof(settings, seed))) p.seed = s->seed;
    p.stop = (const char *const *)s->stop.items;
    p.n_stop = s->stop.n;
    return p;
}

/* "NAME=VALUE" */
static sac_status set_control(sac_controls *c, const char *line, sac_error *err) {
    char name[80];
    size_t n = strcspn(line, "=");
    if (!line[n] || n == 0 || n >= sizeof name)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--set %.80s: give NAME=VALUE", line);
    memcpy(name, line, n);
    name[n] = 0;
    sac_status st = sac_controls_set(c, name, line + n + 1, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "--set");
}

sac_status run_controls(sac_controls **out, const settings *s, const sac_model *m, sac_error *err) {
    SAC_TRY(sac_controls_of_model(out, m, err));
    for (size_t i = 0; i < s->set.n; i++) SAC_TRY(set_control(*out, s->set.items[i], err));
    return SAC_OK;
}

/* The library knows all of these but "auto", so its words for a device that nobody knows lack it. */
static bool is_device(const char *name) {
    if (!strcmp(name, "cpu") || !strcmp(name, "cuda") || !strcmp(name, "auto")) return true;
    return !strncmp(name, "cuda:", 5) && name[5] && !name[5 + strspn(name + 5, "0123456789")];
}

/* On the card where there is one that takes this model, otherwise on the CPU, with a line that says why. */
static sac_status open_wherever(run *r, sac_model_options *o, sac_error *err) {
    sac_error why;
    o->device = "cuda";
    sac_status st = sac_model_open(&r->model, r->model_path, o, err);
    r->device = o->device;
    if (st != SAC_UNSUPPORTED && st != SAC_DEVICE && st != SAC_NO_MEMORY) return st;
    why = *err;
    r->device = o->device = NULL;
    SAC_TRY(sac_model_open(&r->model, r->model_path, o, err));
    progress_clear(&r->progress);
    fprintf(stderr, "saccade: no card is used: %s\n", why.text);
    return SAC_OK;
}

/* One line for all keys of the model's files that nothing here knows. */
static void warn_of_keys(const sac_model *m) {
    char line[600] = "";
    size_t used = 0, n = 0;
    sac_key_info key, first = {0};
    for (int64_t i = 0; sac_model_get_key(m, i, &key); i++) {
        if (key.effect != SAC_KEY_IS_UNKNOWN) continue;
        if (n++ == 0) first = key;
        bool other = strcmp(first.file, key.file) != 0;
        if (used < sizeof line - 200)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s%s\"%s\"", n > 1 ? ", " : "",
                                     other ? key.file : "", other ? ": " : "", key.name);
        else if (used < sizeof line - 8)
            used += (size_t)snprintf(line + used, sizeof line - used, ", ...");
    }
    if (n)
        fprintf(stderr, "saccade: %s: %s: not known here, without effect (inspect --keys)\n", first.file,
                line);
}

/* What the chat template is told besides the messages; refused before the session's memory is taken. */
static sac_status read_chat(run *r, sac_error *err) {
    const settings *s = r->s;
    if (s->tools) SAC_TRY(input_read(&r->tools, s->tools, TOOLS_MAX_BYTES, err));
    r->chat = (sac_chat_options){.tools = r->tools,
                                 .variables = s->chat_template_kwargs,
                                 .parse_special = s->parse_special,
                                 .keep_video_marks = s->keep_video_marks};
    sac_status st = sac_chat_options_check(r->model, &r->chat, err);
    if (st == SAC_OK || st == SAC_NO_MEMORY) return st;
    return sac_fail_prefix(err, st, "%s",
                           s->tools                  ? s->tools
                           : s->chat_template_kwargs ? "--chat-template-kwargs"
                                                     : "--keep-video-marks");
}

/* "NAME=DIR"; a folder whose own name has a '=' is given with a '/' before that. */
static bool is_kept_apart(const char *spec) {
    size_t n = strcspn(spec, "=/");
    return n > 0 && spec[n] == '=';
}

/* Those to merge, then those to keep apart. */
static sac_status sort_adapters(run *r, sac_model_options *o, sac_error *err) {
    const text_list *all = &r->s->adapter;
    const char **sorted = calloc(all->n + 1, sizeof *sorted);
    if (!sorted) return sac_fail_no_memory(err);
    r->adapters = sorted;
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (!is_kept_apart(all->items[i])) sorted[n++] = all->items[i];
    o->adapters = sorted;
    o->n_adapters = n;
    o->kept_adapters = sorted + n;
    for (size_t i = 0; i < all->n; i++)
        if (is_kept_apart(all->items[i])) sorted[n++] = all->items[i];
    o->n_kept_adapters = n - o->n_adapters;
    return SAC_OK;
}

/* Names of the adapters that are kept apart. */
static sac_status list_names(run *r, sac_error *err) {
    sac_adapter_info a;
    r->names = calloc(r->s->adapter.n + 1, sizeof *r->names);
    if (!r->names) return sac_fail_no_memory(err);
    for (int64_t i = 0; sac_model_get_adapter(r->model, i, &a); i++)
        if (a.name) r->names[r->n_names++] = a.name;
    return SAC_OK;
}

/* The adapter that is kept apart, where there is one. */
static sac_status use_adapter(const run *r, sac_session *session, sac_error *err) {
    if (r->n_names < 2) return sac_session_set_adapter(session, r->names[0], err);
    return sac_fail(
        err, SAC_BAD_ARGUMENT,
        "--adapter %.60s=..., --adapter %.60s=...: one that is kept apart is used at a time; give the "
        "others without a name, or let saccade serve choose by request",
        r->names[0], r->names[1]);
}

sac_status run_open(run *r, const settings *s, size_t vision_cache_bytes, sac_error *err) {
    *r = (run){.s = s};
    progress_init(&r->progress, s->quiet);
    if (s->device && !is_device(s->device))
        return sac_fail(err, SAC_BAD_ARGUMENT, "device \"%.80s\": give cpu, cuda, cuda:N or auto", s->device);
    SAC_TRY(method_names_check(s, err));
    SAC_TRY(find_model(r, err));
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = (int)s->threads;
    o.chat_format = s->chat;
    o.tokenizer = s->tokenizer;
    o.mmproj = s->mmproj;
    o.weights = s->weights;
    SAC_TRY(sort_adapters(r, &o, err));
    o.vision_cache_bytes = vision_cache_bytes;
    o.device = s->device;
    o.activations = s->activations;
    o.fast = s->fast;
    o.image_min_pixels = s->image_min_pixels;
    o.image_max_pixels = s->image_max_pixels;
    o.progress = progress_update;
    o.progress_ctx = &r->progress;
    int64_t start = sac_now_ns();
    bool wherever = s->device && !strcmp(s->device, "auto");
    r->device = s->device;
    sac_status st = wherever ? open_wherever(r, &o, err) : sac_model_open(&r->model, r->model_path, &o, err);
    progress_clear(&r->progress);
    if (st != SAC_OK) return st;
    r->load_seconds = sac_seconds_since(start);
    sac_model_get_info(r->model, &r->info);
    SAC_TRY(list_names(r, err));
    r->session_config = run_session_config(s);
    r->sampling = run_sampling(s, r->model);
    if (r->info.unknown_setting)
        fprintf(stderr, "saccade: generation_config.json: \"%s\" is not known here and has no effect\n",
                r->info.unknown_setting);
    if (r->info.unknown_tokenizer)
        fprintf(stderr,
                "saccade: the tokenizer class %s is not known here: tokenizer.json is taken as it is\n",
                r->info.unknown_tokenizer);
    if (r->info.n_unrounded)
        fprintf(stderr, "saccade: --weights %s: %d matrices stay as they are, their rows are no whole groups; the first is %s\n",
                s->weights, r->info.n_unrounded, r->info.first_unrounded);
    warn_of_keys(r->model);
    SAC_TRY(run_controls(&r->controls, s, r->model, err));
    r->sampling.controls = r->controls;
    r->session_config.guidance = sac_controls_want_guidance(r->controls);
    return read_chat(r, err);
}

sac_status run_make_session(const run *r, sac_session **out, sac_error *err) {
    SAC_TRY(sac_session_create(out, r->model, &r->session_config, err));
    sac_session_leave_logits(*out, true);
    sac_status st = sac_session_set_chat(*out, &r->chat, err);
    if (st == SAC_OK) st = use_adapter(r, *out, err);
    if (st == SAC_OK) return SAC_OK;
    sac_session_free(*out);
    *out = NULL;
    return st;
}

sac_status run_create_session(run *r, sac_error *err) {
    return run_make_session(r, &r->session, err);
}

void run_free_session(run *r) {
    sac_session_free(r->session);
    r->session = NULL;
}

void run_close(run *r) {
    progress_clear(&r->progress);
    run_free_session(r);
    sac_controls_free(r->controls);
    free(r->tools);
    free(r->adapters);
    free(r->names);
    r->adapters = r->names = NULL;
    r->controls = NULL;
    r->tools = NULL;
    sac_model_free(r->model);
    r->model = NULL;
}

static bool keep(answer *a, const char *utf8, size_t n) {
    if (a->n_bytes + n + 1 > a->room) {
        size_t room = 2 * (a->n_bytes + n + 1);
        char *text = realloc(a->text, room);
        if (!text) return false;
        a->text = text;
        a->room = room;
    }
    memcpy(a->text + a->n_bytes, utf8, n);
    a->n_bytes += n;
    a->text[a->n_bytes] = 0;
    return true;
}

static bool on_text(void *ctx, const char *utf8, size_t n) {
    answer *a = ctx;
    progress_clear(&a->r->progress);
    if (!keep(a, utf8, n)) return false;
    if (!a->quiet && !output_piece(utf8, n)) {
        a->write_failed = true;
        return false;
    }
    return !interrupt_pending();
}

static void on_token(void *ctx, const sac_token_event *event) {
    answer *a = ctx;
    if (event->n_top > 1) a->margin = fmin(a->margin, event->top[0].logprob - event->top[1].logprob);
}

static void on_progress(void *ctx, const char *stage, int64_t done, int64_t total) {
    answer *a = ctx;
    progress_update(&a->r->progress, stage, done, total);
    if (interrupt_pending()) sac_session_cancel(a->r->session);
}

static void on_tile(void *ctx, size_t media, int64_t tile, int width, int height, const uint8_t *rgb) {
    answer *a = ctx;
    attention_view_tile(a->r->view, media, tile, width, height, rgb);
}

void answer_free(answer *a) {
    free(a->text);
    *a = (answer){0};
}

static sac_status generate_text(run *r, const char *text, size_t n_bytes, const sac_events *events,
                                sac_result *result, sac_error *err) {
    int32_t token;
    sac_status st = sac_session_begin_text(r->session, text, n_bytes, &r->sampling, events, err);
    for (bool done = false; st == SAC_OK && !done;)
        st = sac_session_step(r->session, events, &token, &done, err);
    if (st == SAC_OK) sac_session_end(r->session, result);
    return st;
}

/* Of the conversation, or where that is NULL of the text. */
static sac_status make_answer(run *r, const conversation *c, const char *text, size_t n_bytes, answer *a,
                              sac_result *result, sac_error *err) {
    *a = (answer){.quiet = a->quiet, .margin = (double)INFINITY, .r = r};
    if (!keep(a, "", 0)) return sac_fail_no_memory(err);
    sac_events events = {.ctx = a,
                         .text = on_text,
                         .token = r->sampling.top_logprobs > 1 ? on_token : NULL,
                         .progress = on_progress,
                         .tile = r->view ? on_tile : NULL};
    interrupt_begin(r->session);
    sac_status st = c ? sac_session_generate(r->session, c->messages, c->n_messages, &r->sampling, &events,
                                             result, err)
                      : generate_text(r, text, n_bytes, &events, result, err);
    bool interrupted = interrupt_end();
    progress_clear(&r->progress);
    if (a->write_failed) return output_finish(err);
    bool ends = a->n_bytes ? a->text[a->n_bytes - 1] == '\n' : st != SAC_OK;
    if (!a->quiet && !ends) output_piece("\n", 1);
    if (st == SAC_CANCELLED && !interrupted)
        return sac_fail_no_memory(err); /* only `keep` ends it otherwise */
    return st;
}

sac_status run_answer(run *r, const conversation *c, answer *a, sac_result *result, sac_error *err) {
    return make_answer(r, c, NULL, 0, a, result, err);
}

sac_status run_answer_text(run *r, const char *text, size_t n_bytes, answer *a, sac_result *result,
                           sac_error *err) {
    return make_answer(r, NULL, text, n_bytes, a, result, err);
}
