#include "pack_rows.h"
#include "ref.h"

sac_status sac_ref_unpack_rows(const sac_stream *s, const sac_unpack_rows_args *a) {
    float x[SAC_KV_MAX_D];
    (void)s;
    assert(sac_packed_is_valid(&a->p) && a->from >= 0 && a->from + a->rows.n <= a->p.n);
    assert(a->p.n_heads == a->kv.n_heads && a->p.head_dim == a->kv.head_dim &&
           a->kv.head_dim <= SAC_KV_MAX_D);
    for (int head = 0; head < a->p.n_heads; head++)
        for (int64_t i = 0; i < a->rows.n; i++) {
            int64_t to = sac_pack_row(&a->rows, head, i);
            if (a->p.k) {
                sac_packed_get_key(&a->p, head, a->from + i, x);
                sac_kv_save(&a->kv, a->kv.k, head, to, x);
            }
            if (a->p.v) {
                sac_packed_get_value(&a->p, head, a->from + i, x);
                sac_kv_save(&a->kv, a->kv.v, head, to, x);
            }
        }
    return SAC_OK;
}
