/* twilight_device.c - Twilight's choice on a device, where nobody else learns how long the lists are.
 *
 * Estimates are made of the rows that the base chose, each key once for its group of heads; thresholds are
 * scores, so that no weights need be written; lists are made there and read there. Over a base with compact
 * positions its rows are gathered to their places, and lists are of places; the rows that are counted as read
 * are then those of the lists, where the CPU gathers, and counts, what any head of the layer keeps. */
#include "twilight.h"

#include <string.h>

void sac_twilight_take_device(void *state, const double *p, const sac_attention_shape *shape,
                              sac_arena *arena) {
    sac_twilight *s = state;
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    sac_attention_shape whole_tiles = *shape; /* so that the last one is like the others */
    (void)p;
    whole_tiles.n_ctx = (shape->n_ctx + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE * SAC_PACKED_TILE;
    for (int i = 0; i < s->n_layers - s->skip; i++) {
        sac_packed_rows copy = sac_key_copy_take(&whole_tiles, shape->head_dim, s->bits, arena);
        if (s->copy) s->copy[i] = copy;
    }
    s->scores = sac_arena_take(arena, n_heads * n_ctx * sizeof(float));
    s->threshold = sac_arena_take(arena, n_heads * sizeof(float));
    s->n_kept = sac_arena_take(arena, n_heads * sizeof *s->n_kept);
    s->rows = sac_arena_take(arena, (size_t)sac_twilight_n_lists(s, shape) * n_ctx * sizeof *s->rows);
    s->start = sac_arena_take(arena, (n_heads + 1) * sizeof *s->start);
    s->sums = sac_arena_take(arena, (size_t)s->n_layers * 2 * sizeof *s->sums); /* zeros, as all of it */
}

sac_status sac_twilight_pack_there(sac_twilight *s, const sac_layer_attention *a) {
    sac_packed_rows *copy = &s->copy[a->layer - s->skip];
    int64_t first = copy->n, n = a->kv.n_rows - first;
    if (n <= 0) return SAC_OK;
    copy->n += n;
    sac_status st = a->ops->pack_rows(
        a->stream, &(sac_pack_rows_args){.p = *copy, .kv = a->kv, .rows = {NULL, n, first, 1}, .to = first});
    if (st != SAC_OK) copy->n = first;
    return st;
}

/* Rows of each list, -1 when they are not equally long. */
static int64_t list_length(const sac_row_lists *l) {
    int64_t n = l->start[1] - l->start[0];
    for (int i = 1; i < l->n_lists; i++)
        if (l->start[i + 1] - l->start[i] != n) return -1;
    return n;
}

sac_status sac_twilight_cut_there(sac_twilight *s, const sac_layer_attention *a, sac_choice *choice) {
    const sac_attention_shape *shape = a->shape;
    const sac_row_lists base = choice->lists;
    int64_t n = choice->all ? a->kv.n_rows : list_length(&base);
    int n_lists = sac_twilight_n_lists(s, shape);
    bool listed = !choice->all && !choice->compact; /* what stays is row numbers of the base's, not places */
    if (n < 0 || (listed && n_lists % base.n_lists != 0)) return SAC_UNSUPPORTED;
    if (choice->compact) SAC_TRY(sac_gather_choice(a, choice));
    sac_packed_scores_args scores = {.scores = s->scores,
                                     .stride = shape->n_ctx,
                                     .n = n,
                                     .q = a->q,
                                     .keys = s->copy[a->layer - s->skip],
                                     .rows = choice->all ? NULL : base.rows,
                                     .n_lists = choice->all ? 1 : base.n_lists,
                                     .turn_back = choice->compact ? choice->scratch->device_turn_keys : NULL,
                                     .rotation = &a->rotation,
                                     .n_heads = shape->n_heads,
                                     .scale = a->scale};
    SAC_TRY(a->ops->packed_scores(a->stream, &scores));
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = s->scores,
                                                       .stride = shape->n_ctx,
                                                       .n = n,
                                                       .n_rows = shape->n_heads,
                                                       .p = s->p,
                                                       .threshold = s->threshold,
                                                       .n_kept = s->n_kept,
                                                       .scores = true}));
    SAC_TRY(a->ops->kept_rows(a->stream, &(sac_kept_rows_args){.rows = s->rows,
                                                               .start = s->start,
                                                               .values = s->scores,
                                                               .stride = shape->n_ctx,
                                                               .n = n,
                                                               .n_rows = shape->n_heads,
                                                               .n_lists = n_lists,
                                                               .threshold = s->threshold,
                                                               .from = listed ? base.rows : NULL,
                                                               .n_from = listed ? base.n_lists : 0,
                                                               .last = s->force_last,
                                                               .sums = s->sums + 2 * a->layer}));
    if (choice->all) a->stats->n_selections++; /* bases count theirs */
    s->is_ahead = true;
    choice->lists = (sac_row_lists){s->rows, NULL, n_lists};
    choice->device_start = s->start;
    choice->all = false;
    choice->counted_there = true;
    return SAC_OK;
}

sac_status sac_twilight_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                sac_layer_stats *stats) {
    sac_twilight *s = state;
    size_t n_bytes = (size_t)s->n_layers * 2 * sizeof *s->sums;
    int n_lists = sac_twilight_n_lists(s, shape);
    if (!shape->device || !s->is_ahead) return SAC_OK;
    SAC_TRY(shape->device->download(stream, s->fetch, s->sums, n_bytes));
    SAC_TRY(shape->device->stream_sync(stream, NULL));
    for (int i = 0; i < s->n_layers; i++) { /* lists of query heads: the mean of a group */
        stats[i].decode_rows += (double)(s->fetch[2 * i] - s->known[2 * i]) / n_lists * shape->n_kv_heads;
        stats[i].decode_budget += (double)(s->fetch[2 * i + 1] - s->known[2 * i + 1]);
    }
    memcpy(s->known, s->fetch, n_bytes);
    s->is_ahead = false;
    return SAC_OK;
}
