/* unturned.h - keys packed as they were before rope, and turned when they are read.
 *
 * Sources: KVQuant (Hooper et al., arXiv:2401.18079, section 3.2) and the observation that KIVI (arXiv:2402.02750) builds
 * on: channels of keys have outliers of their own before rope, which rope then moves about within pairs of channels. A
 * range a channel is narrower before it, however long the block.
 *
 * Keys are stored rotated (policy.h), so those of a block are turned back by their positions before they are packed.
 * A step does not turn them forward again, which no op does with a list of positions; it turns both sides back from the
 * block's last position M instead: (R(P) q) . (R(p) k) = (R(-M) R(P) q) . (R(-(M - p)) k), rotations of one plane being
 * commutative. So each part of a block keeps M - p of its rows, which never changes. */
#ifndef SAC_KV_UNTURNED_H
#define SAC_KV_UNTURNED_H

#include "pack_list.h"
#include "policy.h"
#include "starts.h"

/* How a part's keys are turned when they are read, where ops read it. */
typedef struct sac_turned_part {
    const int32_t *query; /* [1] M, which the query is turned back by */
    const int32_t *keys;  /* [n_lists][n] what the keys are turned back by then */
    int n_lists;
} sac_turned_part;

typedef struct sac_unturned {
    int64_t n_ctx;
    size_t element_bytes;
    void *keys;             /* [n_kv_heads][n_ctx][head_dim] of the block at hand, in the type of its rows */
    float *piece;           /* [n_kv_heads][rows at once][head_dim] */
    sac_buffer rows, turn;  /* int32_t [n_ctx]: rows of the block, and their positions */
    sac_buffer order;       /* int32_t [rows at once] 0, 1 .. */
    bool has_order;         /* the device has it */
    sac_starts starts;      /* of these lists */
    sac_buffer *notes;      /* [n_layers] int32_t: M and M - p of each part */
    size_t *n_notes;        /* [n_layers] numbers written */
    sac_rotation *rotation; /* [n_layers] by which the keys of each were turned */
} sac_unturned;

/* For blocks of both tiers, max_parts parts a layer. */
void sac_unturned_take(sac_unturned *u, const sac_attention_shape *shape, int64_t max_parts,
                       const sac_memory *memory);

/* Whether a model's keys can be turned back and forth: why not, as a refusal of `format`. */
sac_status sac_unturned_check(const char *format, const sac_attention_shape *shape, sac_error *err);

void sac_unturned_clear(sac_unturned *u, int layer);

/* Rows [first, first + n) of a view, which are the sequence's tokens from `position` on, turned back, as rows 0 .. of
 * *keys; its values are not to be read. */
sac_status sac_unturned_keys(sac_unturned *u, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t position, int64_t n, sac_kv_view *keys);

/* A part of the block of n rows from `position` on: its rows `set`, of which `on_host` is the host's copy, counted from
 * the block's first (NULL: all). */
sac_status sac_unturned_note(sac_unturned *u, const sac_layer_attention *a, int64_t position, int64_t n,
                             const sac_pack_rows *set, const int32_t *on_host, sac_turned_part *part);

/* Keys of rows [first, first + n) of a view, unpacked, to their positions, which are these numbers. */
sac_status sac_unturned_turn(sac_unturned *u, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t n);

#endif
