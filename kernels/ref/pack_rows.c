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
    assert(sac_packed_is_valid(&a->p) && a->p.v && a->p.n == a->rows.n);
    assert(a->p.n_heads == a->kv.n_heads && a->p.head_dim == a->kv.head_dim);
    sac_pack_keys(&a->p, 0, &a->kv, &a->rows);
    sac_pack_values(&a->p, 0, &a->kv, &a->rows);
    return SAC_OK;
}
