/* late_tower.h - a model whose tower and decoder run on a device that is late (late_ops.h), activations in f32 as the CPU's ops
 * want them. */
#ifndef TEST_LATE_TOWER_H
#define TEST_LATE_TOWER_H

#include "clip.h"
#include "engine.h"
#include "late_ops.h"
#include "test.h"

typedef struct card {
    sac_model *m;
    sac_clip_weights weights; /* of the tower there */
    float *patch_embed, *embed, *start;
    sac_stream host; /* that ops run with */
    sac_arena arena;
} card;

/* The tower as a device has it: class token or bias, and positions, are the rows that patches are added to. */
static inline void put_tower_there(card *c) {
    sac_device_tower *t = &c->m->device_tower;
    static uint8_t block;
    *t = (sac_device_tower){.activations = SAC_DTYPE_F32,
                            .tower = c->m->loaded.tower,
                            .merger = c->m->loaded.merger,
                            .image_newline = c->m->loaded.image_newline,
                            .block = &block};
    const sac_tower_kind *kind = t->tower.config.kind;
    if (kind != &sac_tower_clip && kind != &sac_tower_siglip && kind != &sac_tower_idefics3 &&
        kind != &sac_tower_internvit) return;
    const sac_tower_config *config = &t->tower.config;
    c->weights = *sac_clip_weights_of(&c->m->loaded.tower);
    c->patch_embed = as_floats(&c->weights.patch_embed);
    size_t n = (size_t)sac_clip_tokens(config) * (size_t)config->hidden;
    c->start = malloc(n * sizeof *c->start);
    for (size_t i = 0; i < n; i++) {
        const bool is_class = c->weights.class_embed && i < (size_t)config->hidden;
        const float *more = is_class ? c->weights.class_embed : c->weights.patch_bias;
        size_t hidden = (size_t)config->hidden, row = (size_t)sac_clip_position(config, (int)(i / hidden));
        c->start[i] = c->weights.pos_embed[row * hidden + i % hidden] + (more ? more[i % hidden] : 0);
    }
    c->weights.start_rows = c->start;
    t->tower.weights = &c->weights;
}

static inline void open_card(card *c, const char *path, size_t cache_bytes) {
    sac_error err;
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = 1;
    memset(c, 0, sizeof *c);
    memset(late_queues, 0, sizeof late_queues);
    memset(late_closed, 0, sizeof late_closed);
    memset(late_pinned, 0, sizeof late_pinned);
    late_n_streams = late_n_copies = late_fail_at = 0;
    late_n_downloaded = 0;
    late_failed = late_has_no_attention = late_fuses = false;
    assert_ok(sac_model_open(&c->m, path, &o, &err), err);
    size_t scratch = c->m->ops.linear_scratch_bytes(4096, 4096) + 64;
    assert_ok(sac_arena_open(&c->arena, sac_stream_bytes(1, scratch), &err), err);
    assert_ok(sac_stream_init(&c->host, c->m->pool, &c->arena, scratch, &err), err);
    late_host = &c->host;
    c->m->device = late_device();
    c->m->device_decoder.decoder = c->m->loaded.decoder;
    c->embed = as_floats(&c->m->device_decoder.decoder.embed);
    put_tower_there(c);
    sac_vision_cache_free(c->m->vision_cache);
    assert_ok(sac_vision_cache_init(c->m->vision_cache, cache_bytes, &c->m->device, &err), err);
}

static inline void close_card(card *c) {
    assert_int_equal(late_n_streams, 0);
    c->m->device_tower = (sac_device_tower){0}; /* nothing of them is the model's own */
    c->m->device_decoder = (sac_device_decoder){0};
    sac_model_free(c->m);
    sac_arena_free(&c->arena);
    free(c->patch_embed);
    free(c->embed);
    free(c->start);
    for (int i = 0; i < LATE_BLOCKS; i++) assert_true(!late_closed[i].at && !late_pinned[i].at);
}

#endif
