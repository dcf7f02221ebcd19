/* blocks.cuh - products and rows of matrices in GGUF's blocks and in code_layout.h's types: what the files of this folder ask
 * of each other. */
#ifndef SAC_KERNELS_BLOCKS_CUH
#define SAC_KERNELS_BLOCKS_CUH

#include "block_layout.h"
#include "context.cuh"

namespace sac::blocks {

/* Rows of x that the product from stored bytes takes (block_product.cuh), and warps of a block of it. */
enum { MOST_ROWS = 32, MOST_WARPS = 8 };
/* Warps with a ring of so many bytes each, of a block that may have so much shared memory; the driver keeps 1 KiB. */
static inline int ring_warps(int shared_bytes, int ring_bytes) {
    return (int)min_of(MOST_WARPS, (shared_bytes - 1024) / ring_bytes);
}

/* Rows of w, of n with k elements, that are unpacked at a time. Few large products are faster than many whose panels stay in
 * the L2 cache: 1,024 rows of a 7B model take 13.6 ms with panels of 90 MB, 16.4 with 24 MB (14 layers, H100). Where x is
 * rounded its rows share the room. */
enum { PANEL_BYTES = 88 << 20, PANEL_BESIDE_X_BYTES = 48 << 20, PANEL_ROWS = 256 /* or a multiple */ };
static inline int64_t panel_rows(int64_t n, int64_t k, bool beside_x) {
    const int64_t most = (beside_x ? PANEL_BESIDE_X_BYTES : PANEL_BYTES) / (2 * k);
    return min_of(max_of(1, most / PANEL_ROWS) * PANEL_ROWS, n);
}

/* How weights want x (sac_weight). */
struct x_rounding {
    sac_x_rounding how;
    int group; /* elements that share a scale, of SAC_X_FP8_GROUPS */
    float scale;
};
static inline x_rounding rounding_of(const sac_weight *w, int64_t k) {
    const bool has_groups = w->x_rounding == SAC_X_FP8_GROUPS && w->group < k;
    if (w->x_rounding == SAC_X_FP8_GROUPS && !has_groups) return {SAC_X_FP8_ROWS, 0, 0};
    return {w->x_rounding, has_groups ? (int)w->group : 0, w->x_scale};
}

/* One or several products of the same rows. */
struct product_part {
    const void *w;
    sac_block_layout layout;
    sac_mat y;
    const float *bias;
    int first_block; /* of the launch; set when its shape is chosen */
};
struct product_job {
    product_part part[SAC_LINEAR_GROUP_MOST];
    int n_parts;
    sac_mat x;
    sac_activation act;
    bool accumulate;
    bool gated;        /* two parts: y of the first is silu(its product) times the second's product */
    const float *norm; /* [k], or NULL: of one row of x, which is normalised first */
    float eps;
    x_rounding rounding; /* of one row of x, behind the norm */
};

/* What sac_qkv_step_args says, of heads whose halves are whole tiles and that are turned as a whole. Matrices of other types than the
 * kernel's have no heads: they are another launch's. Bit m of `second`: matrix m is of the second of a kernel's two types. */
struct qkv_product {
    const void *w[3]; /* of q, k and v, as all below */
    int heads[3];
    sac_block_layout layout[3];
    const float *bias[3];
    const void *x;
    const float *norm;
    float eps;
    x_rounding rounding;
    int n_cols; /* of x */
    const float *cos_sin;
    const int32_t *pos;
    void *q, *k, *v;             /* k and v: the view's */
    int64_t row_at, head_stride; /* of the view: where its row begins */
    int head_dim;
    bool interleaved; /* neighbours are turned with each other, not halves */
    int second;
    sac_dtype x_type, out;
};

/* y[i] = row ids[i] of w, or row first + i, for i < y.rows. */
struct unpack_job {
    const void *w;
    sac_block_layout layout;
    const int32_t *ids;
    const int32_t *order; /* where each element of a row goes, or NULL */
    int64_t first;
    sac_mat y;     /* f16 or bf16 */
    bool on_lines; /* four elements of y lie on 8 bytes */
    float factor;  /* of what is unpacked */
    bool by_blocks; /* of e4m3_rows: scales are of blocks of 128 x 128 */
};

/* y = rows of x rounded, or y's element i is x's order[i]. y may be x where they are rounded. Both f16 or bf16. */
enum { ROUNDED_THREADS = 256 };
struct rounded_job {
    sac_mat y, x;
    const int32_t *order; /* or NULL */
    sac_x_rounding how;
    int64_t group; /* elements that share a scale, of SAC_X_FP8_GROUPS */
    float scale;   /* of SAC_X_FP8_STATIC and SAC_X_INT8_STATIC */
};
sac_status rounded_rows(const sac_stream *s, const rounded_job &j);

/* Many rows of x with FP8 weights that want x rounded to FP8, as e4m3 on both sides. UNSUPPORTED where the card or its library
 * does not, before anything is started. */
sac_status linear_e4m3_rows(const sac_stream *s, const sac_linear_args *a);

/* Rows of x, rounded once, with one or several matrices of plain rows of e4m3. */
sac_status linear_e4m3_group(const sac_stream *s, const sac_linear_group_args *a);

/* Rows of f16 or bf16, normalised where `norm` is no NULL, to codes [rows][cols] and scales, [rows] or [cols / 128][rows]. cols is a
 * multiple of 16. UNSUPPORTED for rows that are too long to be normalised on the way. */
sac_status round_to_e4m3(const sac_stream *s, sac_mat x, x_rounding r, const float *norm, float eps, uint8_t *codes, float *scales);

/* Each format's, in a file of its name. */
#define X(constant, name)                                                                                    \
    sac_status product_##name(const sac_stream *s, const product_job &j);                                    \
    sac_status qkv_##name(const sac_stream *s, const qkv_product &j);                                        \
    sac_status unpack_##name(const sac_stream *s, const unpack_job &j);
SAC_BLOCK_FORMATS(X)
SAC_CODE_FORMATS(X)
#undef X

/* Q4_K, and what is `second` Q6_K. */
sac_status qkv_q4_k_q6_k(const sac_stream *s, const qkv_product &j);

/* By the type of blocks. */
sac_status product(const sac_stream *s, sac_dtype t, const product_job &j);
sac_status qkv(const sac_stream *s, sac_dtype t, const qkv_product &j);
sac_status unpack(const sac_stream *s, sac_dtype t, const unpack_job &j);

} // namespace sac::blocks

#endif
