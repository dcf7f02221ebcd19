#include "serve_config.h"

void serve_config_default(serve_config *c) {
    *c = (serve_config){
        .host = "127.0.0.1",
        .port = 8000,
        .model_name = "model",
        .n_slots = 4,
        .n_queue = 256,
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
    sac_session_config_default(&c->session);
    sac_sampling_default(&c->sampling);
}
