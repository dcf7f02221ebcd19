#include "media_batch.h"

#include "call.h"
#include "clock.h"
#include "device_tower.h"
#include "patches.h"

/* Tiles collect in a buffer until a batch is full. On a device there are two: one is filled while the device has
 * the other. */
uint8_t *sac_media_slot_patches(const sac_media_work *w, int slot) {
    return slot ? w->s->device_vision.slot[slot].patches : w->s->vision.patches;
}

/* Tiles are through: what the tower saw of them. */
void sac_media_tell_tiles(const sac_media_work *w, const uint8_t *patches, int64_t first_tile, int n) {
    const sac_visual_plan *p = &w->m->plan;
    const sac_events *events = w->s->events;
    uint8_t *tile = w->s->vision.tile;
    const int parts = p->crops.n ? p->crops.n : 1;
    const size_t area = (size_t)p->patch * (size_t)p->patch * 3;
    for (int i = 0; i < n * parts && events && events->tile; i++) {
        const sac_patch_order order = p->crops.n ? sac_visual_crop_order(p, i % parts) : sac_visual_order(p);
        const size_t before = p->crops.n ? (size_t)sac_crops_before(&p->crops, i % parts) * area : 0;
        sac_patches_join(tile, &order, 0, patches + sac_visual_bytes(p, i / parts) + before);
        events->tile(events->ctx, (size_t)(w->m - w->s->media), first_tile * parts + i, order.w * p->patch, order.h * p->patch, tile);
    }
}

/* Tiles of this item that go into the tower's buffers. */
int sac_media_full_batch(const sac_media_work *w) {
    const sac_vision_state *v = &w->s->vision;
    int64_t n = v->batch_patches / w->m->tower.n_patches;
    return n < 1 ? 1 : n < v->batch_tiles ? (int)n : v->batch_tiles;
}

/* On the host, as long as a tile has more rows than those that linear layers treat apart, and attention does not share the
 * keys of few heads out among threads. */
bool sac_media_keeps_bits(const sac_media_work *w) {
    enum { SHARED_KEYS = 1024, ENOUGH_HEADS = 12 };
    const sac_loaded_model *m = &w->s->model->loaded;
    const int64_t rows = w->m->tower.n_features / sac_merger_joins(&m->merger);
    return !w->s->device_vision.is_open && rows > SAC_LINEAR_FEW_ROWS && w->m->plan.tokens_per_tile > SAC_LINEAR_FEW_ROWS &&
           (w->m->tower.n_inside < SHARED_KEYS || m->tower.config.n_heads >= ENOUGH_HEADS);
}

/* Those that it takes at a time. */
int sac_media_batch_tiles(const sac_media_work *w) {
    const int n = sac_media_full_batch(w);
    const double most = w->most_patches / (double)w->m->tower.n_patches;
    if (w->most_patches <= 0 || most >= n || !sac_media_keeps_bits(w)) return n;
    return most < 1 ? 1 : (int)most;
}

void sac_media_tell_progress(const sac_media_work *w, int64_t done) {
    const sac_events *e = w->s->events;
    if (e && e->progress) e->progress(e->ctx, "vision", done, w->m->report.n_frames);
}

static sac_batch_rows host_rows(const sac_media_work *w, int64_t first, int64_t n) {
    const sac_vision_state *v = &w->s->vision;
    return (sac_batch_rows){
        sac_visual_buffer(&w->s->model->loaded.merger, v->pooled, SAC_DTYPE_F32, v->pooled_rows, first, n),
        true};
}

/* The same in a device's buffer, where the tower runs there. */
sac_batch_rows sac_media_buffer_rows(const sac_media_work *w, int64_t first, int64_t n) {
    const sac_session *s = w->s;
    if (!s->device_vision.is_open) return host_rows(w, first, n);
    return (sac_batch_rows){sac_visual_buffer(&s->model->loaded.merger, s->device_vision.rows, s->decoder.dtype,
                                          s->vision.pooled_rows, first, n),
                        false};
}

/* A video's tiles go straight to the prompt's rows where these follow one another. */
sac_batch_rows sac_media_frame_rows(const sac_media_work *w, int64_t first_tile, int n) {
    int64_t each = w->m->plan.n_tokens, n_tokens = n * each;
    sac_visual_mat run = sac_visual_run(w->s, w->m, first_tile * each, n_tokens);
    if (run.rows.rows < n_tokens) return sac_media_buffer_rows(w, 0, n_tokens);
    return (sac_batch_rows){run, !sac_model_on_device(w->s->model)};
}

/* n tiles through the host's tower, the same order. */
static sac_status run_tower(const sac_media_work *w, const uint8_t *patches, int n, sac_visual_mat y) {
    sac_session *s = w->s;
    const sac_media *media = w->m;
    const sac_loaded_model *m = &s->model->loaded;
    sac_vision_state *v = &s->vision;
    int64_t n_rows = n * media->tower.n_features;
    sac_tower_run tower = {&m->tower, &v->tower, &s->model->ops, &s->stream};
    sac_merger_run merger = {.merger = &m->merger,
                             .ops = &s->model->ops,
                             .stream = &s->stream,
                             .fast = s->model->fast,
                             .n = n,
                             .grid = media->tower.patches,
                             .pool = media->plan.pool,
                             .blend = sac_media_frame_blend(media, v->blend),
                             .features = sac_mat_f32(v->features, n_rows, m->merger.in),
                             .mid =
                                 sac_mat_f32(v->mid, n_rows / sac_merger_joins(&m->merger), m->merger.hidden),
                             .raw = v->raw,
                             .y = y.rows,
                             .deep = y.deep};
    sac_patch_rows rows = sac_media_patch_rows(s, media, patches, n);
    SAC_TRY(sac_tower_encode(&tower, &rows, merger.features));
    return m->merger.kind->run(&merger);
}

/* The same for rows anywhere. */
static sac_status run_on_host(const sac_media_work *w, const uint8_t *patches, int n, sac_batch_rows to) {
    if (to.on_host) return run_tower(w, patches, n, to.y);
    sac_batch_rows here = host_rows(w, 0, to.y.rows.rows);
    SAC_TRY(run_tower(w, patches, n, here.y));
    SAC_TRY(sac_visual_write(w->s, to.y.rows, here.y.rows.data));
    return sac_visual_write(w->s, to.y.deep, here.y.deep.data);
}

/* In a slot of the device, to be waited for, or at once on the host: then nothing is in flight. */
sac_status sac_media_submit(sac_media_work *w, int slot, const uint8_t *patches, int n, sac_batch_rows to,
                         sac_error *err) {
    int64_t start_ns = sac_now_ns();
    sac_status st = sac_tower_submit(w->s, slot, w->m, patches, n, to.y, err);
    if (st == SAC_OK) w->in_flight[slot] = n;
    if (st == SAC_UNSUPPORTED) { /* the device has no kernels for it */
        st = run_on_host(w, patches, n, to);
        st = sac_tower_explain(w->s, st, err);
    }
    w->vision_seconds += sac_seconds_since(start_ns);
    return st;
}

sac_status sac_media_wait(sac_media_work *w, int slot, sac_error *err) {
    int64_t start_ns = sac_now_ns();
    if (!w->in_flight[slot]) return SAC_OK;
    SAC_TRY(sac_tower_wait(w->s, slot, err));
    w->in_flight[slot] = 0;
    w->vision_seconds += sac_seconds_since(start_ns);
    return SAC_OK;
}
