#include "ref.h"

static double bound(const sac_page_scores_args *a, int head, int64_t page) {
    const sac_kv_view *b = &a->bounds;
    int64_t d = b->head_dim / 2, kv_head = head / (a->n_heads / b->n_heads);
    int64_t at = page * b->row_stride + kv_head * b->head_stride;
    double sum = 0;
    for (int64_t c = 0; c < d; c++) {
        double q = (double)sac_mat_row_f32(a->q, 0)[head * d + c];
        sum += q * (double)sac_ref_load(b->dtype, b->k, at + (q > 0 ? c : d + c));
    }
    return sum;
}

sac_status sac_ref_page_scores(const sac_stream *s, const sac_page_scores_args *a) {
    (void)s;
    int group = a->n_heads / a->n_sums;
    assert(a->scores && sac_ref_is_mat(a->q) && a->q.rows == 1 && sac_ref_is_kv(&a->bounds));
    assert(a->n_sums == a->bounds.n_heads || a->n_sums == a->n_heads);
    assert(a->n_heads % a->bounds.n_heads == 0 && a->q.cols == (int64_t)a->n_heads * a->bounds.head_dim / 2);
    assert(a->bounds.head_dim % 2 == 0 && a->n >= 0 && a->n <= a->bounds.n_rows && a->n <= a->stride);
    for (int sum = 0; sum < a->n_sums; sum++)
        for (int64_t page = 0; page < a->n; page++) {
            double total = 0;
            for (int h = 0; h < group; h++) total += bound(a, sum * group + h, page);
            a->scores[sum * a->stride + page] = (float)total;
        }
    return SAC_OK;
}
