#include "placer.h"

/* Room for a copy; *to stays NULL while measuring. */
static sac_status take(sac_placer *p, size_t n_bytes, uint8_t **to) {
    *to = sac_arena_take(&p->arena, n_bytes);
    if (*to || !p->arena.base) return SAC_OK;
    return sac_fail(p->err, SAC_INTERNAL, "the device's block is too small for the weights");
}

static sac_status upload(const sac_placer *p, void *to, const void *from, size_t n_bytes) {
    sac_status st = p->stream->device->upload(p->stream, to, from, n_bytes);
    if (st == SAC_OK) return SAC_OK;
    return sac_fail(p->err, st, "weights cannot be copied to %s", p->stream->device->name);
}

sac_status sac_place_bytes(sac_placer *p, const void **at, size_t n_bytes) {
    uint8_t *to;
    if (!*at) return SAC_OK;
    SAC_TRY(take(p, n_bytes, &to));
    if (!to) return SAC_OK;
    SAC_TRY(upload(p, to, *at, n_bytes));
    *at = to;
    return SAC_OK;
}

sac_status sac_place_vector(sac_placer *p, const float **at, int64_t n) {
    const void *v = *at;
    SAC_TRY(sac_place_bytes(p, &v, (size_t)n * sizeof(float)));
    *at = v;
    return SAC_OK;
}

sac_status sac_place_three(sac_placer *p, const void **at, const void *const parts[3], size_t part_bytes) {
    uint8_t *to;
    *at = NULL;
    if (!parts[0] || !parts[1] || !parts[2]) return SAC_OK;
    SAC_TRY(take(p, 3 * part_bytes, &to));
    for (size_t i = 0; i < 3 && to; i++) SAC_TRY(upload(p, to + i * part_bytes, parts[i], part_bytes));
    *at = to;
    return SAC_OK;
}

sac_status sac_place_borrowed(sac_placer *p, const void **at, size_t n_bytes) {
    SAC_TRY(sac_place_bytes(p, at, n_bytes));
    return p->arena.base ? p->stream->device->stream_sync(p->stream, p->err) : SAC_OK;
}
