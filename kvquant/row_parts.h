/* row_parts.h - packed rows of all layers, all of the same bits, in their order. In memory of its own a layer's rows are one part. In
 * planes they are parts of equal size, one behind another, so that a layer has memory for the rows that are there and for less than a
 * part more. The bits of what is read are the same: parts end where attention over one part would end a stretch of rows (on the CPU),
 * and no range of numbers spans two. */
#ifndef SAC_ROW_PARTS_H
#define SAC_ROW_PARTS_H

#include "kvquant.h"

typedef struct sac_row_parts {
    const sac_page_planes *planes; /* that rows are in, or NULL */
    sac_packed_rows like;          /* of a part, without memory; its capacity is that of all but the last */
    int64_t capacity;              /* rows of a layer */
    int n_layers;
    int64_t most_parts;
    size_t part_bytes, all_bytes; /* from a part to the next; of all of a layer */
    sac_packed_rows **part; /* [n_layers][most_parts]; .n as far as rows are counted */
    int64_t *n;             /* [n_layers] rows that are counted: attention reads them */
} sac_row_parts;

typedef enum sac_row_half { SAC_ROW_KEYS = 1, SAC_ROW_VALUES = 2, SAC_ROW_BOTH = 3 } sac_row_half;

/* `like` says heads, bits and ranges, its capacity how many rows a layer may have: a multiple of SAC_PACKED_TILE and of k_group, which is 256 at
 * most. Planes are set before. */
void sac_row_parts_take(sac_row_parts *r, const sac_attention_shape *shape, const sac_packed_rows *like, const sac_memory *memory);
void sac_row_parts_begin(sac_row_parts *r); /* nothing is counted */

/* Rows [first, first + n) of a->kv as rows `to` on of layer a->layer, their keys, values or both; keys with ranges of channels from a multiple
 * of k_group on. They are not counted yet. INTERNAL: there is no memory for them, which whoever makes rows asks for. */
sac_status sac_row_parts_pack(sac_row_parts *r, const sac_layer_attention *a, sac_row_half half, int64_t first, int64_t to, int64_t n);
/* Packed rows [from, from + n) back to rows `first` on of a->kv. */
sac_status sac_row_parts_unpack(const sac_row_parts *r, const sac_layer_attention *a, sac_row_half half, int64_t from, int64_t first, int64_t n);

/* The first n rows are counted, no fewer than before. */
void sac_row_parts_count(sac_row_parts *r, int layer, int64_t n);
int sac_row_parts_n_parts(const sac_row_parts *r, int layer); /* that hold them */

/* Bytes of a plane that a layer's first n rows take, whole parts. */
size_t sac_row_parts_bytes(const sac_row_parts *r, int64_t n);

/* Of formats whose states begin with a sac_row_parts (sac_kv_in_planes). */
void sac_row_parts_use(void *state, const sac_page_planes *planes);
size_t sac_row_parts_most(const void *state);

#endif
