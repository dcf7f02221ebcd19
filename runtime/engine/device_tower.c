#include "device_tower.h"

#include "media.h"

/* Of so many floats, in another type. */
static size_t bytes_in(size_t float_bytes, sac_dtype t) {
    return float_bytes / sizeof(float) * sac_dtype_row_bytes(t, 1);
}

/* The merger writes in the tower's type or in f32. Where the decoder has neither, its rows are turned into
 * that by the op that looks up rows of a table in any type: each batch is the table, and every row is asked for. */
static sac_status take_wide(sac_device_vision *v, const sac_vision_sizes *z, int64_t width,
                            const sac_stream *stream, sac_arena *arena, sac_arena *host, sac_error *err) {
    size_t n_rows = z->raw / sizeof(float) / (size_t)width;
    int32_t *every_row = sac_arena_take(host, n_rows * sizeof *every_row);
    v->wide = sac_arena_take(arena, z->raw);
    v->every_row = sac_arena_take(arena, n_rows * sizeof *every_row);
    if (!every_row || !v->every_row) return SAC_OK;
    for (size_t i = 0; i < n_rows; i++) every_row[i] = (int32_t)i;
    sac_status st = stream->device->upload(stream, v->every_row, every_row, n_rows * sizeof *every_row);
    return st == SAC_OK ? st : sac_fail(err, st, "%s: a copy failed", stream->device->name);
}

sac_status sac_device_vision_take(sac_device_vision *v, const sac_device_tower *t, const sac_vision_sizes *z,
                                  sac_dtype rows, const sac_stream *stream, sac_arena *arena, sac_arena *host,
                                  sac_error *err) {
    const sac_tower_config *c = &t->tower.config;
    sac_dtype own = t->activations;
    bool converts = rows != own && rows != SAC_DTYPE_F32;
    *v = (sac_device_vision){.tower_dtype = own};
    SAC_TRY(sac_tower_state_take_device(&v->tower, c, z->batch_segments, own, stream, arena, host, err));
    if (converts) SAC_TRY(take_wide(v, z, sac_merger_width(&t->merger), stream, arena, host, err));
    v->patches = sac_arena_take(arena, z->batch_patches);
    v->features = sac_arena_take(arena, bytes_in(z->features, own));
    v->mid = sac_arena_take(arena, bytes_in(z->mid, own));
    if (z->pools) v->raw = sac_arena_take(arena, bytes_in(z->raw, converts ? SAC_DTYPE_F32 : rows));
    v->rows = sac_arena_take(arena, bytes_in(z->pooled, rows));
    v->layout = sac_arena_take(arena, z->layout);
    v->blend.source = sac_arena_take(arena, z->blend);
    v->blend.weight = sac_arena_take(arena, z->blend);
    v->blend.newline = t->image_newline;
    if (arena->base && (!v->layout || !v->blend.weight || (converts && !v->every_row)))
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for vision");
    v->is_open = arena->base != NULL;
    return SAC_OK;
}

sac_status sac_device_vision_open(sac_device_vision *v, const sac_vision_sizes *z, const sac_device *d,
                                  sac_error *err) {
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) {
        sac_tower_slot *slot = &v->slot[k];
        SAC_TRY(d->host_alloc(d, k ? z->batch_patches : z->patches, (void **)&slot->patches, err));
        SAC_TRY(d->event_create(d, &slot->done, err));
    }
    return SAC_OK;
}

void sac_device_vision_close(sac_device_vision *v, const sac_device *d) {
    for (int k = 0; k < SAC_TOWER_SLOTS; k++) {
        sac_tower_slot *slot = &v->slot[k];
        d->event_free(&slot->done);
        d->host_free(d, slot->patches);
        *slot = (sac_tower_slot){0};
    }
}

size_t sac_device_vision_host_bytes(const sac_vision_sizes *z) {
    return (SAC_TOWER_SLOTS - 1) * sac_arena_block_bytes(z->batch_patches);
}

/* ---------------------------------------------------------------- a batch */

/* Features of n tiles to y, in the type that the merger writes. */
static sac_status merge(sac_session *s, const sac_media *m, int n, sac_mat features, sac_visual_mat y) {
    const sac_merger *merger = &s->model->device_tower.merger;
    sac_device_vision *v = &s->device_vision;
    return merger->kind->run(&(sac_merger_run){.merger = merger,
                                               .ops = &s->device_ops,
                                               .stream = &s->device_stream,
                                               .n = n,
                                               .grid = m->tower.patches,
                                               .pool = m->plan.pool,
                                               .blend = sac_media_frame_blend(m, v->blend),
                                               .features = features,
                                               .mid = {v->mid, features.rows / sac_merger_joins(merger),
                                                       merger->hidden, merger->hidden, v->tower_dtype},
                                               .raw = v->raw,
                                               .y = y.rows,
                                               .deep = y.deep});
}

static sac_status convert(sac_session *s, sac_mat y, sac_mat wide) {
    if (!y.data) return SAC_OK;
    sac_weight table = sac_weight_of((sac_tensor){wide.data, SAC_DTYPE_F32, 2, {y.rows, y.cols}});
    return s->device_ops.embed(&s->device_stream, &(sac_embed_args){.y = y, .table = table, .ids = s->device_vision.every_row});
}

/* To y in the decoder's type. */
static sac_status merge_and_convert(sac_session *s, const sac_media *m, int n, sac_mat features,
                                    sac_visual_mat y) {
    const sac_device_vision *v = &s->device_vision;
    const int64_t rows = y.rows.rows;
    if (!v->wide) return merge(s, m, n, features, y);
    const sac_visual_mat wide =
        sac_visual_buffer(&s->model->device_tower.merger, v->wide, SAC_DTYPE_F32, rows, 0, rows);
    SAC_TRY(merge(s, m, n, features, wide));
    SAC_TRY(convert(s, y.rows, wide.rows));
    return convert(s, y.deep, wide.deep);
}

static sac_status run_tower(sac_session *s, const sac_media *m, const uint8_t *patches, int n,
                            sac_visual_mat y) {
    sac_device_vision *v = &s->device_vision;
    const sac_stream *stream = &s->device_stream;
    const sac_tower *tower = &s->model->device_tower.tower;
    sac_tower_run call = {tower, &v->tower, &s->device_ops, stream};
    sac_patch_rows rows = sac_media_patch_rows(s, m, v->patches, n);
    int64_t cols = s->model->device_tower.merger.in;
    sac_mat features = {v->features, n * m->tower.n_features, cols, cols, v->tower_dtype};
    SAC_TRY(s->model->device.upload(stream, v->patches, patches, sac_visual_bytes(&m->plan, n)));
    SAC_TRY(sac_tower_encode(&call, &rows, features));
    return merge_and_convert(s, m, n, features, y);
}

sac_status sac_tower_explain(sac_session *s, sac_status st, sac_error *err) {
    const sac_device *d = &s->model->device;
    if (st != SAC_DEVICE) return st;
    SAC_TRY(d->stream_sync(&s->device_stream, err));
    return sac_fail(err, st, "%s refused a kernel or a copy of the vision tower", d->name);
}

sac_status sac_tower_submit(sac_session *s, int k, const sac_media *m, const uint8_t *patches, int n,
                            sac_visual_mat y, sac_error *err) {
    const sac_device *d = &s->model->device;
    if (!s->device_vision.is_open) return SAC_UNSUPPORTED;
    sac_status st = run_tower(s, m, patches, n, y);
    if (st == SAC_OK) st = d->event_record(&s->device_stream, &s->device_vision.slot[k].done);
    return sac_tower_explain(s, st, err);
}

sac_status sac_tower_wait(sac_session *s, int k, sac_error *err) {
    return sac_tower_explain(s, s->model->device.event_sync(&s->device_vision.slot[k].done), err);
}

void sac_tower_drain(sac_session *s) {
    if (s->device_vision.is_open) s->model->device.stream_sync(&s->device_stream, NULL);
}

/* ---------------------------------------------------------------- tables */

static sac_status send_blend(const sac_session *s, int64_t n) {
    const sac_device *d = &s->model->device;
    const sac_token_blend *to = &s->device_vision.blend, *from = &s->vision.blend;
    size_t n_taps = (size_t)n * SAC_BLEND_TAPS;
    SAC_TRY(d->upload(&s->device_stream, to->source, from->source, n_taps * sizeof *from->source));
    return d->upload(&s->device_stream, to->weight, from->weight, n_taps * sizeof *from->weight);
}

sac_status sac_tower_send_blend(sac_session *s, int64_t n, sac_error *err) {
    if (!s->device_vision.is_open) return SAC_OK;
    return sac_tower_explain(s, send_blend(s, n), err);
}

/* ---------------------------------------------------------------- a whole picture */

static sac_status gather(const sac_session *s, sac_visual_mat y, sac_visual_mat from) {
    const sac_device_vision *v = &s->device_vision;
    const sac_stream *stream = &s->device_stream;
    size_t n_bytes = (size_t)y.rows.rows * sizeof *v->layout;
    SAC_TRY(s->model->device.upload(stream, v->layout, s->vision.layout, n_bytes));
    SAC_TRY(s->device_ops.gather_rows(
        stream, &(sac_gather_rows_args){y.rows, from.rows, v->layout, s->model->device_tower.image_newline}));
    if (!y.deep.data) return SAC_OK;
    return s->device_ops.gather_rows(stream, &(sac_gather_rows_args){y.deep, from.deep, v->layout, NULL});
}

static sac_status blend(const sac_session *s, sac_mat y, sac_mat x) {
    const sac_token_blend *b = &s->device_vision.blend;
    SAC_TRY(send_blend(s, y.rows));
    return s->device_ops.blend_rows(&s->device_stream,
                                    &(sac_blend_rows_args){.y = y,
                                                           .x = x,
                                                           .source = b->source,
                                                           .weight = b->weight,
                                                           .fill = s->model->device_tower.image_newline,
                                                           .n_tiles = 1});
}

sac_status sac_tower_lay_out(sac_session *s, sac_visual_mat y, sac_visual_mat from, bool blends,
                             sac_error *err) {
    return sac_tower_explain(s, blends ? blend(s, y.rows, from.rows) : gather(s, y, from), err);
}
