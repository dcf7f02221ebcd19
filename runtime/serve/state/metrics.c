#define _GNU_SOURCE
#include "metrics.h"
#include "status.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BUCKETS = 20, N_REASONS = 3, N_STATUS = 16, N_REJECTIONS = 8 };

static const double second_buckets[N_BUCKETS] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                                 0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
static const double token_buckets[N_BUCKETS] = {1,    2,    5,    10,   20,  50,  100, 200, 500, 1000,
                                                2000, 3000, 5000, 7500, 1e4, 2e4, 3e4, 5e4, 1e5, 2e5};

static const char *const counter_names[] = {
#define X(field, name, help) name,
    SERVE_COUNTERS(X)
#undef X
};
static const char *const counter_helps[] = {
#define X(field, name, help) help,
    SERVE_COUNTERS(X)
#undef X
};
static const char *const histogram_names[] = {
#define X(field, name, help) name,
    SERVE_HISTOGRAMS(X)
#undef X
        "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens"};
static const char *const histogram_helps[] = {
#define X(field, name, help) help,
    SERVE_HISTOGRAMS(X)
#undef X
        "Tokens of a prompt",
    "Tokens of an answer"};
static const char *const reasons[N_REASONS] = {"stop", "length", "abort"};

typedef struct histogram {
    double sum;
    uint64_t n[N_BUCKETS + 1]; /* not cumulative; the last is everything larger */
} histogram;

struct serve_metrics {
    pthread_mutex_t lock;
    double counters[SERVE_N_COUNTERS];
    histogram histograms[SERVE_N_HISTOGRAMS];
    uint64_t finished[N_REASONS];
    struct {
        int status;
        uint64_t n;
    } replies[N_STATUS];
    struct {
        const char *code;
        uint64_t n;
    } rejections[N_REJECTIONS];
    uint64_t accepted[SERVE_N_PLACES]; /* guessed tokens, by their place in a pass */
    double kept_sum;
    uint64_t kept_n;
};

sac_status serve_metrics_open(serve_metrics **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for metrics");
    pthread_mutex_init(&(*out)->lock, NULL);
    return SAC_OK;
}

void serve_metrics_close(serve_metrics *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void serve_metrics_count(serve_metrics *m, serve_counter c, double n) {
    pthread_mutex_lock(&m->lock);
    m->counters[c] += n;
    pthread_mutex_unlock(&m->lock);
}

static const double *buckets_of(int h) {
    return h == SERVE_TIME_prompt_size || h == SERVE_TIME_generation_size ? token_buckets : second_buckets;
}

void serve_metrics_observe(serve_metrics *m, serve_histogram h, double value) {
    const double *bounds = buckets_of((int)h);
    size_t i = 0;
    while (i < N_BUCKETS && value > bounds[i]) i++;
    pthread_mutex_lock(&m->lock);
    m->histograms[h].n[i]++;
    m->histograms[h].sum += value;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_reply(serve_metrics *m, int status) {
    pthread_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < N_STATUS - 1 && m->replies[i].status && m->replies[i].status != status) i++;
    m->replies[i].status = status;
    m->replies[i].n++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_rejection(serve_metrics *m, const char *code) {
    pthread_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < N_REJECTIONS - 1 && m->rejections[i].code && strcmp(m->rejections[i].code, code) != 0) i++;
    m->rejections[i].code = code;
    m->rejections[i].n++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_success(serve_metrics *m, const char *finish_reason) {
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < N_REASONS; i++)
        if (!strcmp(reasons[i], finish_reason)) m->finished[i]++;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_accepted(serve_metrics *m, int place, int64_t n) {
    if (place < 0 || place >= SERVE_N_PLACES || n <= 0) return;
    pthread_mutex_lock(&m->lock);
    m->accepted[place] += (uint64_t)n;
    pthread_mutex_unlock(&m->lock);
}

void serve_metrics_kept_ratio(serve_metrics *m, double ratio) {
    pthread_mutex_lock(&m->lock);
    m->kept_sum += ratio;
    m->kept_n++;
    pthread_mutex_unlock(&m->lock);
}

/* ---------------------------------------------------------------- the text */

static void write_head(serve_buffer *b, const char *name, const char *help, const char *type) {
    serve_buffer_format(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_gauge(serve_buffer *b, const char *label, const char *name, const char *help,
                        double value) {
    write_head(b, name, help, "gauge");
    serve_buffer_format(b, "%s{%s} %.17g\n", name, label, value);
}

static void write_histogram(serve_buffer *b, const char *label, int i, const histogram *h) {
    const double *bounds = buckets_of(i);
    const char *name = histogram_names[i];
    uint64_t n = 0;
    write_head(b, name, histogram_helps[i], "histogram");
    for (size_t k = 0; k <= N_BUCKETS; k++) {
        n += h->n[k];
        if (k < N_BUCKETS)
            serve_buffer_format(b, "%s_bucket{%s,le=\"%g\"} %llu\n", name, label, bounds[k],
                                (unsigned long long)n);
        else
            serve_buffer_format(b, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, label, (unsigned long long)n);
    }
    serve_buffer_format(b, "%s_sum{%s} %.17g\n%s_count{%s} %llu\n", name, label, h->sum, name, label,
                        (unsigned long long)n);
}

static void write_counter(serve_buffer *b, const char *label, const char *name, const char *help, double value) {
    write_head(b, name, help, "counter");
    serve_buffer_format(b, "%s{%s} %.17g\n", name, label, value);
}

/* What is counted already, by further names of vLLM's: earlier ones, which routers still read, and those of the cache of media. */
static void write_other_names(const serve_metrics *m, serve_buffer *b, const char *label) {
    const double *c = m->counters;
    write_counter(b, label, "vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries_total by its earlier name",
                  c[SERVE_COUNT_prefix_queries]);
    write_counter(b, label, "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits_total by its earlier name",
                  c[SERVE_COUNT_prefix_hits]);
    write_counter(b, label, "vllm:mm_cache_queries_total", "Pictures and videos looked up among those that are decoded",
                  c[SERVE_COUNT_media_hits] + c[SERVE_COUNT_media_misses]);
    write_counter(b, label, "vllm:mm_cache_hits_total", "Pictures and videos found decoded", c[SERVE_COUNT_media_hits]);
}

/* To the last place at which one was taken. */
static void write_accepted(const serve_metrics *m, serve_buffer *b, const char *label) {
    static const char name[] = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    int n = SERVE_N_PLACES;
    while (n > 1 && !m->accepted[n - 1]) n--;
    write_head(b, name, "Guessed tokens that answers took, by their place in a pass", "counter");
    for (int i = 0; i < n; i++)
        serve_buffer_format(b, "%s{%s,position=\"%d\"} %llu\n", name, label, i, (unsigned long long)m->accepted[i]);
}

static void write_counters(const serve_metrics *m, serve_buffer *b, const char *label) {
    for (size_t i = 0; i < SERVE_N_COUNTERS; i++)
        write_counter(b, label, counter_names[i], counter_helps[i], m->counters[i]);
    write_accepted(m, b, label);
    write_head(b, "vllm:request_success_total", "Answers that came to their end", "counter");
    for (size_t i = 0; i < N_REASONS; i++)
        serve_buffer_format(b, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n", label,
                            reasons[i], (unsigned long long)m->finished[i]);
    write_head(b, "saccade:http_replies_total", "Replies by status", "counter");
    for (size_t i = 0; i < N_STATUS && m->replies[i].status; i++)
        serve_buffer_format(b, "saccade:http_replies_total{%s,status=\"%d\"} %llu\n", label,
                            m->replies[i].status, (unsigned long long)m->replies[i].n);
    write_head(b, "vllm:admission_rejections_total", "Requests that were not let in, by the code of the reply", "counter");
    for (size_t i = 0; i < N_REJECTIONS && m->rejections[i].code; i++)
        serve_buffer_format(b, "vllm:admission_rejections_total{%s,reason=\"%s\"} %llu\n", label, m->rejections[i].code,
                            (unsigned long long)m->rejections[i].n);
    write_head(b, "saccade:kept_ratio", "Share of visual tokens that took part in attention", "summary");
    serve_buffer_format(b, "saccade:kept_ratio_sum{%s} %.17g\nsaccade:kept_ratio_count{%s} %llu\n", label,
                        m->kept_sum, label, (unsigned long long)m->kept_n);
}

static void write_beginnings(const sac_beginnings_report *r, serve_buffer *b, const char *label) {
    write_counter(b, label, "saccade:shared_prompts_total", "Prompts that took rows over from another slot",
                  (double)r->n_taken);
    write_counter(b, label, "saccade:shared_tokens_total", "Prompt tokens whose rows were taken over",
                  (double)r->n_taken_rows);
    write_counter(b, label, "vllm:external_prefix_cache_queries_total",
                  "Prompt tokens that no slot held and that were looked for in the store", (double)r->n_asked_rows);
    write_counter(b, label, "vllm:external_prefix_cache_hits_total", "Prompt tokens whose rows came out of the store",
                  (double)r->n_found_rows);
    write_counter(b, label, "saccade:store_prompts_total", "Prompts that found rows in the store", (double)r->n_found);
    write_counter(b, label, "saccade:store_disk_tokens_total", "Prompt tokens whose rows came from disk", (double)r->n_disk_rows);
    write_counter(b, label, "saccade:store_dropped_blocks_total", "Blocks of 64 rows that had to make room in memory",
                  (double)r->n_dropped_blocks);
    write_gauge(b, label, "saccade:store_memory_bytes", "Rows of beginnings in the store's memory", (double)r->memory_bytes);
    write_gauge(b, label, "saccade:store_disk_bytes", "Files of rows on disk", (double)r->disk_bytes);
}

static void write_gauges(const serve_gauges *g, serve_buffer *b, const char *label) {
    write_gauge(b, label, "vllm:num_requests_running", "Answers that are being made", (double)g->n_running);
    write_gauge(b, label, "vllm:num_requests_waiting", "Requests that wait", (double)g->n_waiting);
    write_gauge(b, label, "vllm:kv_cache_usage_perc", "Share of the slots' rows that answers hold, 0 to 1",
                g->cache_use);
    write_gauge(b, label, "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc by its earlier name", g->cache_use);
    write_gauge(b, label, "saccade:request_body_bytes", "Bodies in memory", (double)g->body_bytes);
    write_gauge(b, label, "saccade:decoded_media_bytes", "Media in memory, as the model takes them",
                (double)g->media_bytes);
}

/* A model's name is the user's own; what would break the line is left out. */
static void make_label(const char *name, char *out, size_t room) {
    size_t n = (size_t)snprintf(out, room, "engine=\"0\",model_name=\"");
    for (; *name && n + 3 < room; name++)
        if (*name != '"' && *name != '\\' && (unsigned char)*name >= ' ') out[n++] = *name;
    snprintf(out + n, room - n, "\"");
}

void serve_metrics_write(serve_metrics *m, const char *model_name, const serve_gauges *g, serve_buffer *b) {
    char label[200];
    make_label(model_name, label, sizeof label);
    write_gauges(g, b, label);
    write_beginnings(&g->beginnings, b, label);
    pthread_mutex_lock(&m->lock);
    write_counters(m, b, label);
    write_other_names(m, b, label);
    for (int i = 0; i < SERVE_N_HISTOGRAMS; i++) write_histogram(b, label, i, &m->histograms[i]);
    pthread_mutex_unlock(&m->lock);
}
