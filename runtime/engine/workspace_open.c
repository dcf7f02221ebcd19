/* workspace_open.c - what a workspace is made of. */
#include "device_tower.h"
#include "vision_memory.h"
#include "workspace.h"

static size_t stream_bytes(const sac_model *m, const sac_workspace_need *need) {
    return sac_stream_bytes(sac_pool_n_threads(m->pool), need->scratch_bytes);
}

static sac_vision_loan on_device(const sac_model *m, const sac_workspace_need *need) {
    return need->device_vision ? sac_vision_device_bytes(m) : (sac_vision_loan){0};
}

static size_t vision_arena_bytes(const sac_model *m, const sac_workspace_need *need, bool with_tower) {
    return (need->vision ? sac_vision_host_bytes(m, with_tower) : 0) + on_device(m, need).host_bytes;
}

/* Where the tower runs on the device, the host's has its place in the arena, but no pages: only a batch that the device refuses
 * touches them. */
size_t sac_workspace_vision_bytes(const sac_model *m, const sac_workspace_need *need) {
    return vision_arena_bytes(m, need, !need->device_vision) + on_device(m, need).pinned_bytes;
}

size_t sac_workspace_pinned_bytes(const sac_model *m, const sac_workspace_need *need) {
    return on_device(m, need).pinned_bytes;
}

size_t sac_workspace_device_vision_bytes(const sac_model *m, const sac_workspace_need *need) {
    return on_device(m, need).device_bytes;
}

size_t sac_workspace_device_bytes(const sac_model *m, const sac_workspace_need *need) {
    size_t scratch = sac_model_on_device(m) ? sac_ops_scratch_bytes(&m->device) : 0;
    return scratch + need->device_rows_bytes + on_device(m, need).device_bytes;
}

static sac_status open_device(sac_workspace *w, const sac_model *m, const sac_workspace_need *need,
                              sac_error *err) {
    const sac_device *d = &m->device;
    size_t fixed = on_device(m, need).device_bytes, all = fixed + need->device_rows_bytes;
    SAC_TRY(d->stream_open(d, &w->device_stream, sac_ops_scratch_bytes(d), err));
    SAC_TRY(sac_ops_open(&w->device_ops, &w->device_stream, err));
    SAC_TRY(d->alloc(d, all, &w->device_memory, err));
    if (d->use(d) != SAC_OK || d->zero(&w->device_stream, w->device_memory, all) != SAC_OK)
        return sac_fail(err, SAC_DEVICE, "%s: clearing a workspace failed", d->name);
    for (int i = 0; i < SAC_PIECES_AHEAD; i++) SAC_TRY(d->event_create(d, &w->passed[i], err));
    w->device_fixed = sac_arena_over(w->device_memory, fixed);
    w->device_rows = sac_arena_over((uint8_t *)w->device_memory + fixed, need->device_rows_bytes);
    if (!need->device_vision) return SAC_OK;
    return sac_vision_take_device(&w->device_vision, m, &w->device_stream, &w->device_fixed, &w->fixed, err);
}

sac_status sac_workspace_open(sac_workspace *w, const sac_model *m, const sac_workspace_need *need,
                              sac_error *err) {
    *w = (sac_workspace){.has = *need};
    SAC_TRY(sac_arena_open(&w->fixed, stream_bytes(m, need) + vision_arena_bytes(m, need, true), err));
    SAC_TRY(sac_arena_open(&w->rows, need->rows_bytes, err));
    SAC_TRY(sac_stream_init(&w->stream, m->pool, &w->fixed, need->scratch_bytes, err));
    if (need->vision) SAC_TRY(sac_vision_take(&w->vision, m, true, &w->fixed, err));
    return sac_model_on_device(m) ? open_device(w, m, need, err) : SAC_OK;
}

void sac_workspace_close(sac_workspace *w, const sac_model *m) {
    const sac_device *d = &m->device;
    if (w->device_stream.device) {
        sac_device_vision_close(&w->device_vision, d);
        for (int i = 0; i < SAC_PIECES_AHEAD; i++) d->event_free(&w->passed[i]);
        sac_ops_close(&w->device_stream);
        d->stream_close(&w->device_stream);
        d->free(d, w->device_memory);
    }
    sac_arena_free(&w->rows);
    sac_arena_free(&w->fixed);
    *w = (sac_workspace){0};
}
