#include "place_weight.h"

#include "cuda/weights/block_layout.h"
#include "cuda/weights/code_layout.h"
#include "cuda/weights/cuda_weights.h"

#include <stdio.h>
#include <stdlib.h>

bool sac_device_takes_weight(const sac_device *d, const sac_weight *w, sac_dtype activations) {
    if (d->kind == SAC_DEVICE_CPU) return activations == SAC_DTYPE_F32;
    return sac_cuda_takes_weight(w, activations);
}

static bool is_rounded(const sac_placer *p, const sac_weight *w) {
    const bool are_half = p->activations == SAC_DTYPE_F16 || p->activations == SAC_DTYPE_BF16;
    return p->rounds_f32 && are_half && w->format == SAC_WEIGHT_FLOATS && w->tensor.dtype == SAC_DTYPE_F32;
}

sac_status sac_place_check(const sac_placer *p, const sac_weight *w) {
    const sac_device *d = p->stream->device;
    if (!w->tensor.data || is_rounded(p, w) || sac_device_takes_weight(d, w, p->activations)) return SAC_OK;
    const bool in_bf16 = sac_device_takes_weight(d, w, SAC_DTYPE_BF16);
    char group[96] = "";
    if (w->group)
        snprintf(group, sizeof group, "%s in groups of %lld of %lld inputs",
                 w->order.data ? " in an order" : "", (long long)w->group, (long long)w->tensor.dim[1]);
    return sac_fail(p->err, SAC_UNSUPPORTED,
                    "%s has no kernels for weights in %s%s with activations in %s: %srun on the CPU", d->name,
                    sac_weight_name(w), group, sac_dtype_name(p->activations),
                    in_bf16 ? "ask for activations in bf16, or " : "");
}

static sac_status place_part(sac_placer *p, sac_tensor *part) {
    return sac_place_bytes(p, &part->data, sac_weight_part_bytes(part));
}

/* The numbers of a matrix in f32, rounded to the type of activations. */
static sac_status place_rounded(sac_placer *p, sac_tensor *t) {
    if (!t->data) return SAC_OK;
    const size_t n = sac_weight_part_bytes(t) / sizeof(float);
    const float *from = t->data;
    const void *at = NULL;
    uint16_t *rounded = NULL;
    if (p->arena.base) {
        rounded = malloc(n * sizeof *rounded);
        if (!rounded) return sac_fail(p->err, SAC_NO_MEMORY, "no memory to round a matrix of %zu weights", n);
        for (size_t i = 0; i < n; i++)
            rounded[i] = p->activations == SAC_DTYPE_F16 ? sac_f32_to_f16(from[i]) : sac_f32_to_bf16(from[i]);
    }
    at = rounded ? (const void *)rounded : from;
    sac_status st = sac_place_borrowed(p, &at, n * sizeof *rounded);
    free(rounded);
    if (st == SAC_OK && p->arena.base) t->data = at, t->dtype = p->activations;
    return st;
}

/* GGUF's blocks, in the order in which a GPU's products read them. */
static sac_status place_blocks(sac_placer *p, sac_tensor *t) {
    if (!t->data) return SAC_OK;
    const size_t n_bytes = sac_block_layout_bytes(t->dtype, t->dim[0], t->dim[1]);
    const void *at = t->data;
    void *packed = NULL;
    if (p->arena.base) {
        packed = malloc(n_bytes);
        if (!packed)
            return sac_fail(p->err, SAC_NO_MEMORY, "no memory to lay out %zu bytes of weights", n_bytes);
        sac_block_layout_pack(t->dtype, t->dim[0], t->dim[1], t->data, packed);
        at = packed;
    }
    sac_status st = sac_place_borrowed(p, &at, n_bytes);
    free(packed);
    if (st == SAC_OK && p->arena.base) t->data = at;
    return st;
}

/* Weights whose scales lie apart, as a GPU's products read them. */
static sac_status place_codes(sac_placer *p, sac_weight *w, sac_dtype t) {
    const int64_t n = w->tensor.dim[0], k = w->tensor.dim[1];
    const size_t n_bytes = sac_block_layout_bytes(t, n, k);
    const size_t order_bytes = w->order.data ? (size_t)k * sizeof(int32_t) : 0;
    const void *at = w->tensor.data, *order = w->order.data;
    void *packed = NULL;
    int32_t *input = NULL;
    sac_status st = SAC_OK;
    if (p->arena.base) {
        packed = malloc(n_bytes);
        input = malloc(order_bytes + 1);
        st = packed && input ? sac_code_layout_pack(w, t, packed, input) : SAC_NO_MEMORY;
        at = packed, order = order_bytes ? input : NULL;
    }
    if (st == SAC_NO_MEMORY) st = sac_fail(p->err, st, "no memory to lay out %zu bytes of weights", n_bytes);
    if (st == SAC_OK) st = sac_place_borrowed(p, &at, n_bytes);
    if (st == SAC_OK) st = sac_place_borrowed(p, &order, order_bytes);
    if (st == SAC_OK && p->arena.base) {
        w->tensor.data = at, w->tensor.dtype = t;
        w->scales = w->zeros = (sac_tensor){0};
        w->order.data = order;
    }
    free(packed);
    free(input);
    return st;
}

sac_status sac_place_weight(sac_placer *p, sac_weight *w) {
    SAC_TRY(sac_place_check(p, w));
    if (!w->tensor.data) return SAC_OK;
    if (is_rounded(p, w)) return place_rounded(p, &w->tensor);
    if (p->stream->device->kind != SAC_DEVICE_CPU) {
        const sac_dtype codes = sac_code_layout_type(w, sac_code_layout_is_plain(p->stream->device));
        if (codes != SAC_N_DTYPES) return place_codes(p, w, codes);
        if (sac_dtype_block(w->tensor.dtype) > 1) return place_blocks(p, &w->tensor);
    }
    SAC_TRY(place_part(p, &w->tensor));
    SAC_TRY(place_part(p, &w->scales));
    SAC_TRY(place_part(p, &w->zeros));
    return place_part(p, &w->order);
}

sac_status sac_place_rounded(sac_placer *p, sac_weight *w) {
    const bool rounds = p->rounds_f32;
    p->rounds_f32 = true;
    sac_status st = sac_place_weight(p, w);
    p->rounds_f32 = rounds;
    return st;
}
