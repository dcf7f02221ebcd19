#include "calibrator.h"

#include "safetensors_write.h"

sac_status sac_calibrated_write(const char *path, const sac_calibrated_tensor *tensors, int n, sac_error *err) {
    sac_out_shard s = {0};
    sac_status st = SAC_OK;
    for (int i = 0; i < n && st == SAC_OK; i++) {
        const sac_calibrated_tensor *t = &tensors[i];
        sac_out_part p = {.dtype = t->cols ? "F32" : "U8", .element_bytes = t->cols ? 4 : 1, .n_bytes = t->n_bytes,
                          .source = SAC_PART_MEMORY, .memory = t->data, .n_dims = t->cols ? 2 : 1};
        p.dim[0] = t->cols ? (int64_t)(t->n_bytes / 4) / t->cols : (int64_t)t->n_bytes;
        p.dim[1] = t->cols;
        st = sac_shard_add(&s, &p, t->name, err);
    }
    if (st == SAC_OK) st = sac_shard_lay_out(&s, err);
    if (st == SAC_OK) st = sac_shard_write(&s, path, NULL, NULL, err);
    sac_shard_free(&s);
    return st;
}
