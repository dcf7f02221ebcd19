#include "serve_config.h"

#include <stdio.h>
#include <string.h>

void serve_config_default(serve_config *c) {
    *c = (serve_config){
        .host = "127.0.0.1",
        .port = 8000,
        .model_name = "model",
        .n_slots = 4,
        .n_queue = 256,
        .pass_rows = -1,
        .max_connections = 1024,
        .max_body_bytes = (size_t)256 << 20,
        .max_bodies_bytes = (size_t)1 << 30,
        .max_uploads_bytes = (size_t)16 << 30,
        .timeout_s = 600,
        .header_timeout_s = 30,
        .heartbeat_s = 10,
        .drain_s = 60,
        .max_media_bytes = (size_t)2 << 30,
        .max_pixels = 64 * 1000 * 1000,
        .max_frames = 1024,
        .max_media = 64,
        .max_duration_s = 24 * 3600,
        .decode_s = 60,
        .max_decoded_bytes = (size_t)1 << 30,
    };
    c->share_beginnings = true;
    sac_session_config_default(&c->session);
    sac_sampling_default(&c->sampling);
}

bool serve_model_find(const char **adapter, const serve_config *c, const char *name, serve_problem *p) {
    char others[240] = "";
    size_t n = 0;
    *adapter = NULL;
    if (!strcmp(name, c->model_name)) return true;
    for (size_t i = 0; i < c->adapters.n; i++)
        if (!strcmp(name, c->adapters.items[i])) {
            *adapter = c->adapters.items[i];
            return true;
        }
    for (size_t i = 0; i < c->adapters.n && n + 10 < sizeof others; i++)
        n += (size_t)snprintf(others + n, sizeof others - n, ", '%.80s'", c->adapters.items[i]);
    return serve_refuse(p, 404, "model", "model_not_found",
                        "the model '%.80s' is not served here: '%.80s'%s %s", name, c->model_name, others,
                        c->adapters.n ? "are" : "is");
}
