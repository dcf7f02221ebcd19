/* metrics.h - what the server counts, in Prometheus' text format, under vLLM's names where it has one. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "byte_buffer.h"
#include "saccade/saccade.h"

#include <stddef.h>

/* field, name, help */
#define SERVE_COUNTERS(X)                                                                                    \
    X(prompt_tokens, "vllm:prompt_tokens_total", "Tokens of prompts, those from the cache counted")          \
    X(generation_tokens, "vllm:generation_tokens_total", "Tokens of answers")                                \
    X(prefix_queries, "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache")      \
    X(prefix_hits, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache")                \
    X(prefilled_tokens, "saccade:prefilled_tokens_total", "Prompt tokens that were run")                     \
    X(prompt_cached, "vllm:prompt_tokens_cached_total", "Tokens of prompts that came from the prefix cache")     \
    X(drafts, "vllm:spec_decode_num_drafts_total", "Passes of an answer with tokens that were guessed")                 \
    X(draft_tokens, "vllm:spec_decode_num_draft_tokens_total", "Tokens that were guessed")                           \
    X(accepted_tokens, "vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that answers took")             \
    X(preemptions, "vllm:num_preemptions_total", "Answers and prompts that gave their memory to others for a while") \
    X(visual_tokens, "saccade:visual_tokens_total", "Visual tokens in prompts")                              \
    X(frames, "saccade:frames_total", "Frames and pictures looked at")                                       \
    X(media_hits, "saccade:media_cache_hits_total", "Pictures and videos found decoded")                     \
    X(media_misses, "saccade:media_cache_misses_total", "Pictures and videos decoded")                       \
    X(embedding_hits, "saccade:embedding_cache_hits_total", "Pictures and videos found encoded")             \
    X(embedding_misses, "saccade:embedding_cache_misses_total", "Pictures and videos encoded")               \
    X(decoder_crashes, "saccade:decoder_crashes_total", "Media children that died")                          \
    X(cancelled, "saccade:requests_cancelled_total", "Requests whose client left")                           \
    X(timed_out, "saccade:requests_timed_out_total", "Requests whose time was up")                           \
    X(said_apart, "saccade:long_answers_total", "Answers that were put into words beside the steps of others")  \
    X(spans_sent, "saccade:trace_spans_total", "Spans that the collector of traces has taken")                       \
    X(spans_dropped, "saccade:trace_spans_dropped_total", "Spans that were lost: too many waited, or it took none")  \
    X(kv_sent, "saccade:kv_events_total", "Events of blocks of beginnings that were sent")                          \
    X(kv_dropped, "saccade:kv_events_dropped_total", "Such events that were lost: too many waited")                   \
    X(batch_steps, "saccade:decode_steps_total", "Steps of the model for answers")                           \
    X(mixed_steps, "saccade:mixed_steps_total", "Steps that took rows of a prompt along")                    \
    X(mixed_rows, "saccade:mixed_prompt_rows_total", "Rows of prompts that went along with steps")           \
    X(batch_rows, "saccade:decode_rows_total", "Tokens made in those steps, all answers together")

#define SERVE_HISTOGRAMS(X)                                                                                  \
    X(first_token, "vllm:time_to_first_token_seconds", "From arrival to the first token")                    \
    X(inter_token, "vllm:inter_token_latency_seconds", "Between tokens of an answer")                        \
    X(e2e, "vllm:e2e_request_latency_seconds", "From arrival to the last token")                             \
    X(queue, "vllm:request_queue_time_seconds", "Waiting to be run")                                         \
    X(prefill, "vllm:request_prefill_time_seconds", "From the start of running to the first token")          \
    X(decode, "vllm:request_decode_time_seconds", "From the first token to the last")                        \
    X(inference, "vllm:request_inference_time_seconds", "From the start of running to the last token")       \
    X(per_token, "vllm:request_time_per_output_token_seconds", "Between tokens, mean of an answer")          \
    X(fetch, "saccade:media_fetch_seconds", "Getting the bytes of a picture or video")                       \
    X(media, "saccade:media_decode_seconds", "Decoding a picture or video, in its child process")            \
    X(resize, "saccade:media_resize_seconds", "Resizing and hashing, of a picture or video")                 \
    X(vision, "saccade:vision_seconds", "Encoding pictures and frames, of a request")

typedef struct serve_metrics serve_metrics;

typedef enum serve_counter {
#define X(field, name, help) SERVE_COUNT_##field,
    SERVE_COUNTERS(X)
#undef X
        SERVE_N_COUNTERS
} serve_counter;

typedef enum serve_histogram {
#define X(field, name, help) SERVE_TIME_##field,
    SERVE_HISTOGRAMS(X)
#undef X
        SERVE_TIME_prompt_size,
    SERVE_TIME_generation_size,
    SERVE_N_HISTOGRAMS
} serve_histogram;

/* What is so now, in place of counted: read from the parts when the page is asked for. */
typedef struct serve_gauges {
    size_t n_running, n_waiting;
    double cache_use; /* 0 to 1 */
    size_t body_bytes, media_bytes;
    sac_beginnings_report beginnings; /* counted by the library */
} serve_gauges;

sac_status serve_metrics_open(serve_metrics **out, sac_error *err);
void serve_metrics_close(serve_metrics *m);

void serve_metrics_count(serve_metrics *m, serve_counter c, double n);
void serve_metrics_observe(serve_metrics *m, serve_histogram h, double value);
void serve_metrics_reply(serve_metrics *m, int status);
/* A request was not let in; `code` is a text that stays. */
void serve_metrics_rejection(serve_metrics *m, const char *code);
void serve_metrics_success(serve_metrics *m, const char *finish_reason);
enum { SERVE_N_PLACES = 32 }; /* in a pass, of guessed tokens that are counted by place */
/* n guessed tokens were taken that stood at this place of their pass, from 0. */
void serve_metrics_accepted(serve_metrics *m, int place, int64_t n);
void serve_metrics_kept_ratio(serve_metrics *m, double ratio);

/* The whole page of /metrics. */
void serve_metrics_write(serve_metrics *m, const char *model_name, const serve_gauges *g, serve_buffer *b);

#endif
