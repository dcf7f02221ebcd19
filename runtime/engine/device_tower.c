#include "device_tower.h"

#include "media.h"

sac_status sac_device_vision_take(sac_device_vision *v, const sac_tower_config *c, const sac_vision_sizes *z,
                                  sac_dtype t, const sac_stream *stream, sac_arena *arena, sac_arena *host,
                                  sac_error *err) {
    SAC_TRY(sac_tower_state_take_device(&v->tower, c, z->batch_segments, t, stream, arena, host, err));
    v->patches = sac_arena_take(arena, z->batch_patches);
    v->features = sac_arena_take(arena, z->features); /* in f32: more than enough */
    v->mid = sac_arena_take(arena, z->mid);
    v->raw = sac_arena_take(arena, z->raw);
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) v->slot[k].on_device = sac_arena_take(arena, z->raw);
    if (arena->base && !v->slot[SAC_TOWER_SLOTS - 1].on_device)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for vision");
    v->is_open = arena->base != NULL;
    return SAC_OK;
}

sac_status sac_device_vision_open(sac_device_vision *v, const sac_vision_sizes *z, const sac_device *d,
                                  sac_error *err) {
    SAC_TRY(d->stream_open(d, &v->copies, 0, err));
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) {
        sac_tower_slot *slot = &v->slot[k];
        SAC_TRY(d->host_alloc(d, k ? z->batch_patches : z->patches, (void **)&slot->patches, err));
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
        d->host_free(d, slot->patches);
        d->host_free(d, slot->pooled);
        *slot = (sac_tower_slot){0};
    }
}

size_t sac_device_vision_host_bytes(const sac_vision_sizes *z) {
    return (SAC_TOWER_SLOTS - 1) * (sac_arena_block_bytes(z->batch_patches) + sac_arena_block_bytes(z->raw));
}

/* A batch on its way: the rows of its tiles go to the slot's on_device, and from there to the host. */
typedef struct batch {
    sac_session *s;
    sac_tower_slot *slot;
    const sac_media *m;
    int n;
    float *pooled;
} batch;

/* Copying a batch's rows back takes as long as a few of its layers (75 MB for 32 tiles of 576 rows by 1024), so
 * the last layers run for a stretch of tiles after the other, and the rows of one are copied beside the next.
 * Tiles of a stretch: as many as fill the card's processors once with 128 x 256 outputs each of a product to the
 * tower's width. */
static int stretch_tiles(const batch *b) {
    const sac_model *model = b->s->model;
    int64_t rows = (int64_t)model->device.n_processors * 128 * 256 / model->device_tower.tower.config.hidden;
    int64_t tiles = rows / b->m->tower.n_inside;
    return tiles > INT32_MAX ? INT32_MAX : tiles > 1 ? (int)tiles : 1;
}

/* Layers before those: what is left takes about as long as the bus, at 50 GB/s beside 600 TFLOP/s. */
static int layers_together(const sac_session *s) {
    enum { MOST_APART = 4 };
    const sac_device_tower *m = &s->model->device_tower;
    const sac_tower_config *c = &m->tower.config;
    double copy_s = (double)m->merger.out * 4 / 50e9;
    double layer_s = 24 * (double)c->hidden * c->hidden / 600e12;
    int depth = c->kind->depth(c), apart = 1;
    while (apart < MOST_APART && apart < depth && apart * layer_s < copy_s) apart++;
    return apart < depth ? depth - apart : 0;
}

/* Features of tiles [first, first + n) to their rows of on_device. */
static sac_status merge(const batch *b, sac_mat features, int first, int n) {
    const sac_merger *m = &b->s->model->device_tower.merger;
    sac_device_vision *v = &b->s->device_vision;
    int64_t each = b->m->tower.n_features, n_rows = n * each, tokens = b->m->plan.tokens_per_tile;
    sac_mat all = sac_mat_f32(b->slot->on_device, b->n * tokens, m->out);
    return m->kind->run(&(sac_merger_run){.merger = m,
                                          .ops = &b->s->device_ops,
                                          .stream = &b->s->device_stream,
                                          .n = n,
                                          .grid = b->m->tower.patches,
                                          .pool = b->m->plan.pool,
                                          .features = sac_mat_rows(features, first * each, n_rows),
                                          .mid = {v->mid, n_rows, m->hidden, m->hidden, v->tower.dtype},
                                          .raw = v->raw,
                                          .y = sac_mat_rows(all, first * tokens, n * tokens)});
}

/* Their rows to the host, when they are written. An event stands for its last record before the wait. */
static sac_status copy_back(const batch *b, int first, int n) {
    const sac_device *d = &b->s->model->device;
    const sac_stream *copies = &b->s->device_vision.copies;
    size_t each = (size_t)b->m->plan.tokens_per_tile * (size_t)b->s->model->device_tower.merger.out;
    SAC_TRY(d->event_record(&b->s->device_stream, &b->slot->done));
    SAC_TRY(d->event_wait(copies, &b->slot->done));
    return d->download(copies, b->pooled + (size_t)first * each, b->slot->on_device + (size_t)first * each,
                       (size_t)n * each * sizeof(float));
}

/* Patch rows to rows on the host. */
static sac_status run_tower(const batch *b, const uint8_t *patches) {
    sac_session *s = b->s;
    sac_device_vision *v = &s->device_vision;
    const sac_stream *stream = &s->device_stream;
    const sac_tower *tower = &s->model->device_tower.tower;
    const sac_tower_config *c = &tower->config;
    sac_tower_run call = {tower, &v->tower, &s->device_ops, stream};
    sac_patch_rows rows = sac_media_patch_rows(s, b->m, v->patches, b->n);
    int64_t cols = sac_tower_cols(c);
    sac_mat features = {v->features, b->n * b->m->tower.n_features, cols, cols, v->tower.dtype};
    int stretch = stretch_tiles(b), together = b->n > stretch ? layers_together(s) : c->kind->depth(c);
    int segments = b->m->tower.n_segments; /* of a tile */
    SAC_TRY(s->model->device.upload(stream, v->patches, patches, sac_visual_bytes(&b->m->plan, b->n)));
    SAC_TRY(c->kind->begin(&call, &rows, together, features));
    for (int first = 0, n; first < b->n; first += n) {
        n = b->n - first < stretch ? b->n - first : stretch;
        SAC_TRY(c->kind->end(&call, first * segments, n * segments, together, features));
        SAC_TRY(merge(b, features, first, n));
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

sac_status sac_tower_submit(sac_session *s, int k, const sac_media *m, const uint8_t *patches, int n,
                            float *pooled, sac_error *err) {
    const sac_device *d = &s->model->device;
    const sac_stream *copies = &s->device_vision.copies;
    sac_tower_slot *slot = &s->device_vision.slot[k];
    if (!s->device_vision.is_open) return SAC_UNSUPPORTED;
    batch b = {s, slot, m, n, pooled};
    sac_status st = run_tower(&b, patches);
    if (st == SAC_UNSUPPORTED) { /* patches and rows may be on their way */
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
    if (!s->device_vision.is_open) return;
    d->stream_sync(&s->device_stream, NULL);
    d->stream_sync(&s->device_vision.copies, NULL);
}
