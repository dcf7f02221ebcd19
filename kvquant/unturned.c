#include "unturned.h"

#include "attend.h"

#include <assert.h>

enum { ROWS_AT_ONCE = 1024 /* that are turned to their positions */ };

static int64_t rows_at_once(int64_t n_ctx) {
    return n_ctx < ROWS_AT_ONCE ? n_ctx : ROWS_AT_ONCE;
}

void sac_unturned_take(sac_unturned *u, const sac_attention_shape *shape, int64_t max_parts,
                       const sac_memory *memory) {
    size_t n_ctx = (size_t)shape->n_ctx, n_layers = (size_t)shape->n_layers,
           kv_heads = (size_t)shape->n_kv_heads, some = (size_t)rows_at_once(shape->n_ctx),
           cols = kv_heads * (size_t)shape->head_dim;
    *u = (sac_unturned){.n_ctx = shape->n_ctx};
    u->element_bytes = shape->device ? sac_dtype_row_bytes(shape->dtype, 1) : sizeof(uint16_t);
    u->keys = sac_take_device(memory, cols * n_ctx * u->element_bytes);
    u->piece = sac_take_device(memory, cols * some * sizeof *u->piece);
    u->rows = sac_take_both(memory, n_ctx * sizeof(int32_t));
    u->turn = sac_take_both(memory, n_ctx * sizeof(int32_t));
    u->order = sac_take_both(memory, some * sizeof(int32_t));
    sac_starts_take(&u->starts, 1, memory);
    u->notes = sac_take_host(memory, n_layers * sizeof *u->notes);
    u->n_notes = sac_take_host(memory, n_layers * sizeof *u->n_notes);
    u->rotation = sac_take_host(memory, n_layers * sizeof *u->rotation);
    for (size_t i = 0; i < n_layers; i++) {
        sac_buffer notes = sac_take_both(memory, (kv_heads * n_ctx + (size_t)max_parts) * sizeof(int32_t));
        if (u->notes) u->notes[i] = notes;
    }
}

sac_status sac_unturned_check(const char *format, const sac_attention_shape *shape, sac_error *err) {
    if (shape->fixed_rotation && (shape->rotation_factor == 0 || shape->rotation_factor == 1)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "KV format %s: rope=before turns keys back by their positions, and this model's (dynamic "
                    "rope scaling, "
                    "numbers of their own, or a table with a factor) do not let it: use rope=after",
                    format);
}

void sac_unturned_clear(sac_unturned *u, int layer) {
    u->n_notes[layer] = 0;
}

/* ---------------------------------------------------------------- back, and packed */

sac_status sac_unturned_keys(sac_unturned *u, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t position, int64_t n, sac_kv_view *keys) {
    const int64_t d = rows->head_dim;
    const sac_row_lists list = {u->rows.device, u->starts.at.device, 1};
    int32_t *row = u->rows.host, *turn = u->turn.host;
    assert(sac_dtype_row_bytes(rows->dtype, 1) <= u->element_bytes && n <= u->n_ctx);
    *keys = (sac_kv_view){.k = u->keys,
                          .v = u->keys, /* not written */
                          .dtype = rows->dtype,
                          .n_heads = rows->n_heads,
                          .head_dim = rows->head_dim,
                          .n_rows = n,
                          .row_stride = d,
                          .head_stride = u->n_ctx * d};
    u->rotation[a->layer] = a->rotation;
    for (int64_t i = 0; i < n; i++) row[i] = (int32_t)(first + i);
    for (int64_t i = 0; i < n; i++) turn[i] = (int32_t)(position + i);
    SAC_TRY(sac_send(a, u->rows, (size_t)n * sizeof *row));
    SAC_TRY(sac_send(a, u->turn, (size_t)n * sizeof *turn));
    SAC_TRY(sac_starts_set(&u->starts, a, 1, n));
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *keys,
                                                              .src = *rows,
                                                              .lists = &list,
                                                              .turn_back = u->turn.device,
                                                              .rotation = &a->rotation,
                                                              .keys_only = true});
}

sac_status sac_unturned_note(sac_unturned *u, const sac_layer_attention *a, int64_t position, int64_t n,
                             const sac_pack_rows *set, const int32_t *on_host, sac_turned_part *part) {
    const size_t n_turns = (size_t)(set->n * set->n_lists), at = u->n_notes[a->layer];
    const sac_buffer note = sac_buffer_from(u->notes[a->layer], at * sizeof(int32_t));
    int32_t *to = note.host, last = (int32_t)(n - 1);
    to[0] = (int32_t)position + last;
    for (size_t i = 0; i < n_turns; i++) to[1 + i] = last - (on_host ? on_host[i] : (int32_t)i);
    u->n_notes[a->layer] += n_turns + 1;
    *part = (sac_turned_part){note.device, (const int32_t *)note.device + 1, set->n_lists};
    return sac_send(a, note, (n_turns + 1) * sizeof *to);
}

/* ---------------------------------------------------------------- and forth */

/* Where rows from `first` on begin. */
static sac_kv_view from_row(sac_kv_view v, int64_t first) {
    const size_t n_bytes = sac_dtype_row_bytes(v.dtype, first * v.row_stride);
    v.k = (char *)v.k + n_bytes;
    v.v = (char *)v.v + n_bytes;
    return v;
}

static sac_status copy_keys(const sac_layer_attention *a, const sac_kv_view *dst, const sac_kv_view *src,
                            const int32_t *rows, const sac_starts *starts) {
    const sac_row_lists list = {rows, starts->at.device, 1};
    return a->ops->kv_gather(
        a->stream, &(sac_kv_gather_args){.dst = *dst, .src = *src, .lists = &list, .keys_only = true});
}

static sac_status send_order(sac_unturned *u, const sac_layer_attention *a) {
    const int64_t n = rows_at_once(u->n_ctx);
    int32_t *order = u->order.host;
    if (u->has_order) return SAC_OK;
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    SAC_TRY(sac_send(a, u->order, (size_t)n * sizeof *order));
    u->has_order = true;
    return SAC_OK;
}

/* Rows that are few enough to be floats for a while. */
static sac_status turn_piece(sac_unturned *u, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t n) {
    const int64_t d = rows->head_dim, stride = rows_at_once(u->n_ctx) * d;
    int32_t *row = u->rows.host;
    const sac_kv_view piece = {.k = u->piece,
                               .v = u->piece,
                               .dtype = SAC_DTYPE_F32,
                               .n_heads = rows->n_heads,
                               .head_dim = rows->head_dim,
                               .n_rows = n,
                               .row_stride = d,
                               .head_stride = stride};
    sac_kv_view there = from_row(*rows, first), all = *rows;
    there.n_rows = n;
    all.n_rows = first + n;
    for (int64_t i = 0; i < n; i++) row[i] = (int32_t)(first + i);
    SAC_TRY(sac_send(a, u->rows, (size_t)n * sizeof *row));
    SAC_TRY(sac_starts_set(&u->starts, a, 1, n));
    SAC_TRY(copy_keys(a, &piece, &all, u->rows.device, &u->starts));
    for (int head = 0; head < rows->n_heads; head++)
        SAC_TRY(a->ops->rope(a->stream, &(sac_rope_args){.x = sac_mat_f32(u->piece + head * stride, n, d),
                                                         .n_heads = 1,
                                                         .head_dim = rows->head_dim,
                                                         .rotation = u->rotation[a->layer],
                                                         .pos = u->rows.device}));
    return copy_keys(a, &there, &piece, u->order.device, &u->starts);
}

sac_status sac_unturned_turn(sac_unturned *u, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t n) {
    const int64_t most = rows_at_once(u->n_ctx);
    SAC_TRY(send_order(u, a));
    for (int64_t at = 0; at < n; at += most)
        SAC_TRY(turn_piece(u, a, rows, first + at, n - at < most ? n - at : most));
    return SAC_OK;
}
