/* clip_state.c - the buffers of a CLIP tower. */
#include "clip.h"

#include <stdlib.h>

static bool take_buffers(sac_tower_state *s, const sac_tower_config *c, sac_arena *arena) {
    const int64_t rows = (int64_t)s->max_segments * sac_clip_tokens(c);
    const struct {
        int buffer;
        int64_t cols;
    } all[] = {{SAC_CLIP_PATCHES, sac_clip_aligned_cols(c)},
               {SAC_CLIP_H, c->hidden},
               {SAC_CLIP_NORM, c->hidden},
               {SAC_CLIP_QKV, 3 * (int64_t)c->hidden},
               {SAC_CLIP_MLP, c->intermediate}};
    bool ok = true;
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        size_t n_bytes = (size_t)rows * sac_dtype_row_bytes(s->dtype, all[i].cols);
        s->at[all[i].buffer] = sac_arena_take(arena, n_bytes);
        ok = ok && s->at[all[i].buffer];
    }
    return ok;
}

/* Rows of equal length, so the starts of any number of segments are the first of one table. */
static bool take_segments(sac_tower_state *s, const sac_tower_config *c, sac_arena *host) {
    s->segment_start = sac_arena_take(host, ((size_t)s->max_segments + 1) * sizeof *s->segment_start);
    for (int i = 0; s->segment_start && i <= s->max_segments; i++)
        s->segment_start[i] = i * sac_clip_tokens(c);
    return s->segment_start != NULL;
}

/* The tables of rows on a device, and zeros where they must be. */
static sac_status fill_device(const sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream) {
    int tokens = sac_clip_tokens(c), kept = sac_clip_kept(c), n = s->max_segments;
    const sac_device *d = stream->device;
    size_t n_rows = (size_t)n * (size_t)tokens, n_kept = (size_t)n * (size_t)kept;
    int32_t *map = malloc(n_rows * sizeof *map);
    if (!map) return SAC_NO_MEMORY;
    for (int i = 0; i < n * tokens; i++) map[i] = i % tokens;
    /* what the columns of patches that weigh nothing hold must be numbers */
    sac_status st = d->zero(stream, s->at[SAC_CLIP_PATCHES],
                            n_rows * sac_dtype_row_bytes(s->dtype, sac_clip_aligned_cols(c)));
    if (st == SAC_OK) st = d->upload(stream, s->at[SAC_CLIP_START], map, n_rows * sizeof *map);
    for (int i = 0; i < n * kept; i++) map[i] = i / kept * tokens + tokens - kept + i % kept;
    if (st == SAC_OK) st = d->upload(stream, s->at[SAC_CLIP_KEPT], map, n_kept * sizeof *map);
    free(map);
    return st;
}

sac_status sac_clip_take(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                         sac_arena *arena, sac_arena *host, sac_error *err) {
    size_t n = (size_t)s->max_segments;
    bool ok = take_buffers(s, c, arena);
    if (s->on_device) {
        s->at[SAC_CLIP_START] = sac_arena_take(arena, n * (size_t)sac_clip_tokens(c) * sizeof(int32_t));
        s->at[SAC_CLIP_KEPT] = sac_arena_take(arena, n * (size_t)sac_clip_kept(c) * sizeof(int32_t));
        ok = ok && s->at[SAC_CLIP_KEPT];
    }
    ok = take_segments(s, c, host) && ok;
    if (!arena->base) return SAC_OK;
    if (!ok) return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the vision tower");
    if (!s->on_device) return SAC_OK;
    sac_status st = fill_device(s, c, stream);
    if (st == SAC_NO_MEMORY) return sac_fail(err, st, "no memory for the vision tower");
    return st == SAC_OK ? SAC_OK : sac_fail(err, st, "%s: a copy failed", stream->device->name);
}
