/* kv_options.h - vLLM's --kv-events-config: a JSON object. */
#ifndef SERVE_KV_OPTIONS_H
#define SERVE_KV_OPTIONS_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct serve_kv_options {
    bool enabled;              /* enable_kv_cache_events, and publisher zmq */
    char endpoint[256];        /* bound where it has a star or "::" or is ipc or inproc, otherwise connected to; all addresses, port 5557 */
    char replay_endpoint[256]; /* bound; "" = none */
    char topic[256];
    size_t buffer_steps;   /* batches that are kept for replay */
    size_t max_queue_size; /* events that wait for being sent */
    int hwm;               /* messages that wait for a slow subscriber */
    bool as_maps;          /* encoding: "map"; otherwise "array" */
} serve_kv_options;

/* BAD_ARGUMENT: what is wrong with the text, by the option's name. */
sac_status serve_kv_options_read(serve_kv_options *o, const char *json, sac_error *err);

#endif
