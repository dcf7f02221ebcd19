/* twilight_device.c - Twilight's choice on a device, where nobody else learns how long the lists are.
 *
 * Estimates are made of the rows that the base chose, each key once for its group of heads; thresholds are
 * scores, so that no weights need be written; lists are made there and read there. Over a base with compact
 * positions its rows are gathered to their places, and lists are of places; the rows that are counted as read
 * are then those of the lists, where the CPU gathers, and counts, what any head of the layer keeps. */
#include "twilight.h"

#include "attend.h"

#include <string.h>

void sac_twilight_take_there(sac_twilight *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_heads = (size_t)shape->n_heads, n_ctx = (size_t)shape->n_ctx;
    size_t n_lists = (size_t)sac_twilight_n_lists(s, shape), n_counts = (size_t)s->n_layers * 2;
    for (int i = 0; i < s->n_layers - s->skip; i++) {
        sac_packed_rows copy =
            sac_key_copy_take(shape, sac_key_copy_capacity(shape), shape->head_dim, s->bits, memory);
        if (s->copy) s->copy[i] = copy;
    }
    s->scores = sac_take_device(memory, n_heads * n_ctx * sizeof(float));
    s->threshold = sac_take_device(memory, n_heads * sizeof(float));
    s->n_kept = sac_take_device(memory, n_heads * sizeof *s->n_kept);
    s->rows = sac_take_device(memory, n_lists * n_ctx * sizeof *s->rows);
    s->start = sac_take_device(memory, (n_heads + 1) * sizeof *s->start);
    s->sums = sac_take_both(memory, n_counts * sizeof(int64_t));
    s->known = sac_take_host(memory, n_counts * sizeof *s->known);
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
static int64_t list_length(const sac_choice_lists *l) {
    int64_t n = sac_choice_begin(l, 1);
    for (int i = 1; i < l->n_lists; i++)
        if (sac_choice_begin(l, i + 1) - sac_choice_begin(l, i) != n) return -1;
    return n;
}

sac_status sac_twilight_cut_there(sac_twilight *s, const sac_layer_attention *a, sac_choice *choice) {
    const sac_attention_shape *shape = a->shape;
    const sac_choice_lists base = choice->lists;
    const bool all = sac_choice_is_all(choice), compact = choice->kind == SAC_CHOICE_PLACES;
    int64_t n = all ? a->kv.n_rows : list_length(&base);
    int n_lists = sac_twilight_n_lists(s, shape);
    bool listed = !all && !compact; /* what stays is row numbers of the base's, not places */
    if (n < 0 || (listed && n_lists % base.n_lists != 0)) return SAC_UNSUPPORTED;
    if (compact) SAC_TRY(sac_gather_places(a, a->q, a->position, &base, choice->room));
    sac_packed_scores_args scores = {.scores = s->scores,
                                     .stride = shape->n_ctx,
                                     .n = n,
                                     .q = a->q,
                                     .keys = s->copy[a->layer - s->skip],
                                     .rows = all ? NULL : base.rows,
                                     .n_lists = all ? 1 : base.n_lists,
                                     .turn_back = compact ? choice->room->turn_keys : NULL,
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
    SAC_TRY(a->ops->kept_rows(a->stream,
                              &(sac_kept_rows_args){.rows = s->rows,
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
                                                    .sums = (int64_t *)s->sums.device + 2 * a->layer}));
    if (all) a->stats->n_selections++; /* bases count theirs */
    s->is_ahead = true;
    choice->n_chosen = 0; /* the device counts */
    choice->lists = (sac_choice_lists){s->rows, {NULL, s->start}, n_lists};
    if (!compact) return SAC_OK;
    choice->kind = SAC_CHOICE_VIEW;
    choice->view = (sac_choice_view){.kv = choice->room->view};
    return SAC_OK;
}

sac_status sac_twilight_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                sac_layer_stats *stats) {
    sac_twilight *s = state;
    size_t n_bytes = (size_t)s->n_layers * 2 * sizeof *s->known;
    int n_lists = sac_twilight_n_lists(s, shape);
    const int64_t *sums = s->sums.host;
    if (!s->is_ahead) return SAC_OK;
    SAC_TRY(sac_buffer_fetch(shape->device, stream, s->sums, n_bytes));
    for (int i = 0; i < s->n_layers; i++) { /* lists of query heads: the mean of a group */
        stats[i].decode_rows += (double)(sums[2 * i] - s->known[2 * i]) / n_lists * shape->n_kv_heads;
        stats[i].decode_budget += (double)(sums[2 * i + 1] - s->known[2 * i + 1]);
    }
    memcpy(s->known, sums, n_bytes);
    s->is_ahead = false;
    return SAC_OK;
}
