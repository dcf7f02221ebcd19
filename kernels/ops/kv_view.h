#ifndef SAC_KV_VIEW_H
#define SAC_KV_VIEW_H

#include "device.h"

/* Keys and values of one layer where they lie: element (row, head, channel) of k is k[row * row_stride + head *
 * head_stride + channel].
 *
 * Or in pages, where `pages` is given: row i is row i % page_rows of page pages[i / page_rows], and page p begins at
 * element p * page_stride. So rows that follow one another may lie anywhere, and sequences may share pages. The last
 * page may be full in part; which pages lie where, and what is in rows beyond the last, does not matter. Views in
 * pages are for attention and attention_many only: no other op takes them, and a device may have no kernel for
 * them. */
typedef struct sac_kv_view {
    void *k, *v;
    sac_dtype dtype; /* F32, F16 or BF16 */
    int n_heads, head_dim;
    int64_t n_rows;
    int64_t row_stride, head_stride; /* elements, of k and of v */
    const int32_t *pages;            /* [page of the last row + 1], where ops read; NULL: not in pages */
    int64_t page_rows, page_stride;
} sac_kv_view;

/* Where row i of head 0 begins, in elements. */
static inline int64_t sac_kv_row_at(const sac_kv_view *kv, int64_t i) {
    if (!kv->pages) return i * kv->row_stride;
    return kv->pages[i / kv->page_rows] * kv->page_stride + i % kv->page_rows * kv->row_stride;
}

#endif
