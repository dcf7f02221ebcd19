/* serve.c - `saccade serve`: the HTTP server, as the settings ask for it. */
#define _GNU_SOURCE
#include "commands.h"
#include "interrupt.h"
#include "status.h"

#include "serve.h"

#include <stdio.h>
#include <string.h>

/* The name that clients give: the folder's, unless one is set. */
static const char *model_name(const settings *s, const char *path) {
    if (s->model_name) return s->model_name;
    static char name[256];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/') from--;
    snprintf(name, sizeof name, "%.*s", (int)(n - from), path + from);
    return name;
}

static serve_texts texts_of(const text_list *list) {
    return (serve_texts){(const char *const *)list->items, list->n};
}

static size_t mib(int64_t n) {
    return (size_t)n << 20;
}

static serve_config config_of(const run *r) {
    const settings *s = r->s;
    serve_config c;
    serve_config_default(&c);
    c.model_name = model_name(s, r->model_path);
    c.adapters = (serve_texts){r->names, r->n_names};
    if (s->host) c.host = s->host;
    c.port = (int)s->port;
    c.api_keys = texts_of(&s->api_key);
    c.cors_origin = s->cors_origin;
    c.media_root = s->media_root;
    c.upload_dir = s->upload_dir;
    c.fetch_domains = texts_of(&s->fetch_domain);
    c.n_slots = (int)s->slots;
    c.n_queue = (int)s->queue;
    c.n_client_slots = (int)s->client_slots;
    c.n_client_requests = (int)s->client_requests;
    c.target_itl_s = s->target_itl_ms / 1000;
    c.pass_rows = (int)s->pass_rows;
    c.shared_priorities = s->shared_priorities;
    c.request_methods = s->request_methods;
    c.kv_memory_bytes = mib(s->kv_memory_mib);
    c.share_beginnings = !s->no_sharing;
    c.cache_memory_bytes = s->no_sharing ? 0 : mib(s->cache_memory_mib);
    c.cache_dir = s->cache_dir;
    c.cache_disk_bytes = mib(s->cache_disk_mib);
    c.lenient_fields = s->lenient_fields;
    c.request_log = s->request_log;
    c.otlp_traces_endpoint = s->otlp_traces_endpoint;
    c.kv_events_config = s->kv_events_config;
    c.tool_parser = s->tool_parser;
    c.reasoning_parser = s->reasoning_parser;
    c.session = r->session_config;
    c.sampling = r->sampling;
    c.chat = r->chat;
    c.max_connections = (int)s->connections;
    c.max_body_bytes = mib(s->body_mib);
    c.max_bodies_bytes = mib(s->bodies_mib);
    c.max_uploads_bytes = mib(s->uploads_mib);
    c.max_media_bytes = mib(s->media_mib);
    c.max_decoded_bytes = mib(s->decoded_mib);
    c.max_pixels = s->picture_pixels;
    c.max_frames = s->max_frames ? (int)s->max_frames : c.max_frames;
    c.max_media = (int)s->media_items;
    c.max_duration_s = s->video_seconds;
    c.decode_s = s->decode_seconds;
    c.timeout_s = s->request_seconds;
    c.header_timeout_s = s->receive_seconds;
    c.heartbeat_s = s->heartbeat_seconds;
    c.drain_s = s->drain_seconds;
    c.quiet = s->quiet;
    return c;
}

/* Beginnings are kept of what slots share, and on disk of what is in memory. */
static sac_status check_cache(const settings *s, sac_error *err) {
    bool has_memory = settings_given(s, offsetof(settings, cache_memory_mib)) && s->cache_memory_mib;
    if (s->no_sharing && (s->cache_dir || has_memory))
        return sac_fail(err, SAC_BAD_ARGUMENT, "%s keeps rows that slots share: not with --no-sharing",
                        s->cache_dir ? "--cache-dir" : "--cache-memory");
    if (s->kv_events_config && (s->no_sharing || !s->cache_memory_mib))
        return sac_fail(err, SAC_BAD_ARGUMENT, "--kv-events-config tells what --cache-memory keeps: not with %s",
                        s->no_sharing ? "--no-sharing" : "--cache-memory 0");
    if (s->cache_dir && !s->cache_memory_mib)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--cache-dir takes rows out of memory: not with --cache-memory 0");
    if (settings_given(s, offsetof(settings, cache_disk_mib)) && !s->cache_dir)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--cache-disk without --cache-dir: there are no files");
    return SAC_OK;
}

static sac_status serve(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words) return sac_fail(err, SAC_BAD_ARGUMENT, "serve takes no '%.60s'", words[0]);
    SAC_TRY(check_cache(s, err));
    if (s->media_root) SAC_TRY(settings_check_folder("--media-root", s->media_root, err));
    run r = {0};
    sac_status st = run_open(&r, s, (size_t)s->vision_cache_mib << 20, err);
    serve_config c = st == SAC_OK ? config_of(&r) : (serve_config){0};
    for (size_t i = 0; st == SAC_OK && i < r.n_names; i++)
        if (!strcmp(r.names[i], c.model_name))
            st = sac_fail(err, SAC_BAD_ARGUMENT,
                          "--adapter %.60s=...: that is the model's own name; give another, or --model-name",
                          r.names[i]);
    if (st == SAC_OK) {
        interrupt_call(serve_stop);
        st = serve_run(r.model, &c, err);
        interrupt_call(NULL);
    }
    run_close(&r);
    return st;
}

const command command_serve = {
    .name = "serve",
    .mask = COMMAND_SERVE,
    .brief = "answer over HTTP, with OpenAI's and Anthropic's APIs",
    .synopsis = "[options]",
    .summary =
        "Answers over HTTP with OpenAI's APIs: /v1/chat/completions and /v1/responses with pictures and\n"
        "videos, /v1/completions, /v1/models, /v1/files; Anthropic's /v1/messages; /health, /metrics, and\n"
        "a page at /. Ends on SIGTERM or Ctrl-C, after the running answers. docs/server.md has it all.",
    .examples = "  saccade serve --port 8000\n"
                "  saccade serve -m MODEL --host 0.0.0.0 --api-key SECRET --slots 8 --ctx 16384\n"
                "  saccade serve --media-root /data/videos --upload-dir /var/lib/saccade\n"
                "  saccade serve --fetch-domain '*.example.org'\n",
    .run = serve,
};
