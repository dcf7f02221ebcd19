/* cases_pack.c - cases of pack_channels and pack_rows. Every step is rounded the same way everywhere, so the
 * bits must be equal. */
#include "check.h"
#include "packed_rows.h"

static const struct pack_shape {
    int64_t n_rows, n, first; /* of the view; chosen */
    int n_heads, head_dim, bits;
    int n_lists;         /* 0: the rows from `first` on; 1; n_heads */
    int heads_per_range; /* of values; 0 = all */
    bool channel;
    check_values values;
    int64_t to;  /* with by_row */
    bool by_row; /* keys alone, a range a row */
} shapes[] = {
    {40, 33, 5, 1, 16, 4, 0, 0, true, CHECK_UNIFORM, 0, false},
    {100, 41, 9, 2, 64, 4, 1, 0, true, CHECK_UNIFORM, 0, false},
    {100, 50, 9, 2, 64, 2, 1, 0, true, CHECK_OUTLIERS, 0, false},
    {300, 127, 0, 4, 128, 4, 1, 0, true, CHECK_UNIFORM, 0, false},
    {300, 173, 0, 4, 128, 2, 1, 0, true, CHECK_LARGE, 0, false},
    {2100, 2100, 0, 2, 128, 4, 0, 0, true, CHECK_UNIFORM, 0, false},
    {1500, 900, 3, 3, 80, 8, 3, 0, true, CHECK_UNIFORM, 0, false},
    {700, 650, 50, 4, 24, 2, 4, 0, true, CHECK_TIES, 0, false},
    {200, 1, 7, 2, 96, 2, 0, 0, true, CHECK_UNIFORM, 0, false},
    {200, 129, 7, 6, 72, 4, 0, 2, false, CHECK_UNIFORM, 0, false},
    {200, 64, 7, 5, 40, 2, 5, 1, false, CHECK_TINY, 0, false},
    {1030, 1024, 0, 8, 64, 4, 0, 8, true, CHECK_UNIFORM, 0, false},
    {90, 70, 3, 4, 128, 4, 0, 0, false, CHECK_UNIFORM, 0, true},
    {90, 1, 41, 4, 128, 4, 0, 0, false, CHECK_OUTLIERS, 41, true},
    {90, 21, 41, 2, 64, 4, 0, 0, false, CHECK_LARGE, 11, true},
    {120, 37, 9, 3, 80, 2, 1, 0, false, CHECK_TIES, 30, true},
    {60, 19, 0, 1, 37, 8, 0, 0, false, CHECK_TINY, 5, true},
    {60, 19, 0, 2, 256, 8, 2, 0, false, CHECK_UNIFORM, 29, true},
    {150, 70, 0, 8, 128, 4, 0, 0, true, CHECK_UNIFORM, 0, false},
    {150, 41, 5, 8, 128, 2, 1, 0, true, CHECK_OUTLIERS, 0, false},
};

/* n of the rows, every list its own, ascending. */
static sac_pack_rows choose(check_case *c, const struct pack_shape *sh) {
    sac_pack_rows rows = {NULL, sh->n, sh->first, 1};
    if (!sh->n_lists) return rows;
    int64_t all = sh->n_lists * sh->n, most = sh->n_rows - sh->first;
    int32_t *list = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 0);
    for (int i = 0; i < sh->n_lists; i++)
        for (int64_t row = 0, left = sh->n; left > 0; row++)
            if (check_rand_int(c, 0, most - row - 1) < left) list[(i + 1) * sh->n - left--] = (int32_t)row;
    rows.rows = list;
    rows.n_lists = sh->n_lists;
    return rows;
}

/* Keys alone, rows from `to` on of a few more. */
static sac_packed_rows make_key_copy(check_case *c, const struct pack_shape *sh) {
    sac_packed_rows p = {.n = sh->to + sh->n, .n_heads = sh->n_heads, .head_dim = sh->head_dim};
    p.capacity = p.n + check_rand_int(c, 0, 9);
    p.bits = sh->bits;
    int64_t n_ranges = p.n_heads * p.capacity;
    int64_t n = (int64_t)sac_packed_key_words(p.n_heads, p.head_dim, p.bits, p.capacity);
    p.k = check_buffer_add(c, true, SAC_DTYPE_F32, 1, n, n, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    p.k_scale = check_buffer_add(c, true, SAC_DTYPE_F16, 1, 2 * n_ranges, 2 * n_ranges, 2);
    p.k_min = p.k_scale + n_ranges;
    return p;
}

/* The part's codes and ranges, in two buffers. */
static sac_packed_rows make_part(check_case *c, const struct pack_shape *sh) {
    sac_packed_rows p = {.n = sh->n, .capacity = sh->n, .n_heads = sh->n_heads, .head_dim = sh->head_dim};
    int64_t columns = (int64_t)p.n_heads * p.head_dim, n_key_ranges = columns;
    if (sh->by_row) return make_key_copy(c, sh);
    p.bits = sh->bits;
    p.k_group = p.n;
    p.v_group = (sh->heads_per_range ? sh->heads_per_range : p.n_heads) * p.head_dim;
    int64_t n_value_ranges = sac_packed_value_groups(p.n_heads, p.head_dim, p.v_group) * p.n;
    int64_t k = (int64_t)sac_packed_key_words(p.n_heads, p.head_dim, p.bits, p.n);
    int64_t v = (int64_t)sac_packed_value_words(p.n_heads, p.head_dim, p.bits, p.n);
    p.k = check_buffer_add(c, true, SAC_DTYPE_F32, 1, k + v, k + v, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    p.v = p.k + k;
    int64_t n = 2 * (n_key_ranges + n_value_ranges);
    p.k_scale = check_buffer_add(c, true, SAC_DTYPE_F16, 1, n, n, 2);
    p.k_min = p.k_scale + n_key_ranges;
    p.v_scale = p.k_min + n_key_ranges;
    p.v_min = p.v_scale + n_value_ranges;
    if (!sh->channel) return p;
    p.v_channel = check_buffer_add(c, false, SAC_DTYPE_F16, 1, columns, columns, 2);
    for (int64_t i = 0; i < columns; i++) p.v_channel[i] = sac_f32_to_f16((float)(0.2 + check_rand_unit(c)));
    return p;
}

bool check_make_pack(check_case *c, int i, bool quick) {
    static const sac_dtype types[] = {SAC_DTYPE_F16, SAC_DTYPE_BF16, SAC_DTYPE_F32};
    const struct pack_shape *sh = &shapes[i % (int)SAC_COUNT(shapes)];
    int type = i / (int)SAC_COUNT(shapes);
    if (type == 3) return false;
    if (quick && sh->n > 2000 && type) return true;
    if (c->op == CHECK_pack_channels && sh->by_row) return true; /* no buffers: left out */
    const check_kv_shape kv_shape = {.dtype = types[type],
                                     .n_heads = sh->n_heads,
                                     .head_dim = sh->head_dim,
                                     .n_rows = sh->n_rows,
                                     .n_valid = sh->n_rows,
                                     .k = sh->values,
                                     .v = sh->values};
    sac_kv_view kv = check_kv(c, &kv_shape, NULL, NULL);
    sac_pack_rows rows = choose(c, sh);
    if (c->op == CHECK_pack_channels) {
        int64_t columns = (int64_t)sh->n_heads * sh->head_dim;
        uint16_t *channel = check_buffer_add(c, true, SAC_DTYPE_F16, 1, columns, columns, 2);
        c->pack_channels = (sac_pack_channels_args){channel, kv, rows};
    } else {
        c->pack_rows = (sac_pack_rows_args){make_part(c, sh), kv, rows, sh->to};
    }
    c->exact = c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s %lld of %lld rows, %dx%d, %d bits, %d lists, %d heads a range%s %s",
             sac_dtype_name(kv.dtype), (long long)sh->n, (long long)sh->n_rows, sh->n_heads, sh->head_dim,
             sh->bits, sh->n_lists, sh->heads_per_range, sh->by_row ? ", keys by row" : "",
             check_values_name(sh->values));
    return true;
}
