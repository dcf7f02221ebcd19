/* late_card.h - a model whose decoder runs on a device that is late (late_ops.h), for tests of whole sessions. */
#ifndef TEST_LATE_CARD_H
#define TEST_LATE_CARD_H

#include "engine.h"
#include "late_ops.h"
#include "test.h"

typedef struct card {
    sac_model *m;
    float *embed;
    sac_stream host; /* that ops run with */
    sac_arena arena;
} card;

static inline void open_card_of(card *c, const char *path) {
    sac_error err;
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = 1;
    memset(c, 0, sizeof *c);
    late_failed = false, late_fail_at = 0;
    late_prompt = LATE_STREAMS;
    assert_ok(sac_model_open(&c->m, path, &o, &err), err);
    size_t scratch = c->m->ops.linear_scratch_bytes(4096, 4096) + 64;
    assert_ok(sac_arena_open(&c->arena, sac_stream_bytes(1, scratch), &err), err);
    assert_ok(sac_stream_init(&c->host, c->m->pool, &c->arena, scratch, &err), err);
    late_host = &c->host;
    c->m->device = late_device();
    c->m->device_decoder.decoder = c->m->loaded.decoder;
    c->embed = as_floats(&c->m->device_decoder.decoder.embed);
}

static inline void open_card(card *c) {
    open_card_of(c, "tests/golden/models/qwen2");
}

static inline void close_card(card *c) {
    assert_int_equal(late_n_streams, 0);
    c->m->device_decoder = (sac_device_decoder){0};
    sac_model_free(c->m);
    sac_arena_free(&c->arena);
    free(c->embed);
    for (int i = 0; i < LATE_BLOCKS; i++) assert_true(!late_closed[i].at && !late_pinned[i].at);
}

#endif
