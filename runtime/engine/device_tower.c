#include "device_tower.h"

sac_status sac_device_vision_take(sac_device_vision *v, const sac_vit_config *c, const sac_vision_sizes *z,
                                  sac_dtype t, const sac_stream *stream, sac_arena *arena, sac_error *err) {
    SAC_TRY(sac_vit_state_init_device(&v->vit, c, z->batch_tiles, t, stream, arena, err));
    v->tiles = sac_arena_take(arena, z->batch_tile_bytes);
    v->features = sac_arena_take(arena, z->features); /* in f32: more than enough */
    v->mid = sac_arena_take(arena, z->mid);
    v->raw = sac_arena_take(arena, z->raw);
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) v->slot[k].there = sac_arena_take(arena, z->raw);
    if (arena->base && !v->slot[SAC_TOWER_SLOTS - 1].there)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for vision");
    return SAC_OK;
}

sac_status sac_device_vision_open(sac_device_vision *v, const sac_vision_sizes *z, const sac_device *d,
                                  sac_error *err) {
    SAC_TRY(d->stream_open(d, &v->copies, 0, err));
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) {
        sac_tower_slot *slot = &v->slot[k];
        SAC_TRY(d->host_alloc(d, k ? z->batch_tile_bytes : z->tiles, (void **)&slot->tiles, err));
        SAC_TRY(d->host_alloc(d, k ? z->raw : z->pooled, (void **)&slot->pooled, err));
        SAC_TRY(d->event_create(d, &slot->done, err));
        SAC_TRY(d->event_create(d, &slot->copied, err));
    }
    return SAC_OK;
}

void sac_device_vision_close(sac_device_vision *v, const sac_device *d) {
    d->stream_close(&v->copies);
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) {
        sac_tower_slot *slot = &v->slot[k];
        d->event_free(&slot->done);
        d->event_free(&slot->copied);
        d->host_free(d, slot->tiles);
        d->host_free(d, slot->pooled);
        *slot = (sac_tower_slot){0};
    }
}

size_t sac_device_vision_host_bytes(const sac_vision_sizes *z) {
    return (SAC_TOWER_SLOTS - 1) *
           (sac_arena_block_bytes(z->batch_tile_bytes) + sac_arena_block_bytes(z->raw));
}

/* Tiles to rows of `to` on the device. */
static sac_status run_tower(sac_session *s, const uint8_t *tiles, int n, int pool, sac_mat to) {
    const sac_device_tower *m = &s->model->tower;
    const sac_stream *stream = &s->device_stream;
    const sac_processor_config *p = &s->model->loaded.processor;
    sac_device_vision *v = &s->device_vision;
    size_t side = (size_t)p->tile_size;
    int64_t rows = (int64_t)n * sac_vit_rows(&m->vit.config), cols = sac_vit_cols(&m->vit.config);
    int64_t wide = m->projector.hidden;
    sac_mat features = {v->features, rows, cols, cols, v->vit.dtype};
    sac_mat mid = {v->mid, rows, wide, wide, v->vit.dtype};
    sac_mat raw = pool > 1 ? sac_mat_f32(v->raw, rows, m->projector.out) : to;
    SAC_TRY(s->model->device.upload(stream, v->tiles, tiles, (size_t)n * side * side * 3));
    SAC_TRY(
        sac_vit_forward(&m->vit, &v->vit, &s->device_ops, stream, v->tiles, n, p->mean, p->std, features));
    SAC_TRY(sac_projector_forward(&m->projector, &s->device_ops, stream, features, mid, raw, false));
    if (pool <= 1) return SAC_OK;
    return s->device_ops.pool_tokens(
        stream, &(sac_pool_tokens_args){
                    .y = to, .x = raw, .n_tiles = n, .grid = sac_vit_grid(&m->vit.config), .stride = pool});
}

/* Ops and copies answer without words. */
static sac_status explain(sac_session *s, sac_status st, sac_error *err) {
    const sac_device *d = &s->model->device;
    if (st != SAC_DEVICE) return st;
    SAC_TRY(d->stream_sync(&s->device_stream, err));
    SAC_TRY(d->stream_sync(&s->device_vision.copies, err));
    return sac_fail(err, st, "%s refused a kernel or a copy of the vision tower", d->name);
}

sac_status sac_tower_submit(sac_session *s, int k, const uint8_t *tiles, int n, int pool, int tokens_per_tile,
                            float *pooled, sac_error *err) {
    const sac_device *d = &s->model->device;
    const sac_stream *stream = &s->device_stream, *copies = &s->device_vision.copies;
    sac_tower_slot *slot = &s->device_vision.slot[k];
    if (!s->device_vision.vit.h) return SAC_UNSUPPORTED;
    sac_mat to = sac_mat_f32(slot->there, (int64_t)n * tokens_per_tile, s->model->tower.projector.out);
    sac_status st = run_tower(s, tiles, n, pool, to);
    if (st == SAC_UNSUPPORTED) SAC_TRY(d->stream_sync(stream, err)); /* the tiles may be on their way */
    if (st == SAC_OK) st = d->event_record(stream, &slot->done);
    if (st == SAC_OK) st = d->event_wait(copies, &slot->done);
    if (st == SAC_OK)
        st = d->download(copies, pooled, slot->there, (size_t)(to.rows * to.cols) * sizeof(float));
    if (st == SAC_OK) st = d->event_record(copies, &slot->copied);
    return explain(s, st, err);
}

sac_status sac_tower_wait(sac_session *s, int k, sac_error *err) {
    return explain(s, s->model->device.event_sync(&s->device_vision.slot[k].copied), err);
}

void sac_tower_drain(sac_session *s) {
    const sac_device *d = &s->model->device;
    if (!s->device_vision.vit.h) return;
    d->stream_sync(&s->device_stream, NULL);
    d->stream_sync(&s->device_vision.copies, NULL);
}
