/* loan.c - what a session borrows of its model while it runs. */
#include "vision_memory.h"
#include "workspace.h"

static int64_t widest_row(const sac_loaded_model *m) {
    int64_t k = sac_decoder_widest(&m->decoder.config);
    if (m->has_vision) {
        const sac_tower_config *v = &m->tower.config;
        int64_t sides[] = {v->intermediate, v->hidden, sac_tower_patch_bytes(v), sac_tower_cols(v),
                           m->merger.hidden};
        for (size_t i = 0; i < SAC_COUNT(sides); i++)
            if (sides[i] > k) k = sides[i];
    }
    return k;
}

/* One block for the host's op in flight: rows of the largest linear call, the decoder's or a batch of tiles. */
static size_t scratch_bytes(const sac_model *m, int64_t rows, bool vision) {
    if (sac_model_on_device(m)) rows = 1; /* the decoder's rows are not on the host */
    if (vision) {
        int64_t tower = sac_vision_measure(m).batch_inside;
        if (tower > rows) rows = tower;
    }
    return m->ops.linear_scratch_bytes(rows, widest_row(&m->loaded)) + 64;
}

/* Reducers of pictures look into the tower, on the host. */
static bool tower_on_device(const sac_model *m, const sac_reduce *reduce) {
    return m->device_tower.block && !sac_reduce_sees_pictures(reduce);
}

sac_workspace_need sac_session_need(const sac_model *m, const sac_decoder_state *d, const sac_reduce *reduce,
                                    sac_decoder_use use) {
    bool prompt = use == SAC_FOR_PROMPT, vision = prompt && m->loaded.has_vision;
    sac_decoder_loan loan = sac_decoder_loan_plan(d, sac_model_decoder(m), use);
    size_t rows = sac_decoder_loan_bytes(&loan);
    const int64_t n = prompt ? d->chunk : d->n_spare + 1 + d->n_ahead;
    const size_t scratch = scratch_bytes(m, n, vision);
    const bool device_vision = vision && tower_on_device(m, reduce);
    return (sac_workspace_need){.rows_bytes = d->device ? 0 : rows,
                                .device_rows_bytes = d->device ? rows : 0,
                                .scratch_bytes = scratch,
                                .spare_bytes = device_vision ? scratch - scratch_bytes(m, n, false) : 0,
                                .vision = vision,
                                .device_vision = device_vision};
}

/* Limits and layout stay what the session has. */
static void set_vision(sac_session *s, sac_vision_state v) {
    v.batch_tiles = s->vision.batch_tiles;
    v.batch_patches = s->vision.batch_patches;
    v.joined_patches = s->vision.joined_patches;
    v.max_tiles = s->vision.max_tiles;
    v.max_tokens = s->vision.max_tokens;
    v.layout = s->vision.layout;
    s->vision = v;
}

/* The tower's buffers. Where it runs on the device, patch rows of the host are pinned ones, and the arena's pages
 * are never touched. */
static void lend_vision(sac_session *s, const sac_workspace *w) {
    set_vision(s, w->vision);
    if (!w->device_vision.is_open || sac_reduce_sees_pictures(&s->reduce)) return;
    s->device_vision = w->device_vision;
    s->vision.patches = w->device_vision.slot[0].patches;
}

sac_status sac_session_borrow(sac_session *s, sac_decoder_use use, sac_error *err) {
    const sac_model *m = s->model;
    sac_workspace *w;
    sac_workspace_need need = sac_session_need(m, &s->decoder, &s->reduce, use);
    SAC_TRY(sac_workspace_borrow(m, &need, use, &w, err));
    s->workspace = w;
    s->stream = w->stream;
    s->device_stream = w->device_stream;
    s->device_ops = w->device_ops;
    if (need.vision) lend_vision(s, w);
    sac_status st = sac_decoder_lend(&s->decoder, sac_model_decoder(m), use, sac_decoder_stream(s),
                                     s->decoder.device ? &w->device_rows : &w->rows, err);
    if (st != SAC_OK) sac_session_give_back(s);
    return st;
}

void sac_session_give_back(sac_session *s) {
    if (!s->workspace) return;
    sac_decoder_give_back(&s->decoder);
    set_vision(s, (sac_vision_state){0});
    s->device_vision = (sac_device_vision){0};
    sac_workspace_give_back(s->model, s->workspace);
    s->workspace = NULL;
    s->stream = s->device_stream = (sac_stream){0};
}

sac_status sac_session_with_stream(const sac_session *s,
                                   sac_status (*fn)(const sac_session *s, const sac_stream *stream)) {
    const sac_model *m = s->model;
    sac_workspace *w;
    if (s->workspace || !sac_model_on_device(m)) return fn(s, sac_decoder_stream(s));
    SAC_TRY(sac_workspace_borrow(m, &(sac_workspace_need){0}, SAC_FOR_STEP, &w, NULL));
    sac_status st = fn(s, &w->device_stream);
    sac_workspace_give_back(m, w);
    return st;
}
