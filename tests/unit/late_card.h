/* late_card.h - a model whose decoder runs on a device that is late (late_device.h), for tests of whole sessions. The program is
 * linked with --wrap of sac_ops_open, sac_ops_close and sac_ops_scratch_bytes. */
#ifndef TEST_LATE_CARD_H
#define TEST_LATE_CARD_H

#include "cpu_flags.h"
#include "engine.h"
#include "late_device.h"
#include "quants.h"
#include "test.h"

/* The device's ops for sessions, by the linker's --wrap. */
sac_status __wrap_sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err);
sac_status __wrap_sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err) {
    (void)s, (void)err;
    sac_ops plain;
    sac_ops_init_cpu(&plain, sac_cpu_flags());
    *t = late_ops(&plain);
    t->fuses = true; /* packed rows and tail in one op: the host may read neither */
    return SAC_OK;
}
void __wrap_sac_ops_close(sac_stream *s);
void __wrap_sac_ops_close(sac_stream *s) {
    (void)s;
}
size_t __wrap_sac_ops_scratch_bytes(const sac_device *d);
size_t __wrap_sac_ops_scratch_bytes(const sac_device *d) {
    (void)d;
    return 0;
}

typedef struct card {
    sac_model *m;
    float *embed;
    sac_stream host; /* that ops run with */
    sac_arena arena;
} card;

static inline float *as_floats(sac_weight *w) {
    sac_tensor *t = &w->tensor;
    float *f = malloc((size_t)(t->dim[0] * t->dim[1]) * sizeof *f);
    for (int64_t i = 0; i < t->dim[0]; i++)
        sac_dequantize_row(t->dtype,
                           (const uint8_t *)t->data + (size_t)i * sac_dtype_row_bytes(t->dtype, t->dim[1]),
                           f + i * t->dim[1], t->dim[1]);
    *w = sac_weight_of((sac_tensor){f, SAC_DTYPE_F32, 2, {t->dim[0], t->dim[1]}});
    return f;
}

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
