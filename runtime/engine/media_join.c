/* media_join.c - pictures that follow one another and look alike to the tower go through it in one batch: a thousand rows keep a
 * large card busy for a part of the time only, and for a few dozen a processor reads the weights longer than it computes. As many
 * go together as vision.joined_patches says, at most the batch that the buffers are for, so that the tower takes no more memory.
 * On the host only those whose rows have the same bits by themselves. */
#include "media_batch.h"
#include "media_open.h"

#include <string.h>

static bool is_same(sac_grid a, sac_grid b) {
    return a.t == b.t && a.h == b.h && a.w == b.w;
}

/* What a reducer chooses by the class token of is one picture at a time. */
static bool may_go_beside_others(const sac_media_work *w) {
    return !sac_reduce_sees_pictures(&w->s->reduce) && (w->s->device_vision.is_open || sac_media_keeps_bits(w));
}

/* Whether n tiles are not too many for the tower's buffers and the caller's time. */
static bool fits(const sac_media_work *w, int n) {
    const int64_t n_patches = n * w->m->tower.n_patches;
    return n <= sac_media_full_batch(w) && n_patches <= w->s->vision.joined_patches &&
           (w->most_patches <= 0 || (double)n_patches <= w->most_patches);
}

/* Whether m's tiles can be more of the work's, which has n so far. One that was shown before comes out of the cache later. */
static bool may_join(const sac_media_work *w, const sac_media *m, int n) {
    const sac_visual_plan *a = &w->m->plan, *b = &m->plan;
    if (m->content != SAC_PART_IMAGE || !fits(w, n + b->n_tiles)) return false;
    for (const sac_media *before = w->m; before < m; before++)
        if (memcmp(&before->key, &m->key, sizeof m->key) == 0) return false;
    return is_same(a->patches, b->patches) && is_same(a->tokens, b->tokens) && sac_crops_equal(&a->crops, &b->crops) &&
           a->frames == b->frames && a->pool == b->pool && a->tokens_per_tile == b->tokens_per_tile;
}

sac_status sac_media_join(sac_media_work *w, sac_error *err) {
    sac_session *s = w->s;
    int n = w->m->plan.n_tiles;
    if (!may_go_beside_others(w)) return SAC_OK;
    for (sac_media *m = w->m + 1; m < s->media + s->n_media && may_join(w, m, n); m++) {
        SAC_TRY(sac_visual_recall(s, m, &m->report.from_cache, err));
        s->reports[m - s->media] = sac_media_told(m);
        w->n_joined++;
        if (m->report.from_cache) continue;
        SAC_TRY(sac_media_reopen(s, m, err));
        n += m->plan.n_tiles;
    }
    return SAC_OK;
}

const uint8_t *sac_media_joined_patches(const sac_media_work *w, int *n) {
    const sac_visual_plan *p = &w->m->plan;
    uint8_t *all = sac_media_slot_patches(w, 0); /* a picture's own are not in it */
    *n = 0;
    for (const sac_media *m = w->m; m <= w->m + w->n_joined; m++) {
        if (m->report.from_cache) continue;
        memcpy(all + sac_visual_bytes(p, *n), m->patches, sac_visual_bytes(p, m->plan.n_tiles));
        *n += m->plan.n_tiles;
    }
    return all;
}
