#include "ref.h"

static bool is_sane(const sac_kv_view *kv) {
    return kv->n_heads > 0 && kv->head_dim > 0 && kv->n_rows >= 0 &&
           (kv->dtype == SAC_DTYPE_F32 || kv->dtype == SAC_DTYPE_F16 || kv->dtype == SAC_DTYPE_BF16);
}

bool sac_ref_is_kv(const sac_kv_view *kv) {
    return is_sane(kv) && !kv->pages;
}

bool sac_ref_is_kv_pages(const sac_kv_view *kv) {
    if (!is_sane(kv) || !kv->pages || kv->page_rows < 1 || kv->page_stride < 1) return false;
    for (int64_t p = 0; p * kv->page_rows < kv->n_rows; p++)
        if (kv->pages[p] < 0) return false;
    return true;
}

static bool is_lists(const sac_row_lists *l, const sac_kv_view *kv, int n_heads, bool ascending) {
    if (l->n_lists != 1 && l->n_lists != kv->n_heads && l->n_lists != n_heads) return false;
    for (int i = 0; i < l->n_lists; i++) {
        if (l->start[i] > l->start[i + 1]) return false;
        for (int64_t j = l->start[i]; j < l->start[i + 1]; j++) {
            if (l->rows[j] < 0 || l->rows[j] >= kv->n_rows) return false;
            if (ascending && j > l->start[i] && l->rows[j] <= l->rows[j - 1]) return false;
        }
    }
    return true;
}

bool sac_ref_is_lists(const sac_row_lists *l, const sac_kv_view *kv, int n_heads) {
    return is_lists(l, kv, n_heads, true);
}
bool sac_ref_is_any_order(const sac_row_lists *l, const sac_kv_view *kv, int n_heads) {
    return is_lists(l, kv, n_heads, false);
}

bool sac_ref_is_rotation(const sac_rotation *r, int head_dim) {
    return r->cos_sin && r->rot_dim > 0 && r->rot_dim % 2 == 0 && r->rot_dim <= head_dim && r->factor > 0;
}

void sac_ref_load_key(const sac_kv_view *kv, int64_t row, int head, const sac_rotation *back, int64_t pos,
                      double *key) {
    int64_t at = row * kv->row_stride + head * kv->head_stride;
    for (int c = 0; c < kv->head_dim; c++) key[c] = (double)sac_ref_load(kv->dtype, kv->k, at + c);
    for (int i = 0; back && i < back->rot_dim / 2; i++) {
        sac_ref_pair p = sac_ref_pair_at(back, i);
        sac_ref_turn(back, pos, i, true, &key[p.first], &key[p.second]);
    }
}
