/* cases_pack.c - cases of pack_channels, pack_rows and unpack_rows. Every step is rounded the same way everywhere, so the
 * bits must be equal. */
#include "check.h"
#include "pack_rows.h"

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

/* n of the rows from `first` on, every list its own, ascending. */
static sac_pack_rows choose(check_case *c, int64_t n_rows, int64_t n, int64_t first, int n_lists) {
    sac_pack_rows rows = {NULL, n, first, 1};
    if (!n_lists) return rows;
    int64_t all = n_lists * n, most = n_rows - first;
    int32_t *list = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 0);
    for (int i = 0; i < n_lists; i++)
        for (int64_t row = 0, left = n; left > 0; row++)
            if (check_rand_int(c, 0, most - row - 1) < left) list[(i + 1) * n - left--] = (int32_t)row;
    rows.rows = list;
    rows.n_lists = n_lists;
    return rows;
}

/* [columns] of values' factors. */
static uint16_t *channel_factors(check_case *c, int64_t columns) {
    uint16_t *x = check_buffer_add(c, false, SAC_DTYPE_F16, 1, columns, columns, 2);
    for (int64_t i = 0; i < columns; i++) x[i] = sac_f32_to_f16((float)(0.2 + check_rand_unit(c)));
    return x;
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
    p.v_channel = channel_factors(c, columns);
    return p;
}

/* ---------------------------------------------------------------- behind rows that there are */

enum { KEYS = 1, VALUES = 2 };

/* Rows behind `to` others, or unpacked from there on, with keys, values or both. */
static const struct more_shape {
    int64_t n_rows, n, first, to;
    int n_heads, head_dim, bits, n_lists;
    int64_t k_group;
    int v_group, halves;
    bool channel;
    check_values values;
} more_shapes[] = {
    {90, 70, 3, 0, 4, 128, 4, 0, 0, 128, KEYS | VALUES, false, CHECK_UNIFORM},
    {90, 1, 41, 41, 4, 128, 4, 0, 0, 128, KEYS | VALUES, false, CHECK_OUTLIERS},
    {60, 19, 0, 29, 3, 24, 8, 0, 0, 24, KEYS | VALUES, false, CHECK_TINY},
    {60, 1, 7, 6, 2, 40, 2, 0, 0, 40, KEYS | VALUES, false, CHECK_TIES},
    {200, 96, 5, 64, 4, 128, 2, 0, 32, 32, KEYS, false, CHECK_UNIFORM},
    {200, 64, 0, 0, 3, 80, 4, 0, 16, 16, KEYS, false, CHECK_OUTLIERS},
    {300, 50, 7, 32, 2, 64, 8, 1, 32, 32, KEYS, false, CHECK_LARGE},
    {800, 512, 0, 256, 1, 37, 4, 0, 256, 37, KEYS, false, CHECK_UNIFORM},
    {200, 33, 5, 7, 4, 128, 2, 0, 32, 32, VALUES, false, CHECK_UNIFORM},
    {200, 1, 150, 149, 2, 64, 4, 0, 32, 32, VALUES, false, CHECK_TIES},
    {200, 40, 3, 0, 3, 80, 8, 3, 32, 32, VALUES, false, CHECK_LARGE},
    {200, 45, 3, 18, 5, 72, 4, 0, 32, 144, VALUES, true, CHECK_UNIFORM},
    {400, 128, 9, 128, 8, 128, 2, 0, 32, 32, KEYS | VALUES, false, CHECK_UNIFORM},
    {500, 300, 11, 0, 4, 128, 4, 4, 0, 512, KEYS | VALUES, true, CHECK_OUTLIERS},
    {400, 147, 7, 0, 3, 64, 2, 3, 48, 192, KEYS | VALUES, true, CHECK_UNIFORM},
};

/* A part with room for a few more rows, its codes and ranges in two buffers. */
static sac_packed_rows make_more(check_case *c, const struct more_shape *sh, bool output) {
    sac_packed_rows p = {.n = sh->to + sh->n,
                         .n_heads = sh->n_heads,
                         .head_dim = sh->head_dim,
                         .bits = sh->bits,
                         .k_group = sh->k_group,
                         .v_group = sh->v_group};
    p.capacity = p.n + check_rand_int(c, 0, 9);
    int64_t columns = (int64_t)p.n_heads * p.head_dim;
    int64_t k = (int64_t)sac_packed_key_words(p.n_heads, p.head_dim, p.bits, p.capacity);
    int64_t v = (int64_t)sac_packed_value_words(p.n_heads, p.head_dim, p.bits, p.capacity);
    int64_t k_ranges =
        p.k_group ? columns * ((p.capacity + p.k_group - 1) / p.k_group) : p.n_heads * p.capacity;
    int64_t v_ranges = sac_packed_value_groups(p.n_heads, p.head_dim, p.v_group) * p.capacity;
    p.k = check_buffer_add(c, output, SAC_DTYPE_F32, 1, k + v, k + v, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    p.v = p.k + k;
    p.k_scale = check_buffer_add(c, output, SAC_DTYPE_F16, 1, 2 * (k_ranges + v_ranges),
                                 2 * (k_ranges + v_ranges), 2);
    p.k_min = p.k_scale + k_ranges;
    p.v_scale = p.k_min + k_ranges;
    p.v_min = p.v_scale + v_ranges;
    if (!sh->channel) return p;
    p.v_channel = channel_factors(c, columns);
    return p;
}

/* What a case asks for. */
static sac_packed_rows halves_of(sac_packed_rows p, int halves) {
    if (!(halves & KEYS)) p.k = NULL;
    if (!(halves & VALUES)) p.v = NULL;
    return p;
}

/* Rows [0, n) of the view as the part's first ones. */
static void pack_first(const sac_packed_rows *p, const sac_kv_view *kv, int64_t n) {
    const sac_pack_rows rows = {NULL, n, 0, 1};
    sac_pack_keys(p, 0, kv, &rows);
    sac_pack_values(p, 0, kv, &rows);
}

static bool make_more_case(check_case *c, const struct more_shape *sh, sac_dtype t) {
    const bool unpacks = c->op == CHECK_unpack_rows;
    check_kv_shape kv_shape = {.dtype = t,
                               .n_heads = sh->n_heads,
                               .head_dim = sh->head_dim,
                               .n_rows = sh->n_rows,
                               .n_valid = sh->n_rows,
                               .k = sh->values,
                               .v = sh->values};
    sac_kv_view kv = check_kv(c, &kv_shape, NULL, NULL), target = kv;
    sac_packed_rows p = make_more(c, sh, !unpacks);
    sac_pack_rows rows = choose(c, sh->n_rows, sh->n, sh->first, sh->n_lists);
    pack_first(&p, &kv, unpacks ? p.n : sh->to);
    kv_shape.output = true;
    if (unpacks) target = check_kv(c, &kv_shape, NULL, NULL);
    p = halves_of(p, sh->halves);
    if (unpacks)
        c->unpack_rows = (sac_unpack_rows_args){p, sh->to, target, rows};
    else
        c->pack_rows = (sac_pack_rows_args){p, kv, rows, sh->to};
    c->exact = c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s %lld of %lld rows at %lld, %dx%d, %d bits, groups %lld and %d,%s%s",
             sac_dtype_name(t), (long long)sh->n, (long long)sh->n_rows, (long long)sh->to, sh->n_heads,
             sh->head_dim, sh->bits, (long long)sh->k_group, sh->v_group, sh->halves & KEYS ? " keys" : "",
             sh->halves & VALUES ? " values" : "");
    return true;
}

static const sac_dtype types[] = {SAC_DTYPE_F16, SAC_DTYPE_BF16, SAC_DTYPE_F32};

bool check_make_unpack(check_case *c, int i) {
    int n = (int)SAC_COUNT(more_shapes);
    return i < 3 * n && make_more_case(c, &more_shapes[i % n], types[i / n]);
}

bool check_make_pack(check_case *c, int i, bool quick) {
    const struct pack_shape *sh = &shapes[i % (int)SAC_COUNT(shapes)];
    int type = i / (int)SAC_COUNT(shapes);
    if (type >= 3) return c->op == CHECK_pack_rows && check_make_unpack(c, i - 3 * (int)SAC_COUNT(shapes));
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
    sac_pack_rows rows = choose(c, sh->n_rows, sh->n, sh->first, sh->n_lists);
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
