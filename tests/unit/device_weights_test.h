/* device_weights_test.h - the demo model on the host, and a device of closed memory (closed_device.h) to copy it to. Of programs that define
 * _GNU_SOURCE. */
#ifndef SAC_DEVICE_WEIGHTS_TEST_H
#define SAC_DEVICE_WEIGHTS_TEST_H

#include "device_weights.h"

#include "closed_device.h"
#include "test.h"

static size_t n_taken;

static inline sac_status take(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d;
    *out = closed_region + n_taken;
    n_taken += (n_bytes + 255) / 256 * 256;
    return n_taken <= CLOSED_BYTES ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "the closed region is full");
}

static int n_freed;

static inline void give_back(const sac_device *d, void *p) {
    (void)d;
    assert_in_range((uint8_t *)p - closed_region, 0, CLOSED_BYTES - 1);
    n_freed++;
}

typedef struct fixture {
    sac_loaded_model model;
    sac_decoder before;
    sac_decoder_layer *layers_before;
    sac_device device;
    sac_stream stream;
} fixture;

static inline size_t layer_bytes(const fixture *f) {
    return (size_t)f->before.config.n_layers * sizeof *f->layers_before;
}

static inline int set_up(void **state) {
    sac_error err;
    fixture *f = calloc(1, sizeof *f);
    assert_true(f && closed_open());
    *state = f;
    n_taken = 0, n_freed = 0;
    assert_ok(sac_loaded_model_open(&f->model, "models/demo", NULL, NULL, &err), err);
    f->before = f->model.decoder;
    f->layers_before = malloc(layer_bytes(f));
    memcpy(f->layers_before, f->model.decoder.layers, layer_bytes(f));
    f->device = closed_device;
    f->device.alloc = take;
    f->device.free = give_back;
    f->stream = (sac_stream){.device = &f->device};
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    munmap(closed_region, CLOSED_BYTES);
    sac_loaded_model_free(&f->model);
    free(f->layers_before);
    free(f);
    return 0;
}

#endif
