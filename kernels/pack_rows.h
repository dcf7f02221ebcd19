/* pack_rows.h - rows of a plain view to codes, with the ranges that a format asks for. */
#ifndef SAC_PACK_ROWS_H
#define SAC_PACK_ROWS_H

#include "packed_rows.h"

#define SAC_KV_MAX_D 1024

static inline int64_t sac_pack_row(const sac_pack_rows *r, int head, int64_t i) {
    if (!r->rows) return r->first + i;
    return r->first + r->rows[(r->n_lists > 1 ? head * r->n : 0) + i];
}

/* One row of one head of a view's k or v, and back, rounded to its type. */
void sac_kv_load(const sac_kv_view *kv, const void *k_or_v, int head, int64_t row, float *x);
void sac_kv_save(const sac_kv_view *kv, void *k_or_v, int head, int64_t row, const float *x);

/* Row i of the selection becomes row to + i of p, by p's own kinds of ranges. Keys by channel: `to` and what
 * is stored begin on a multiple of k_group. v_channel, where p has one, is read. */
void sac_pack_keys(const sac_packed_rows *p, int64_t to, const sac_kv_view *kv, const sac_pack_rows *rows);
void sac_pack_values(const sac_packed_rows *p, int64_t to, const sac_kv_view *kv, const sac_pack_rows *rows);

/* c = sqrt(max over the rows of |v|) of every channel, 1 where that is 0: [n_heads * head_dim] halves. What
 * is stored already in c (of other rows) is kept where larger when `more` is set. */
void sac_pack_channels(uint16_t *c, const sac_kv_view *kv, const sac_pack_rows *rows, bool more);

/* Bytes of a part's codes and of its ranges, on lines of 16 bytes, for `capacity` rows; without v_channel's. */
size_t sac_pack_bytes(const sac_packed_rows *p);

/* Points p's codes and ranges (n_heads, head_dim, bits, capacity, k_group, v_group set) into memory of
 * sac_pack_bytes, at a multiple of 4 bytes (of 16 where a device is to copy lines). */
void sac_pack_place(sac_packed_rows *p, void *memory);

#endif
