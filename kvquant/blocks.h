/* blocks.h - packed rows in blocks of two tiers: those that matter in more bits than the rest (ZipVL and
 * ZipCache).
 *
 * A block is what was packed at once, a prompt or the answer's last tokens. Its important rows and its others
 * are two parts of the op's packed rows, each with one range a channel for keys, or one for every k_group of
 * its rows: in a long block rope turns a slow channel through its whole range, in a group it hardly moves.
 * Values are divided by a factor of their channel, sqrt(max |v|) over the block, and have one range a row over
 * all heads. With rope=before keys are packed as they were before rope (unturned.h). A bit a row says which
 * tier it is in, so that rows can be put back in order. Every head may have important rows of its own, as many
 * as the others. Blocks are never packed again. */
#ifndef SAC_KV_BLOCKS_H
#define SAC_KV_BLOCKS_H

#include "kvquant.h"
#include "pack_rows.h"
#include "unturned.h"

/* Fewer rows than this are not worth a block: its channels' ranges and factors take as much. */
#define SAC_KV_BLOCK_MIN 32

typedef struct sac_kv_block {
    int64_t n;     /* rows, of both tiers */
    int part[2];   /* of the important ones and of the others; -1 = none */
    uint8_t *high; /* [n_lists][(n + 7) / 8] bits on the host, or NULL when one tier is empty */
    int n_lists;   /* 1, or a list for each key-value head */
} sac_kv_block;

typedef struct sac_kv_block_layer {
    uint8_t *memory;       /* where ops run: codes, ranges and factors; NULL where they are in planes */
    uint8_t *bits;         /* on the host: of all blocks, which rows are in the first tier */
    size_t used_bytes;     /* of memory */
    size_t n_bits_bytes;   /* of bits */
    size_t n_bytes;        /* of codes, ranges and bits */
    sac_packed_rows *part; /* [2 * max_blocks] */
    sac_turned_part *turned; /* [2 * max_blocks], of keys before rope; else NULL */
    int n_parts;
    sac_kv_block *block; /* [max_blocks] */
    int n_blocks;
    int64_t n_rows; /* stored */
} sac_kv_block_layer;

typedef struct sac_kv_blocks {
    int n_layers, n_kv_heads, head_dim;
    int bits[2];     /* of important rows and of the others; 0 = these are not stored */
    int64_t k_group; /* rows of a part that share a channel's range of keys; 0: all */
    bool before_rope; /* keys are packed as they were before it */
    sac_unturned unturned; /* then */
    int64_t n_ctx, max_blocks;
    size_t memory_bytes; /* of a layer */
    const sac_page_planes *planes; /* that rows are in, or NULL: in memory of each layer */
    int64_t step_rows; /* that steps leave to a block at least */
    sac_kv_block_layer *layer;
    sac_buffer list[2]; /* int32_t [n_kv_heads][n_ctx] rows of both tiers of the block at hand */
} sac_kv_blocks;

/* Whether k_group is one that the ops take: 0 or a multiple of 16. */
bool sac_kv_blocks_takes_group(double k_group);
/* A setting of both formats. Larger groups than these would lose the fast ops. */
#define SAC_KV_BLOCKS_GROUP                                                                                  \
    {                                                                                                        \
        "k_group", 0, 0, 256,                                                                                \
            "rows that share a range of a channel's keys, a multiple of 16; 0: all of a block's tier",       \
            SAC_WHOLE                                                                                        \
    }
/* And another. */
#define SAC_KV_BLOCKS_ROPE                                                                                   \
    {                                                                                                        \
        "rope", 0, 0, 1, "keys are packed as they are after rope, or before it and turned when they are read", \
            sac_kv_blocks_ropes                                                                              \
    }
extern const char *const sac_kv_blocks_ropes[];
void sac_kv_blocks_take(sac_kv_blocks *b, const sac_attention_shape *shape, int high, int low,
                        int64_t k_group, bool before_rope, const sac_memory *memory);
void sac_kv_blocks_begin(sac_kv_blocks *b);
void sac_kv_blocks_clear(sac_kv_blocks *b, int layer); /* one layer */

/* Of both formats, whose states begin with their blocks. */
extern const sac_kv_in_planes sac_kv_blocks_in_planes;

/* Packs rows [first, first + n_old + n_new) of a view as a block of layer a->layer. The old ones are all
 * important, of the new ones those that `important` says (counted from the first new one), or all when it
 * says nothing. */
sac_status sac_kv_blocks_add(sac_kv_blocks *b, const sac_layer_attention *a, const sac_kv_view *rows,
                             int64_t first, int64_t n_old, int64_t n_new, const sac_important *important);

/* All rows of layer a->layer back in order, to rows 0 .. of the view; their number to *n. */
sac_status sac_kv_blocks_unpack(sac_kv_blocks *b, const sac_layer_attention *a, const sac_kv_view *rows,
                                int64_t *n);

/* The important rows of a layer as they lie after unpacking: [n_kv_heads or 1] lists of *n
 * rows in list[0]. */
const int32_t *sac_kv_blocks_important(sac_kv_blocks *b, int layer, int64_t *n, int *n_lists);

#endif
