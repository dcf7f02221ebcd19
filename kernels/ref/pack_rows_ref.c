#include "pack_rows.h"
#include "ref.h"

sac_status sac_ref_pack_channels(const sac_stream *s, const sac_pack_channels_args *a) {
    (void)s;
    assert(a->kv.head_dim <= SAC_KV_MAX_D);
    sac_pack_channels(a->channel, &a->kv, &a->rows, false);
    return SAC_OK;
}

sac_status sac_ref_pack_rows(const sac_stream *s, const sac_pack_rows_args *a) {
    (void)s;
    assert(sac_packed_is_valid(&a->p) && a->to >= 0 && a->p.n == a->to + a->rows.n);
    assert(a->p.n_heads == a->kv.n_heads && a->p.head_dim == a->kv.head_dim);
    assert(!a->p.k || a->p.k_group == 0 || a->to % a->p.k_group == 0);
    if (a->p.k) sac_pack_keys(&a->p, a->to, &a->kv, &a->rows);
    if (a->p.v) sac_pack_values(&a->p, a->to, &a->kv, &a->rows);
    return SAC_OK;
}
