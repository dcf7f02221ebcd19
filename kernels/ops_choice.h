/* ops_choice.h - arguments of the ops that score keys, choose rows, gather and move them (see ops.h). */
#ifndef SAC_OPS_CHOICE_H
#define SAC_OPS_CHOICE_H

#include "ops_layer.h"

/* Whether an op with `skip` has nothing to do, for backends on the host. */
static inline bool sac_is_skipped(const int32_t *skip) {
    return skip && *skip != 0;
}

/* scores[h][i] = scale * (q_h . k_row), row = lists' i-th of head h, or first + i for i < n without lists.
 * With `back` keys are first turned back by their row number (which must be their position), as if stored
 * before rope but for the attention factor, which they keep; a device may round them to the view's type once
 * more. What lies beyond a list is not written. With n_queries above 1 (not with lists) as many queries go at
 * once, q [n_queries][n_heads * head_dim], scores [n_queries][n_heads][stride]: query i has the first n + i *
 * n_more rows, and its scores from there on, up to where the last query's end, become -infinity. With lse
 * (not with lists) the logarithm of the sum of each row's exponentials is found too. */
typedef struct sac_key_scores_args {
    float *scores;  /* [n_heads][stride] */
    int64_t stride; /* at least the longest list */
    const float *q; /* [n_heads * head_dim] */
    sac_kv_view kv; /* v is not read */
    int n_heads;
    const sac_row_lists *lists; /* or NULL */
    int64_t first, n;
    float scale;
    const sac_rotation *back; /* or NULL */
    int n_queries;            /* 0 as 1 */
    int64_t n_more;
    float *lse;          /* [n_queries][n_heads] or NULL */
    const int32_t *skip; /* or NULL */
} sac_key_scores_args;

/* How much attention keys get: sums[s][j] = sum over the probes r and the query heads of set s of
 * softmax_j(scale q_r k^T), with key j visible to probe r when j <= first + r (and within the window). Set s
 * of n_sums is all heads (1), those of key-value head s, or query head s. Two passes over the keys; the
 * matrix is never kept. With n_diagonals > 0, diagonals[s][c] gets the same mass summed by distance c = first
 * + r - j (only distances below n_diagonals). A probe that sees no key adds nothing. Any number of probes:
 * those that fit the scratch go together (about 1500 rows of heads of 128 channels, a row = a probe and a
 * query head), and share the work of unpacking keys. */
typedef struct sac_attention_sums_args {
    float *sums;           /* [n_sums][stride] */
    int64_t stride;        /* at least n_kv */
    int n_sums;            /* 1, kv.n_heads or n_heads */
    sac_mat q;             /* [n][n_heads * head_dim] */
    const int32_t *probes; /* [n_probes] ascending rows of q; NULL = all, n_probes = q.rows */
    int64_t n_probes;
    int64_t first;  /* row number of q's row 0 */
    sac_kv_view kv; /* v is not read */
    int64_t n_kv;
    int n_heads;
    float scale;
    int64_t window;   /* 0 = none */
    float *diagonals; /* [n_sums][n_diagonals] or NULL */
    int64_t n_diagonals;
} sac_attention_sums_args;

/* Rows of src to rows 0.. of dst: dst row i of key-value head h = src row of h's list (which need not ascend
 * here: several lists may follow each other in one), keys turned back by
 * turn_back[i] >= 0 positions where that is given (laid out like the lists' rows). dst may have another dtype
 * but not src's memory. */
typedef struct sac_kv_gather_args {
    sac_kv_view dst, src;
    const sac_row_lists *lists; /* n_lists 1 or kv heads, all of the same length when dst is read as dense */
    const int32_t *turn_back;   /* or NULL */
    const sac_rotation *rotation;
    bool keys_only;
} sac_kv_gather_args;

/* The k best of each row of scores, as ascending indices: order by (score descending, index ascending), so
 * ties are settled. NaN counts as -infinity. */
typedef struct sac_top_k_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;   /* n scores a row */
    int n_rows;
    int64_t k;           /* fewer when n is smaller */
    int32_t *indices;    /* [n_rows][min(k, n)] */
    const int32_t *skip; /* or NULL */
} sac_top_k_args;

/* The smallest set that weighs at least p of the whole, whole classes of equal weights at a time (Twilight,
 * arXiv:2502.02770, Algorithm 1, with an exact search over the bits of the threshold): row r keeps weights >=
 * threshold[r]. Weights are not negative (NaN weighs nothing and is not kept); n_kept[r] is how many pass.
 * The threshold is one of the weights: p >= 1 keeps all (threshold 0), p <= 0 the largest, a row without
 * weights has threshold 0.
 * With `scores` a number s (not +infinity) stands for the weight exp(s), and thresholds are such numbers too.
 * NaN is -infinity, which weighs nothing and is never kept: a row of nothing else has threshold +infinity. */
typedef struct sac_top_p_args {
    const float *weights;  /* [n_rows][stride] */
    const int64_t *counts; /* [n_rows] weights in a row, or NULL = n each */
    int64_t stride, n;
    int n_rows;
    double p;
    float *threshold; /* [n_rows] */
    int64_t *n_kept;  /* [n_rows] */
    bool scores;
} sac_top_p_args;

/* Lists of what passes: list l has, ascending, every place j < n where any of its n_rows / n_lists rows of
 * numbers has values[r][j] >= threshold[r] (NaN passes nothing), or the row number that stands there in the
 * row's own list of `from`; with `last` place n - 1 always. sums[0] grows by the numbers of the lists,
 * sums[1] by the rows' own before they were joined. */
typedef struct sac_kept_rows_args {
    int32_t *rows;       /* room for n_lists * n; list l begins at start[l] */
    int64_t *start;      /* [n_lists + 1] */
    const float *values; /* [n_rows][stride] */
    int64_t stride, n;
    int n_rows, n_lists;    /* n_lists divides n_rows */
    const float *threshold; /* [n_rows] */
    const int32_t *from;    /* [n_from][n] row numbers, ascending, or NULL: place j is row j */
    int n_from;             /* divides n_lists */
    bool last;
    int64_t *sums; /* [2] or NULL */
} sac_kept_rows_args;

/* lse[r] = ln sum_j exp(scores[r][j]) over a row's first counts[r] (or n) scores, -infinity when there are
 * none above -infinity; and, where asked for, weights[r][j] = exp(scores[r][j] - lse[r]), 0 in a row without
 * lse. */
typedef struct sac_softmax_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;
    const int64_t *counts; /* [n_rows] or NULL */
    int n_rows;
    float *lse;          /* [n_rows] */
    float *weights;      /* [n_rows][stride] or NULL; may be scores */
    const int32_t *skip; /* or NULL */
} sac_softmax_args;

/* votes[j] = ln sum_r exp(scores[r][j] - lse[r]): the sum over rows of their softmaxes, as a logarithm, so
 * that columns far below every row's best keep their order where the sum itself would underflow
 * (TokenSelect's soft vote, arXiv:2411.02886, eq. 7). Rows whose lse is -infinity have no vote. With n_groups
 * above 1 as many votes are held, each of n_rows rows of its own: scores [n_groups][n_rows][stride], lse
 * [n_groups][n_rows], votes [n_groups][stride]. */
typedef struct sac_soft_vote_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;
    int n_rows;
    const float *lse;    /* [n_rows] */
    float *votes;        /* [n] */
    int n_groups;        /* 0 as 1 */
    const int32_t *skip; /* or NULL */
} sac_soft_vote_args;

/* Whether a step reuses a choice made before (TokenSelect's Selection Cache, arXiv:2411.02886, Algorithm 1):
 * *skip becomes 1, for the ops that would make the choice anew, when something is cached, hits[0] is below
 * max_hits (0: any number) and the cosine between q and the query that chose is theta or more: from -1 down
 * always, above 1 never. Then hits[0], since the choice, and hits[1], in all, grow by 1. Otherwise *skip
 * becomes 0, hits[0] too, and q is copied to cached. */
typedef struct sac_choice_reuse_args {
    const float *q; /* [n] */
    float *cached;  /* [n] */
    int64_t n;
    double theta;
    bool empty; /* nothing is cached */
    int64_t max_hits;
    int64_t *hits; /* [2] */
    int32_t *skip; /* [1] */
} sac_choice_reuse_args;

/* y[g][c] = scale * sum of x[row][c] over the rows of group g: x's rows are cut into n_groups equal parts. */
typedef struct sac_mean_rows_args {
    float *y; /* [n_groups][x.cols] */
    sac_mat x;
    float scale;
    int64_t n_groups; /* 0 as 1 */
} sac_mean_rows_args;

/* The rows that a selecting method reads: 0 .. init - 1, then init + chosen[i], then n_rows - local .. n_rows
 * - 1; and, where asked for, how far each lies from its place: turn_back[i] = rows[i] - i. With n_lists above
 * 1 as many lists lie one after the other, list l made from chosen [n_lists][n_chosen] and n_rows + l *
 * n_more rows. With `page` above 1 a chosen number stands for so many rows: init + chosen[i] * page and those
 * after it. */
typedef struct sac_choice_rows_args {
    int32_t *rows, *turn_back; /* [init + n_chosen * page + local]; turn_back may be NULL */
    const int32_t *chosen;     /* [n_chosen] */
    int64_t n_chosen, init, local, n_rows;
    int64_t n_lists, n_more; /* n_lists 0 as 1 */
    int64_t page;            /* 0 as 1 */
    int64_t *start;          /* [n_lists + 1] where the lists begin, and the end; or NULL */
} sac_choice_rows_args;

/* The rows of one list of choice_rows, read at the places they have in it, where a device gains by doing it
 * in one go: they go to rows 0 .. of dst, keys turned back by how far they lie from their place, and q, whose
 * own row is the last of them, is turned back as that one is. What is left is dense attention of q over dst.
 * With `kept` dst has the rows before the last `local` from a step before; these are not written, and `skip`
 * means the same, found there. n_heads 0: no query, rows only. dst is not src's memory. */
typedef struct sac_choice_step_args {
    sac_mat q; /* [1][n_heads * head_dim], looked at with heads only */
    sac_kv_view dst, src;
    const int32_t *chosen; /* [n_chosen] */
    int64_t n_chosen, init, local, n_rows;
    sac_rotation rotation;
    int n_heads;
    bool kept;
    const int32_t *skip; /* or NULL */
} sac_choice_step_args;

/* A step over what choice_step left and the sequence's last rows where they lie, where a device gains by not
 * moving them: q = softmax(scale q k^T) v over rows 0 .. n_far - 1 of `far`, met by q turned back by n_rows -
 * n_far - local positions, and rows n_rows - local .. n_rows - 1 of src, met by q as it is: rope only knows
 * distances, and from q to the last rows they are those of the sequence. */
typedef struct sac_choice_attend_args {
    sac_mat q; /* [1][n_heads * head_dim], replaced by the output */
    sac_kv_view far, src;
    int64_t n_far, local, n_rows;
    sac_rotation rotation;
    int n_heads;
    float scale;
} sac_choice_attend_args;

/* Rows of keys and values that stay, side by side and in place: row rows[i] of a head becomes its row i, for
 * the ascending rows of its list. Rows from n on stay as they are. */
typedef struct sac_keep_rows_args {
    sac_kv_view kv;
    const int32_t *rows; /* [n_lists][n] */
    int64_t n;
    int n_lists; /* 1 or kv.n_heads */
} sac_keep_rows_args;

/* A step of a cache that holds the rows which were looked at most (H2O, arXiv:2306.14048). The view's last
 * row is new: it gets `age` and the score 0. Then every row's score grows by its weight; and, with `evict`,
 * each head loses, of its rows of an age below `recent_from`, the one with the smallest score, of equals the
 * one of the greatest age: the last row's keys, values, score and age take its place. There is such a row,
 * ages of a head differ, and weights are numbers. */
typedef struct sac_evict_row_args {
    sac_kv_view kv;
    float *score; /* [kv.n_heads][stride] by row */
    int32_t *ages;
    int64_t stride;       /* at least kv.n_rows */
    const float *weights; /* [kv.n_heads][weights_stride] of the step */
    int64_t weights_stride;
    int32_t age, recent_from;
    bool evict;
} sac_evict_row_args;

/* Row lists of blocks of queries (attention's list_block) out of a pattern of columns and strips (MInference,
 * arXiv:2407.02490). Block b's queries stand at rows begin = first + b * block to end = min(begin + block,
 * n_rows); its list l has, ascending and each once, the rows below `end`
 *   of a column: `width` rows from width * columns[l][..] on (a negative column is none),
 *   of a strip: [begin - c, begin + block - c) for c = diagonals[l][..],
 *   with `own`, of the columns that the block itself touches.
 * With by_block every block has columns of its own, [n_blocks][n_lists][n_columns]. List number b * n_lists +
 * l is rows[start[..]] on, start[0] = 0, and pairs[..] is how many pairs of a query and a row no later than
 * it there are in it. rows has room for all. A device has room for 800,000 rows or more. */
typedef struct sac_pattern_rows_args {
    int32_t *rows;
    int64_t *start, *pairs; /* pairs [n_blocks * n_lists] */
    const int32_t *columns, *diagonals;
    int64_t n_columns, n_diagonals, width;
    int64_t first, block, n_blocks, n_rows;
    int n_lists;
    bool by_block, own;
} sac_pattern_rows_args;

/* The largest and the smallest value of each channel over the keys of a page, rows p * page .. (p + 1) * page
 * - 1, for pages [first, first + n): row p of bounds.k, of twice the channels, has the largest ones, then the
 * smallest, rounded to its type. */
typedef struct sac_page_bounds_args {
    sac_kv_view bounds; /* v is not written */
    sac_kv_view kv;     /* v is not read */
    int64_t page, first, n;
} sac_page_bounds_args;

/* What no key of a page can score above (Quest, arXiv:2406.10774), for the first n pages: the sum of q_c
 * max_c where q_c is positive and of q_c min_c where it is not; scores[s] is the sum of this over the query
 * heads of set s, those of a key-value head or each alone. */
typedef struct sac_page_scores_args {
    float *scores;  /* [n_sums][stride] */
    int64_t stride; /* at least n */
    int n_sums;     /* bounds.n_heads or n_heads */
    sac_mat q;      /* [1][n_heads * head_dim] */
    sac_kv_view bounds;
    int n_heads;
    int64_t n;
} sac_page_scores_args;

/* How much each channel of a key-value head weighs in q . k: sums[h][c] = sum of |q_c k_c| over the tokens of
 * q, whose keys are the rows from `first` on, and the query heads that read head h. */
typedef struct sac_channel_sums_args {
    float *sums;    /* [kv.n_heads][head_dim] */
    sac_mat q;      /* [n][n_heads * head_dim] */
    sac_kv_view kv; /* v is not read */
    int64_t first;
    int n_heads;
} sac_channel_sums_args;

/* Some channels of rows [first, first + n): channel c of head h of dst.k is channel channels[s][c] of head h
 * of src.k, s the set that the head belongs to. Values are left alone. */
typedef struct sac_pick_channels_args {
    sac_kv_view dst, src;    /* of as many heads */
    const int32_t *channels; /* [n_sets][dst.head_dim] */
    int n_sets;              /* divides the heads */
    int64_t first, n;
} sac_pick_channels_args;

#endif
