#include "place_weight.h"

#include "cuda/weights/cuda_weights.h"

bool sac_device_takes_weight(const sac_device *d, const sac_weight *w, sac_dtype activations) {
    if (d->kind == SAC_DEVICE_CPU) return activations == SAC_DTYPE_F32;
    return sac_cuda_takes_weight(w, activations);
}

sac_status sac_place_check(const sac_placer *p, const sac_weight *w) {
    const sac_device *d = p->stream->device;
    if (!w->tensor.data || sac_device_takes_weight(d, w, p->activations)) return SAC_OK;
    return sac_fail(p->err, SAC_UNSUPPORTED,
                    "%s has no kernels for weights in %s with activations in %s: run on the CPU", d->name,
                    sac_weight_name(w), sac_dtype_name(p->activations));
}

static sac_status place_part(sac_placer *p, sac_tensor *part) {
    return sac_place_bytes(p, &part->data, sac_weight_part_bytes(part));
}

sac_status sac_place_weight(sac_placer *p, sac_weight *w) {
    SAC_TRY(sac_place_check(p, w));
    SAC_TRY(place_part(p, &w->tensor));
    SAC_TRY(place_part(p, &w->scales));
    return place_part(p, &w->zeros);
}
