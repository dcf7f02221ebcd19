#ifndef SAC_OP_ATTENTION_H
#define SAC_OP_ATTENTION_H

#include "kv_view.h"
#include "row_lists.h"

#include <stdbool.h>

/* Rows [first, first + n) of a sequence. */
typedef struct sac_row_span {
    int64_t first, n;
} sac_row_span;

/* o = softmax(scale q k^T) v, streamed over the keys with a running maximum (Dao et al., arXiv:2205.14135):
 * no n x n matrix. Query head h reads key-value head h / (n_heads / kv.n_heads). n_batch independent problems
 * lie batch_rows apart in q and o and, unless kv_batch_rows says otherwise, in the rows of kv (a tower's
 * pictures; chunks of a prompt with keys of their own); a decoder's plain attention has n_batch 1. Problems of
 * unequal lengths are segments: rows [segment_start[i], segment_start[i + 1]) of q, o and kv attend to one
 * another and to no others, all of them to all, and n_q, n_kv, first, n_batch and both batch_rows are not read
 * (a tower's pictures of several sizes, its windows). Which
 * keys query i (of a batch's n_q) sees: all n_kv rows; when causal only row j <= first + i; when window > 0
 * only j > first + i - window. Where causal, a query whose row first + i lies in one of `spans` sees, of the rows behind
 * its own, those of that span too, n_kv permitting (the rows of a picture, which see one another: Gemma 3,
 * arXiv:2503.19786, sec. 2). A softcap c above 0 makes a score s into c tanh(s / c) before the softmax (Gemma 2,
 * arXiv:2408.00118, sec. 2). With `lists` a head's keys are the
 * rows of its list (n_kv bounds nothing), and the causal test uses the row number. lse[i][h], where asked for, is the logarithm of the softmax's
 * denominator, ln sum exp(scale q k), and -infinity for a query that sees no key: two results over disjoint
 * keys can be joined by it. A device may read rows of the view that no query sees and multiply them by 0:
 * they must hold numbers (zeroed once is enough). kv may be in pages where there is one problem; what lies in a page
 * beyond the view's rows need not be numbers then. */
typedef struct sac_attention_args {
    sac_mat o, q; /* [n_batch * batch_rows or n_q][n_heads * head_dim]; o may be q */
    sac_kv_view kv;
    const sac_row_lists *lists; /* NULL = rows 0..n_kv-1; not with batches */
    float *lse;                 /* [n_q][n_heads] or NULL; not with batches */
    int64_t n_q, n_kv,
        first; /* with lists a device takes n_kv as about the longest list, to share out work */
    int64_t n_batch, batch_rows; /* 1, 0 for one problem */
    bool uneven; /* with lists: only a device knows how long they are, and it shares out work by that; n_kv is
                    what the longest may have */
    int n_heads;
    float scale;
    bool causal;
    int64_t window;        /* 0 = none */
    int64_t kv_batch_rows; /* 0 = batch_rows */
    const sac_row_span *spans; /* [n_spans] ascending and apart, on the host; not with lists, segments or several batches */
    int64_t n_spans;
    float softcap; /* 0 = none */
    bool steady;    /* on the CPU a query's bits do not depend on the queries beside it, at some cost for few of them;
                       not with segments and list_block */
    const int32_t
        *segment_start; /* [n_segments + 1] ascending, on the host also for a GPU; NULL: no segments.
                                     Not causal, and without window, lists, lse, spans and softcap */
    int64_t n_segments;
    int64_t list_block; /* with lists: queries that share n_lists of them, lists->start has n_lists for every
                           block of so many, the last may be shorter; 0 = all queries do */
} sac_attention_args;

/* First row behind the span that the row lies in; 0 in none. */
static inline int64_t sac_span_end(const sac_attention_args *a, int64_t row) {
    int64_t low = 0, high = a->n_spans; /* of those that begin at the row or before it, the last */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (a->spans[middle].first > row)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == 0) return 0;
    const sac_row_span *s = &a->spans[low - 1];
    return row < s->first + s->n ? s->first + s->n : 0;
}

#endif
