/* vision_memory.c - how much the tower needs for a batch of tiles, and what a workspace has of it. */
#include "vision_memory.h"

#include "device_tower.h"
#include "dialect.h"

_Static_assert(SAC_VISUAL_TAPS == SAC_BLEND_TAPS, "the processor fills the tables of blend_rows");

#define HOST_BATCH_TILES   16
#define DEVICE_BATCH_TILES 32
/* Patches of several pictures that go together on the host: reading the weights is little beside so many rows (eight pictures of
 * 36 patches took 0.71 of the time that they took by themselves, five of 256 took 0.96, eight of 577 no less). A device takes as
 * many as a batch has room for. */
#define HOST_JOINED_PATCHES 512

/* Tiles encoded at a time. */
static int batch_tiles(const sac_model *m) {
    return m->device_tower.block ? DEVICE_BATCH_TILES : HOST_BATCH_TILES;
}

sac_vision_sizes sac_vision_measure(const sac_model *model) {
    const sac_loaded_model *m = &model->loaded;
    const sac_tower_config *c = &m->tower.config;
    sac_visual_plan largest;
    sac_tower_plan tile;
    sac_vision_sizes z = {.max_tiles = sac_processor_most_tiles(&m->processor),
                          .batch_tiles = batch_tiles(model)};
    if (sac_processor_largest(&m->processor, &largest, NULL) != SAC_OK ||
        c->kind->plan(c, largest.tile_w, largest.tile_h, largest.frames, &tile, NULL) != SAC_OK)
        return z; /* no picture can be shown */
    /* Tiles of one size: a batch holds so many. Of any size: one of the largest, or as many as go into its place. */
    size_t full = m->processor.dialect->largest ? 1 : (size_t)z.batch_tiles;
    size_t most = (size_t)z.max_tiles > full ? (size_t)z.max_tiles : full;
    size_t rows = (size_t)tile.n_features, batch_rows = full * rows;
    size_t merged = rows / (size_t)sac_merger_joins(&m->merger);
    size_t area = (size_t)c->patch_size * (size_t)c->patch_size * 3;
    z.batch_n_patches = (int64_t)full * tile.n_patches;
    z.batch_inside = (int64_t)full * tile.n_inside;
    z.batch_segments = (int)full * tile.most_segments;
    z.segment_start = ((size_t)z.batch_segments + 1) * sizeof(int32_t);
    z.tile = (size_t)tile.n_patches * area;
    z.frame = largest.frames > 1 ? z.tile : 0;
    z.patches = most * sac_visual_bytes(&largest, 1);
    z.batch_patches = full * sac_visual_bytes(&largest, 1);
    z.features = batch_rows * (size_t)sac_tower_cols(c) * sizeof(float);
    z.mid = full * merged * (size_t)m->merger.hidden * sizeof(float);
    /* Pooled features are a quarter of the rows at most, so that any type of a device has room where floats have. */
    size_t width = (size_t)sac_merger_width(&m->merger);
    if (m->merger.pools_first && (size_t)m->merger.in > width) width = (size_t)m->merger.in;
    z.raw = full * merged * width * sizeof(float);
    z.pooled_rows = (int64_t)(most * merged);
    z.pooled = most * merged * (size_t)sac_merger_width(&m->merger) * sizeof(float);
    /* Newlines at most double a row of one token: twice the tokens is always enough. */
    z.layout = 2 * most * merged * sizeof(int32_t);
    z.blend = m->processor.dialect->blend ? z.layout * SAC_BLEND_TAPS : 0;
    z.class_attention = c->kind->has_class ? 2 * most * (rows + 1) * sizeof(float) : 0;
    z.pools = m->processor.dialect->pools;
    return z;
}

size_t sac_vision_host_bytes(const sac_model *model, bool with_tower) {
    const sac_loaded_model *m = &model->loaded;
    sac_arena measure = sac_arena_measure();
    sac_vision_state v;
    if (!m->has_vision) return 0;
    return sac_vision_take(&v, model, with_tower, &measure, NULL) == SAC_OK ? measure.used_bytes : 0;
}

sac_vision_loan sac_vision_device_bytes(const sac_model *m) {
    sac_arena device = sac_arena_measure(), host = sac_arena_measure();
    sac_device_vision v;
    sac_vision_sizes z = sac_vision_measure(m);
    sac_status st =
        sac_device_vision_take(&v, &m->device_tower, &z, m->activations, NULL, &device, &host, NULL);
    if (st != SAC_OK) return (sac_vision_loan){0};
    return (sac_vision_loan){device.used_bytes, host.used_bytes, sac_device_vision_host_bytes(&z)};
}

sac_vision_state sac_vision_limits(const sac_model *m) {
    if (!m->loaded.has_vision) return (sac_vision_state){0};
    sac_vision_sizes z = sac_vision_measure(m);
    return (sac_vision_state){.batch_tiles = z.batch_tiles,
                              .batch_patches = z.batch_n_patches,
                              .joined_patches = m->device_tower.block ? z.batch_n_patches : HOST_JOINED_PATCHES,
                              .max_tiles = z.max_tiles,
                              .pooled_rows = z.pooled_rows,
                              .max_tokens = (int64_t)(z.layout / sizeof(int32_t))};
}

static sac_status take_tower(sac_vision_state *v, const sac_model *model, const sac_vision_sizes *z, sac_arena *a, sac_error *err) {
    SAC_TRY(sac_tower_state_take(&v->tower, &model->loaded.tower.config, z->batch_segments, a, err));
    v->tower.fast = model->fast;
    v->patches = sac_arena_take(a, z->patches);
    v->features = sac_arena_take(a, z->features);
    v->mid = sac_arena_take(a, z->mid);
    if (a->base && (!v->patches || !v->features || !v->mid)) return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the tower");
    return SAC_OK;
}

sac_status sac_vision_take(sac_vision_state *v, const sac_model *model, bool with_tower, sac_arena *a, sac_error *err) {
    const sac_loaded_model *m = &model->loaded;
    sac_vision_sizes z = sac_vision_measure(model);
    *v = sac_vision_limits(model);
    if (with_tower) SAC_TRY(take_tower(v, model, &z, a, err));
    v->segment_start = sac_arena_take(a, z.segment_start);
    v->tile = sac_arena_take(a, z.tile);
    v->frame = sac_arena_take(a, z.frame);
    v->raw = sac_arena_take(a, z.raw);
    v->pooled = sac_arena_take(a, z.pooled);
    v->class_attention = sac_arena_take(a, z.class_attention);
    v->blend.source = sac_arena_take(a, z.blend);
    v->blend.weight = sac_arena_take(a, z.blend);
    v->blend.newline = m->image_newline;
    if (a->base && (!v->segment_start || !v->tile || !v->raw || !v->pooled || !v->class_attention || !v->blend.weight))
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for vision");
    return SAC_OK;
}

sac_status sac_vision_take_device(sac_device_vision *v, const sac_model *m, const sac_stream *stream,
                                  sac_arena *device, sac_arena *host, sac_error *err) {
    sac_vision_sizes z = sac_vision_measure(m);
    SAC_TRY(sac_device_vision_take(v, &m->device_tower, &z, m->activations, stream, device, host, err));
    return sac_device_vision_open(v, &z, &m->device, err);
}
