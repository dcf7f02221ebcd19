/* linear_quant_job.h - what the variants of linear_quant share: how rounded activations lie in memory, and
 * the cut of the work into tasks. Inside kernels/cpu only.
 *
 * Rounded activations are panels of 1-16 rows (n_panel_rows; rows past m are zero), one record a block:
 *   32-element blocks:   int8 q[rows][32], f32 d[rows], then f32 s[rows] (formats with minima) or int32 start[rows]
 *   256-element blocks:  int8 q[8][rows][32], f32 d[rows], then, for each unit of elements that share a scale, int16
 *                        sum[rows][units] (formats with minima) or int32 start[rows][units]
 * `start` is where an integer sum begins when the weights are kept unsigned, c above what they are (the list of
 * formats has c): -c * (sum of x), for 32-element blocks on top of the template's MAGIC. 512 bytes of q
 * of one 32-group and 16 rows are one AMX tile. */
#ifndef SAC_LINEAR_QUANT_JOB_H
#define SAC_LINEAR_QUANT_JOB_H

#include "cpu/cpu.h"

#define SAC_LQ_MAX_PANEL_ROWS 16
#define SAC_LQ_DIRECT_ROWS                                                                                   \
    4 /* up to here weights go from memory to registers; above, through unpacked panels */

typedef struct sac_lq_job {
    const sac_linear_args *a;
    int64_t m, n, k;
    const uint8_t *w;
    size_t w_row_bytes;
    int block; /* elements of a weight block */
    size_t w_block_bytes;
    uint8_t *x; /* [n_panels][k / block] records */
    int n_panel_rows;
    int64_t n_panels;
    size_t record_bytes, panel_bytes;
} sac_lq_job;

/* Up to n_lanes rows of w, `stride` bytes apart, whose results go to columns [col, col + n_cols) and stand in
 * lanes [lane, lane + n_cols). The last rows are reached by moving back over rows already done; with fewer
 * rows than lanes each is a group of its own, repeated in all lanes. */
typedef struct sac_lq_columns {
    const uint8_t *w;
    size_t stride;
    int64_t col;
    int lane, n_cols;
} sac_lq_columns;

sac_lq_columns sac_lq_column_group(const sac_lq_job *j, int n_lanes, int64_t group);

typedef struct sac_lq_variant {
    int n_lanes;
    void (*quantize_panel)(const sac_lq_job *j, int64_t panel);
    /* Column groups [first, last) of panels [first_panel, last_panel). */
    void (*multiply)(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                     int64_t last_panel, void *scratch);
} sac_lq_variant;

sac_status sac_lq_run(const sac_stream *s, const sac_linear_args *a, const sac_lq_variant *v);

sac_status sac_linear_quant_plain(const sac_stream *s, const sac_linear_args *a); /* any processor */

sac_status sac_linear_quant_avx2(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_quant_vnni(const sac_stream *s, const sac_linear_args *a);
sac_status sac_linear_quant_amx(const sac_stream *s, const sac_linear_args *a);

#endif
