/* serve_config.h - what a server is told when it starts: addresses, limits, and what an answer is like where a
 * request says nothing. */
#ifndef SERVE_CONFIG_H
#define SERVE_CONFIG_H

#include "problem.h"
#include "saccade/saccade.h"

typedef struct serve_texts {
    const char *const *items;
    size_t n;
} serve_texts;

typedef struct serve_config {
    const char *host; /* an address to listen on, "127.0.0.1" */
    int port;         /* 0 = any free one; what was taken is printed */
    const char *model_name;
    serve_texts adapters;      /* names of those that are kept apart, each a model to ask for */
    serve_texts api_keys;      /* none = everybody may ask */
    const char *cors_origin;   /* NULL = no CORS headers */
    const char *media_root;    /* file:// below this folder; NULL = none */
    const char *upload_dir;    /* where /v1/files keeps its files; NULL = no uploads */
    serve_texts fetch_domains; /* http(s) media from these hosts ("*.example.org", "*"); none = no fetching */

    int n_slots;           /* conversations that run side by side */
    int n_queue;           /* requests that may wait */
    int n_client_slots;    /* that one client may have; 0 = all, but one less while others ask too */
    int n_client_requests; /* under way, of one client; 0 = all but an eighth */
    int pass_rows; /* of prompts that a step takes along at most (rounds.h); -1: SERVE_PASS_ROWS on the CPU, none on a device */
    double target_itl_s;   /* time between two tokens of an answer, beside prompts; 0 = none is set (pauses.h) */
    bool shared_priorities; /* of requests are compared among all clients, not only among one's own */
    sac_session_config session;
    size_t kv_memory_bytes; /* of keys and values of all slots, in pages; 0 = each has a context's */
    bool share_beginnings; /* what prompts of several slots begin with is run once */
    size_t cache_memory_bytes; /* for beginnings that no slot holds any more; 0 = none are kept */
    const char *cache_dir;     /* and files of them; NULL = none */
    size_t cache_disk_bytes;
    bool
        request_methods; /* a request may choose attention methods; a slot is then planned a quarter larger */
    bool lenient_fields; /* a field that is not known is named in the answer instead of refused */
    sac_sampling sampling; /* where a request says nothing */
    sac_chat_options chat; /* likewise: variables, parse_special and keep_video_marks */

    const char *tool_parser, *reasoning_parser; /* NULL = "auto": as the chat template shows */
    const struct serve_dialect
        *dialect; /* what that comes to, of the server; NULL = answers are text alone */

    int max_connections;
    size_t max_body_bytes;   /* of one request */
    size_t max_bodies_bytes; /* of all requests in flight */
    size_t max_uploads_bytes;
    double timeout_s;        /* of a request, from its arrival */
    double header_timeout_s; /* for a client to send a whole request */
    double heartbeat_s;      /* silence on a stream after which a comment is sent */
    double drain_s;          /* for running answers, when the server is asked to end */

    size_t max_media_bytes;   /* of one picture or video file */
    int64_t max_pixels;       /* width times height of a picture or a frame */
    int max_frames;           /* looked at, of one video */
    int max_media;            /* pictures and videos of a request */
    double max_duration_s;    /* of a video */
    double decode_s;          /* for decoding one picture or video */
    size_t max_decoded_bytes; /* of all media in flight and kept, as the model takes them */
    const char *request_log; /* a file that gets a line a request; NULL = none */
    const char *kv_events_config; /* vLLM's, JSON (kv_options.h); NULL = none */
    const char *otlp_traces_endpoint; /* a URL that spans of requests are posted to; NULL = none */
    bool quiet;
} serve_config;

void serve_config_default(serve_config *c);

/* What a model's name asks for: *adapter is one of c->adapters, or NULL for the model itself. False: 404, with the names
 * that are served. */
bool serve_model_find(const char **adapter, const serve_config *c, const char *name, serve_problem *p);

#endif
