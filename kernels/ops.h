/* ops.h - the op table: every computation on tensors, one args struct an op, one table a backend.
 *
 * kernels/ref holds the contract in plain C: double accumulation, asserts for preconditions, written to be
 * read. kernels/cpu fills in what it does better for the processor at hand, weakest instruction set first.
 * tests/checkkernels runs every variant against the reference. Ops never allocate: scratch comes with the
 * stream. Unless an op says so, outputs may not alias inputs. Activations are sac_mat (F32 on the CPU; F32,
 * F16 or BF16 on a CUDA device), weights sac_tensor in the type they are stored in, norms and biases f32
 * vectors.
 *
 * On a device every pointer to numbers points to its memory, row lists and their starts included; the structs
 * themselves are on the host. An op that has no kernel for its arguments' types answers UNSUPPORTED. */
#ifndef SAC_OPS_H
#define SAC_OPS_H

#include "device.h"

#include <stdbool.h>

typedef enum sac_activation {
    SAC_ACT_NONE,
    SAC_ACT_GELU,       /* x * Phi(x), by erf */
    SAC_ACT_GELU_TANH,  /* tanh approximation */
    SAC_ACT_QUICK_GELU, /* x * sigmoid(1.702 x): CLIP */
    SAC_ACT_SILU,       /* x * sigmoid(x) */
} sac_activation;

/* y = act(x w^T + bias), or y += act(x w^T + bias) when accumulate is set (the residual of a block).
 * Any dtype of w (blocks run along k). Variants may round x on the way in to the precision of w's own format:
 * q8_0 blocks of 32 with f16 scales for 8- and 4-bit weights, as llama.cpp does; for F32, F16 and BF16
 * weights x keeps f32 precision unless `fast` is set, which allows bf16 products with f32 sums. */
typedef struct sac_linear_args {
    sac_mat y;         /* [m][n] */
    sac_mat x;         /* [m][k] */
    sac_tensor w;      /* [n][k] */
    const float *bias; /* [n] or NULL */
    sac_activation act;
    bool accumulate;
    bool fast;
    bool
        steady; /* on the CPU a row's bits are those that it has alone, at some cost in speed for many rows */
} sac_linear_args;

/* y[i] = table[ids[i]], dequantised. */
typedef struct sac_embed_args {
    sac_mat y;          /* [n][hidden] */
    sac_tensor table;   /* [vocab][hidden] */
    const int32_t *ids; /* [n], each in [0, vocab) */
} sac_embed_args;

/* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
typedef struct sac_rmsnorm_args {
    sac_mat y, x;   /* [rows][n] */
    const float *w; /* [n] */
    float eps;
} sac_rmsnorm_args;

/* y = (x - mean) / sqrt(var + eps) * w + b; y may be x. */
typedef struct sac_layernorm_args {
    sac_mat y, x;
    const float *w, *b;
    float eps;
} sac_layernorm_args;

/* Rotary position embedding in place on every head's first rot_dim channels (Su et al., arXiv:2104.09864).
 * Pairs are (i, i + rot_dim/2), Hugging Face's layout, or (2i, 2i + 1) when interleaved (GGUF's for the llama
 * family). Turning back takes pos[row] positions away again: R(-p) x, without the table's attention factor.
 */
typedef struct sac_rotation {
    const float *cos_sin; /* [positions][rot_dim/2][2], cos and sin times `factor` */
    int rot_dim;
    bool interleaved;
    float factor; /* yarn's attention factor, else 1 */
} sac_rotation;

typedef struct sac_rope_args {
    sac_mat x; /* [rows][n_heads * head_dim] */
    int n_heads, head_dim;
    sac_rotation rotation;
    const int32_t *pos; /* [rows], rows of cos_sin */
    bool back;
} sac_rope_args;

/* y = silu(gate) * up; y may be gate or up. */
typedef struct sac_swiglu_args {
    sac_mat y, gate, up;
} sac_swiglu_args;

/* Keys and values of one layer where they lie: element (row, head, channel) of k is k[row * k_row + head *
 * k_head + channel]. */
typedef struct sac_kv_view {
    void *k, *v;
    sac_dtype dtype; /* F32, F16 or BF16 */
    int n_heads, head_dim;
    int64_t n_rows;
    int64_t row_stride, head_stride; /* elements, of k and of v */
} sac_kv_view;

/* Writes k and v [n][n_heads * head_dim] to rows [first, first + n) of the view, rounded to its dtype. */
typedef struct sac_kv_store_args {
    sac_kv_view kv;
    sac_mat k, v;
    int64_t first;
} sac_kv_store_args;

/* Row numbers of keys and values, each list ascending: one list for all heads, one for each key-value head or
 * one for each query head. */
typedef struct sac_row_lists {
    const int32_t *rows;  /* the lists, one after the other */
    const int64_t *start; /* [n_lists + 1]: list i is rows[start[i]] .. rows[start[i + 1] - 1] */
    int n_lists;          /* 1, kv.n_heads or n_heads */
} sac_row_lists;

/* o = softmax(scale q k^T) v, streamed over the keys with a running maximum (Dao et al., arXiv:2205.14135):
 * no n x n matrix. Query head h reads key-value head h / (n_heads / kv.n_heads). n_batch independent problems
 * lie batch_rows apart in q and o and, unless kv_batch_rows says otherwise, in the rows of kv (a tower's
 * pictures; chunks of a prompt with keys of their own); a decoder's plain attention has n_batch 1. Which
 * keys query i (of a batch's n_q) sees: all n_kv rows; when causal only row j <= first + i; when window > 0
 * only j > first + i - window. With `lists` a head's keys are the rows of its list (n_kv is not read), and
 * the causal test uses the row number. lse[i][h], where asked for, is the logarithm of the softmax's
 * denominator, ln sum exp(scale q k), and -infinity for a query that sees no key: two results over disjoint
 * keys can be joined by it. A device may read rows of the view that no query sees and multiply them by 0:
 * they must hold numbers (zeroed once is enough). */
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
    int64_t list_block; /* with lists: queries that share n_lists of them, lists->start has n_lists for every
                           block of so many, the last may be shorter; 0 = all queries do */
} sac_attention_args;

/* scores[h][i] = scale * (q_h . k_row), row = lists' i-th of head h, or first + i for i < n without lists.
 * With `back` keys are first turned back by their row number (which must be their position), as if stored
 * before rope but for the attention factor, which they keep; a device may round them to the view's type once
 * more. What lies beyond a list is not written. With n_queries above 1 (not with lists) as many queries go at
 * once, q [n_queries][n_heads * head_dim], scores [n_queries][n_heads][stride]: query i has the first n + i *
 * n_more rows, and its scores from there on, up to where the last query's end, become -infinity. */
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
    int64_t k;        /* fewer when n is smaller */
    int32_t *indices; /* [n_rows][min(k, n)] */
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
    float *lse;     /* [n_rows] */
    float *weights; /* [n_rows][stride] or NULL; may be scores */
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
    const float *lse; /* [n_rows] */
    float *votes;     /* [n] */
    int n_groups;     /* 0 as 1 */
} sac_soft_vote_args;

/* Rows of keys and values as codes of 2, 4 or 8 bits, x = code * scale + min (packed_rows.h has the layout).
 * Parameters are IEEE halves. Keys: one range a channel over every k_group rows (a multiple of 16, or of
 * capacity or more), k_scale [n_heads][groups][head_dim]; or, k_group 0, one range a row and head, [n_heads]
 * [capacity]. Values: one range a row for every v_group channels (all heads' channels, whole heads, or a
 * multiple of 16 within a head, whose last group may be shorter), v_scale [groups][capacity]; with v_channel
 * [n_heads * head_dim] they are then multiplied by it. */
typedef struct sac_packed_rows {
    int64_t n, capacity; /* rows stored; rows that the layout has room for */
    int n_heads, head_dim, bits;
    uint32_t *k, *v; /* v may be NULL where only scores are wanted */
    uint16_t *k_scale, *k_min, *v_scale, *v_min, *v_channel;
    int64_t k_group;
    int v_group;
} sac_packed_rows;

/* One query against packed rows of several parts, one after the other: o = softmax(scale q k^T) v. With o
 * NULL the scores are only written; with scores and o they are read, not computed. Rows whose score is below
 * min_score[head] do not count, and their values need not be read. lse as in attention. With `weights` what
 * stands in scores is exp(score - lse) instead, written or read, min_score is compared with that, and where
 * it is read lse becomes the logarithm of the sum of what counts. Variants may round a
 * head's q (times the keys' scale) to 16 bits, and its weights (times the values' scale) to 15 bits of the
 * largest of 256 rows. */
typedef struct sac_packed_attention_args {
    float *o;       /* [n_heads * head_dim], or NULL; may be q */
    const float *q; /* [n_heads * head_dim] */
    const sac_packed_rows *parts;
    int n_parts; /* at least one, all of the same heads */
    int n_heads;
    float scale;
    float *scores; /* [n_heads][stride] or NULL */
    int64_t stride;
    bool weights;
    const float *min_score; /* [n_heads] or NULL; not where weights are written */
    float *lse;             /* [n_heads] or NULL */
} sac_packed_attention_args;

/* Which rows of a view: for each head its own list (n_lists heads), one list for all, or, rows NULL, the rows
 * from `first` on. List entries are counted from `first`. */
typedef struct sac_pack_rows {
    const int32_t *rows; /* [n_lists][n] */
    int64_t n, first;
    int n_lists;
} sac_pack_rows;

/* channel[head * head_dim + c] = sqrt(max |v|) over the rows, 1 where that is 0: what the values of packed
 * rows may be divided by. */
typedef struct sac_pack_channels_args {
    uint16_t *channel; /* [n_heads * head_dim] halves */
    sac_kv_view kv;    /* k is not read */
    sac_pack_rows rows;
} sac_pack_channels_args;

/* The rows of kv as rows `to` .. of p: the ranges that p's kinds ask for, then codes. p.v_channel, where p
 * has one, is read. Without p.v keys alone. A device may know only keys with one range a channel for all rows
 * and values with ranges over whole heads, both from row 0 on; or keys alone with a range a row. */
typedef struct sac_pack_rows_args {
    sac_packed_rows p; /* n is to + rows.n */
    sac_kv_view kv;
    sac_pack_rows rows;
    int64_t to; /* above 0: keys alone, with a range a row */
} sac_pack_rows_args;

/* scores[h][i] = scale * (q_h . key), of row i < n of packed keys, or of row rows[i] of the head's own list
 * of `rows`; with turn_back the key, unpacked, is first turned back by turn_back[i]. */
typedef struct sac_packed_scores_args {
    float *scores; /* [n_heads][stride] */
    int64_t stride, n;
    sac_mat q;                /* [1][n_heads * head_dim] */
    sac_packed_rows keys;     /* values are not read */
    const int32_t *rows;      /* [n_lists][n] or NULL */
    int n_lists;              /* 1, keys.n_heads or n_heads */
    const int32_t *turn_back; /* [n_lists][n] or NULL */
    const sac_rotation *rotation;
    int n_heads;
    float scale;
} sac_packed_scores_args;

/* A step over packed rows and a plain tail, where a device gains by doing both in one go: q = softmax(scale q
 * k^T) v over all rows of the parts and of the tail. lse as in attention; variants may round as those of
 * packed_attention do. */
typedef struct sac_packed_step_args {
    sac_mat q;                    /* [1][n_heads * head_dim], replaced by the output */
    const sac_packed_rows *parts; /* all of the tail's heads, values included */
    int n_parts;                  /* may be 0 */
    sac_kv_view tail;             /* n_rows may be 0 when there are parts */
    int n_heads;
    float scale;
    float *lse; /* [n_heads] or NULL */
} sac_packed_step_args;

/* One token each of several sequences, on its way into their attention: of each, q is turned as rope does, in
 * place; k, turned too, and v go to row `first` of its view, rounded to their own type and then to the
 * view's. All of the same heads and the same kind of rotation; rows that are written do not overlap. */
typedef struct sac_token_store {
    sac_mat q, k, v; /* [1][n_heads * head_dim], [1][kv heads * head_dim] x 2 */
    sac_rotation rotation;
    const int32_t *pos; /* [1] */
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_token_store;

typedef struct sac_store_many_args {
    const sac_token_store *each;
    int n;
} sac_store_many_args;

/* Several calls of attention, or of packed_step, that do not write what another reads: one query of each of
 * several sequences, where a device gains by reading all their keys in one go. It knows plain steps of one
 * model only (no lists, no lse; the same heads and types), and refuses all where it refuses one. */
typedef struct sac_attention_many_args {
    const sac_attention_args *each;
    int n;
} sac_attention_many_args;

typedef struct sac_packed_step_many_args {
    const sac_packed_step_args *each;
    int n;
} sac_packed_step_many_args;

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
 * With `kept` dst has the rows before the last `local` from a step before; these are not written. dst is not
 * src's memory. */
typedef struct sac_choice_step_args {
    sac_mat q; /* [1][n_heads * head_dim] */
    sac_kv_view dst, src;
    const int32_t *chosen; /* [n_chosen] */
    int64_t n_chosen, init, local, n_rows;
    sac_rotation rotation;
    int n_heads;
    bool kept;
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
 * it there are in it. rows has room for all. A device has room for about 1.7 million rows. */
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

/* Attention over two disjoint sets of keys, found apart, becomes that over both (sac_attention_args: lse):
 * o = (o e^lse + other e^other_lse) / (e^lse + e^other_lse), o itself where neither saw a key. */
typedef struct sac_join_attention_args {
    sac_mat o, other;             /* [n][n_heads * head_dim] */
    const float *lse, *other_lse; /* [n][n_heads] */
    int n_heads;
} sac_join_attention_args;

/* One token's way into a layer's attention, where a device gains by doing it in one go: with a = x /
 * sqrt(mean (x^2) + eps) * norm, q = a wq^T (+ bias), turned by rope at pos[0], to the output; k and v
 * likewise (v is not turned) to row `first` of the view. Weights in F32, F16 or BF16. A device may round a to
 * x's type, and may read `pos` and the table while the op before still runs: both come by upload, not from an
 * op. */
typedef struct sac_qkv_step_args {
    sac_mat q;         /* [1][n_heads * head_dim] */
    sac_mat x;         /* [1][hidden] */
    const float *norm; /* [hidden] */
    float eps;
    sac_tensor wq, wk, wv;                 /* [heads * head_dim][hidden] */
    const float *q_bias, *k_bias, *v_bias; /* or NULL */
    sac_rotation rotation;
    const int32_t *pos;
    sac_kv_view kv;
    int64_t first;
    int n_heads;
} sac_qkv_step_args;

/* One token's way into the MLP: y = silu(a gate^T) * (a up^T), a as above. */
typedef struct sac_gate_up_step_args {
    sac_mat y, x; /* [1][n], [1][hidden] */
    const float *norm;
    float eps;
    sac_tensor gate, up; /* [n][hidden] */
} sac_gate_up_step_args;

/* Pixels to rows of the patch embedding's input: y[(tile * g + gy) * g + gx][(c * p + py) * p + px] = (pixel
 * / 255 - mean[c]) / std[c], with g = size / p patches a side; a remainder of size / p at the right and
 * bottom is not read (a convolution without padding). */
typedef struct sac_patchify_args {
    sac_mat y;            /* [n_tiles * g * g][3 * p * p] */
    const uint8_t *tiles; /* [n_tiles][size][size][3] RGB */
    int64_t n_tiles;
    int size, patch;
    float mean[3], std[3];
} sac_patchify_args;

/* Mean over stride x stride windows of each tile's grid of tokens; a remainder is not read.
 * y[(t * (g/s) + oy) * (g/s) + ox] = mean of x[(t * g + oy*s + dy) * g + ox*s + dx]. */
typedef struct sac_pool_tokens_args {
    sac_mat y, x; /* [n_tiles * (g/s)^2][n], [n_tiles * g^2][n] */
    int64_t n_tiles;
    int grid, stride;
} sac_pool_tokens_args;

/* y[i] = x[source[i]], or `fill` where source[i] is -1. */
typedef struct sac_gather_rows_args {
    sac_mat y, x;
    const int32_t *source; /* [y.rows] */
    const float *fill;     /* [cols]; may be NULL when no source is -1 */
} sac_gather_rows_args;

/* y[target[i]] = x[i], or y[target[i]] += x[i] when accumulate is set. No target twice; x is not y. */
typedef struct sac_scatter_rows_args {
    sac_mat y, x;
    const int32_t *target; /* [x.rows] rows of y */
    bool accumulate;
} sac_scatter_rows_args;

/* Name of every op: the table, its names and the checker come from this list. */
#define SAC_OPS(X)                                                                                           \
    X(linear)                                                                                                \
    X(embed)                                                                                                 \
    X(rmsnorm)                                                                                               \
    X(layernorm)                                                                                             \
    X(rope)                                                                                                  \
    X(swiglu)                                                                                                \
    X(kv_store)                                                                                              \
    X(attention)                                                                                             \
    X(key_scores)                                                                                            \
    X(attention_sums)                                                                                        \
    X(kv_gather)                                                                                             \
    X(top_k)                                                                                                 \
    X(top_p)                                                                                                 \
    X(patchify)                                                                                              \
    X(pool_tokens)                                                                                           \
    X(gather_rows)                                                                                           \
    X(scatter_rows)                                                                                          \
    X(packed_attention)                                                                                      \
    X(pack_channels)                                                                                         \
    X(pack_rows)                                                                                             \
    X(packed_step)                                                                                           \
    X(store_many)                                                                                            \
    X(attention_many)                                                                                        \
    X(packed_step_many)                                                                                      \
    X(packed_scores)                                                                                         \
    X(kept_rows)                                                                                             \
    X(softmax)                                                                                               \
    X(soft_vote)                                                                                             \
    X(mean_rows)                                                                                             \
    X(choice_rows)                                                                                           \
    X(choice_step)                                                                                           \
    X(choice_attend)                                                                                         \
    X(keep_rows)                                                                                             \
    X(evict_row)                                                                                             \
    X(pattern_rows)                                                                                          \
    X(page_bounds)                                                                                           \
    X(page_scores)                                                                                           \
    X(channel_sums)                                                                                          \
    X(pick_channels)                                                                                         \
    X(join_attention)                                                                                        \
    X(qkv_step)                                                                                              \
    X(gate_up_step)

typedef struct sac_ops {
    const char *backend; /* "ref", "cpu", "cuda" */
#define X(op) sac_status (*op)(const sac_stream *s, const sac_##op##_args *a);
    SAC_OPS(X)
#undef X
    /* Shared scratch that linear needs for up to m rows of k elements; attention's need is part of the thread
     * scratch. */
    size_t (*linear_scratch_bytes)(int64_t m, int64_t k);
} sac_ops;

void sac_ops_init_ref(sac_ops *t); /* fills every slot */
void sac_ops_init_cpu(sac_ops *t,
                      unsigned cpu_flags);       /* ref first, then weakest to strongest instruction set */
void sac_ops_init_cuda(sac_ops *t, int compute); /* builds with SAC_CUDA only; `compute` as in sac_device */

/* Scratch that a device's stream should have for its ops. */
size_t sac_ops_scratch_bytes(const sac_device *d);

/* The table for a stream's device, and what its ops keep beside the stream. Close before the stream. */
sac_status sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err);
void sac_ops_close(sac_stream *s);

#endif
