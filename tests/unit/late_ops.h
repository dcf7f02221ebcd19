/* late_ops.h - the ops of a model on a device that is late (late_device.h), in the place of a card's, and weights as it has them. The
 * program is linked with --wrap of sac_ops_open, sac_ops_close and sac_ops_scratch_bytes. */
#ifndef TEST_LATE_OPS_H
#define TEST_LATE_OPS_H

#include "cpu_flags.h"
#include "late_device.h"
#include "quants.h"
#include "test.h"

/* Of the ops: packed rows and tail in one, so that the host may read neither. */
static bool late_fuses = true;

/* The device's ops for sessions, by the linker's --wrap. */
sac_status __wrap_sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err);
sac_status __wrap_sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err) {
    (void)s, (void)err;
    sac_ops plain;
    sac_ops_init_cpu(&plain, sac_cpu_flags());
    *t = late_ops(&plain);
    t->fuses = late_fuses;
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

#endif
