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

/* A batch on its way: the rows of its tiles go to `there`, and from there to the host. */
typedef struct batch {
    sac_session *s;
    sac_tower_slot *slot;
    int n, pool, tokens_per_tile;
    float *pooled;
} batch;

/* Copying a batch's rows back takes as long as a few of its layers (75 MB for 32 tiles of 576 rows by 1024),
 * so the last layers run for a stretch of tiles after the other, and the rows of one are copied beside the
 * next. Tiles of a stretch: as many as fill the card's processors once with 128 x 256 outputs each of a
 * product to the tower's width. */
static int stretch_tiles(const sac_session *s) {
    const sac_vit_config *c = &s->model->tower.vit.config;
    int64_t rows = (int64_t)s->model->device.n_processors * 128 * 256 / c->hidden;
    int64_t tiles = rows / (sac_vit_grid(c) * sac_vit_grid(c) + 1);
    return tiles > INT32_MAX ? INT32_MAX : tiles > 1 ? (int)tiles : 1;
}

/* Layers before those: what is left takes about as long as the bus, at 50 GB/s beside 600 TFLOP/s. */
static int layers_together(const sac_session *s) {
    enum { MOST_APART = 4 };
    const sac_device_tower *m = &s->model->tower;
    double copy_s = (double)m->projector.out * 4 / 50e9;
    double layer_s = 24 * (double)m->vit.config.hidden * m->vit.config.hidden / 600e12;
    int depth = sac_vit_depth(&m->vit.config), apart = 1;
    while (apart < MOST_APART && apart < depth && apart * layer_s < copy_s) apart++;
    return apart < depth ? depth - apart : 0;
}

/* Features of tiles [first, first + n) to their rows of `there`. */
static sac_status project(const batch *b, sac_mat features, int first, int n) {
    const sac_device_tower *m = &b->s->model->tower;
    const sac_stream *stream = &b->s->device_stream;
    sac_device_vision *v = &b->s->device_vision;
    const sac_ops *ops = &b->s->device_ops;
    int64_t rows = (int64_t)n * sac_vit_rows(&m->vit.config), wide = m->projector.hidden;
    sac_mat all = sac_mat_f32(b->slot->there, (int64_t)b->n * b->tokens_per_tile, m->projector.out);
    sac_mat to = sac_mat_rows(all, (int64_t)first * b->tokens_per_tile, (int64_t)n * b->tokens_per_tile);
    sac_mat mid = {v->mid, rows, wide, wide, v->vit.dtype};
    sac_mat raw = b->pool > 1 ? sac_mat_f32(v->raw, rows, m->projector.out) : to;
    features = sac_mat_rows(features, (int64_t)first * sac_vit_rows(&m->vit.config), rows);
    SAC_TRY(sac_projector_forward(&m->projector, ops, stream, features, mid, raw, false));
    if (b->pool <= 1) return SAC_OK;
    return ops->pool_tokens(
        stream,
        &(sac_pool_tokens_args){
            .y = to, .x = raw, .n_tiles = n, .grid = sac_vit_grid(&m->vit.config), .stride = b->pool});
}

/* Their rows to the host, when they are there. An event stands for its last record before the wait. */
static sac_status copy_back(const batch *b, int first, int n) {
    const sac_device *d = &b->s->model->device;
    const sac_stream *copies = &b->s->device_vision.copies;
    size_t each = (size_t)b->tokens_per_tile * (size_t)b->s->model->tower.projector.out;
    SAC_TRY(d->event_record(&b->s->device_stream, &b->slot->done));
    SAC_TRY(d->event_wait(copies, &b->slot->done));
    return d->download(copies, b->pooled + (size_t)first * each, b->slot->there + (size_t)first * each,
                       (size_t)n * each * sizeof(float));
}

/* Tiles to rows on the host. */
static sac_status run_tower(const batch *b, const uint8_t *tiles) {
    sac_session *s = b->s;
    const sac_vit *vit = &s->model->tower.vit;
    const sac_stream *stream = &s->device_stream;
    const sac_processor_config *p = &s->model->loaded.processor;
    sac_device_vision *v = &s->device_vision;
    size_t side = (size_t)p->tile_size;
    int64_t cols = sac_vit_cols(&vit->config);
    sac_mat features = {v->features, (int64_t)b->n * sac_vit_rows(&vit->config), cols, cols, v->vit.dtype};
    int stretch = stretch_tiles(s),
        together = b->n > stretch ? layers_together(s) : sac_vit_depth(&vit->config);
    SAC_TRY(s->model->device.upload(stream, v->tiles, tiles, (size_t)b->n * side * side * 3));
    SAC_TRY(sac_vit_begin(vit, &v->vit, &s->device_ops, stream, v->tiles, b->n, p->mean, p->std, together,
                          features));
    for (int first = 0, n; first < b->n; first += n) {
        n = b->n - first < stretch ? b->n - first : stretch;
        SAC_TRY(sac_vit_end(vit, &v->vit, &s->device_ops, stream, first, n, together, features));
        SAC_TRY(project(b, features, first, n));
        SAC_TRY(copy_back(b, first, n));
    }
    return SAC_OK;
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
    const sac_stream *copies = &s->device_vision.copies;
    sac_tower_slot *slot = &s->device_vision.slot[k];
    if (!s->device_vision.vit.h) return SAC_UNSUPPORTED;
    batch b = {s, slot, n, pool, tokens_per_tile, pooled};
    sac_status st = run_tower(&b, tiles);
    if (st == SAC_UNSUPPORTED) { /* tiles and rows may be on their way */
        SAC_TRY(d->stream_sync(&s->device_stream, err));
        SAC_TRY(d->stream_sync(copies, err));
    }
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
