#include "language_tensors.h"

#include "quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64

/* The table while it grows: entries before n_sorted are in order. */
typedef struct table {
    sac_checkpoint *c;
    const sac_decoder_config *d;
    int n_sorted;
    sac_checkpoint *joined;
    sac_error *err;
} table;

static int by_name(const void *key, const void *t) {
    return strcmp(key, ((const sac_checkpoint_tensor *)t)->name);
}

/* A copy of the entry, whose place may change when others are added; false: there is none. */
static bool find(const table *t, int layer, const char *part, sac_checkpoint_tensor *out) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    const sac_checkpoint_tensor *found =
        t->n_sorted ? bsearch(name, t->c->tensors, (size_t)t->n_sorted, sizeof *t->c->tensors, by_name) : NULL;
    if (found) *out = *found;
    return found != NULL;
}

static sac_status add(const table *t, const sac_checkpoint_tensor *tensor, int layer, const char *part) {
    char name[NAME_BYTES];
    const int n = snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    return sac_checkpoint_add(t->c, tensor, name, (size_t)n, t->err);
}

/* Of what others were made; it leaves the table at the end. */
static void drop(const table *t, const char *name) {
    sac_checkpoint_tensor *found = bsearch(name, t->c->tensors, (size_t)t->n_sorted, sizeof *t->c->tensors, by_name);
    if (found) found->n_dims = 0;
}

static sac_status check(const table *t, const sac_checkpoint_tensor *found, const int64_t *want, int n_dims) {
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    bool same = found->n_dims == n_dims && found->dtype >= 0;
    for (int i = 0; i < n_dims && same; i++) same = found->dim[i] == want[i];
    if (same) return SAC_OK;
    return sac_fail(t->err, SAC_BAD_FILE, "tensor %s (%s) has shape %s, the metadata asks for %s", found->name, found->dtype_name,
                    sac_shape_text(a, found->dim, found->n_dims), sac_shape_text(b, want, n_dims));
}

/* ---- latent attention ---- */

static void put(uint8_t *to, sac_dtype type, int64_t i, float v) {
    if (type == SAC_DTYPE_F32)
        memcpy(to + 4 * i, &v, sizeof v);
    else {
        const uint16_t h = type == SAC_DTYPE_F16 ? sac_f32_to_f16(v) : sac_f32_to_bf16(v);
        memcpy(to + 2 * i, &h, sizeof h);
    }
}

/* Rows of each head: those of its keys, which the file has as columns, then those of its values. */
static void join_heads(const table *t, const sac_checkpoint_tensor *k, const sac_checkpoint_tensor *v, sac_dtype type, uint8_t *to,
                       float *row) {
    const int64_t rank = t->d->latent.kv_rank, nope = k->dim[2], values = v->dim[1];
    const size_t k_row = sac_dtype_row_bytes((sac_dtype)k->dtype, nope), v_row = sac_dtype_row_bytes((sac_dtype)v->dtype, rank);
    for (int64_t h = 0; h < k->dim[0]; h++) {
        const int64_t first = h * (nope + values);
        for (int64_t r = 0; r < rank; r++) {
            sac_dequantize_row((sac_dtype)k->dtype, k->data + (size_t)(h * rank + r) * k_row, row, nope);
            for (int64_t i = 0; i < nope; i++) put(to, type, (first + i) * rank + r, row[i]);
        }
        for (int64_t i = 0; i < values; i++) {
            sac_dequantize_row((sac_dtype)v->dtype, v->data + (size_t)(h * values + i) * v_row, row, rank);
            for (int64_t r = 0; r < rank; r++) put(to, type, (first + nope + i) * rank + r, row[r]);
        }
    }
}

static sac_status join_latents(const table *t, int layer) {
    const sac_latent_shape *s = &t->d->latent;
    sac_checkpoint_tensor k, v, whole;
    const bool has_k = find(t, layer, "attn_k_b", &k), has_v = find(t, layer, "attn_v_b", &v);
    if (find(t, layer, "attn_kv_b", &whole) || (!has_k && !has_v)) return SAC_OK; /* the binder says what is missing */
    if (!has_k || !has_v)
        return sac_fail(t->err, SAC_BAD_FILE, "tensor blk.%d.attn_%s_b.weight is missing", layer, has_k ? "v" : "k");
    SAC_TRY(check(t, &k, (const int64_t[]){t->d->n_heads, s->kv_rank, s->nope_dim}, 3));
    SAC_TRY(check(t, &v, (const int64_t[]){t->d->n_heads, s->value_dim, s->kv_rank}, 3));
    const bool has_f32 = k.dtype == SAC_DTYPE_F32 || v.dtype == SAC_DTYPE_F32, is_bf16 = k.dtype == SAC_DTYPE_BF16 && v.dtype == k.dtype;
    const sac_dtype type = has_f32 ? SAC_DTYPE_F32 : is_bf16 ? SAC_DTYPE_BF16 : SAC_DTYPE_F16;
    whole = k;
    whole.file = -1;
    whole.dtype = type;
    whole.dtype_name = sac_dtype_name(type);
    whole.n_dims = 2;
    whole.dim[0] = t->d->n_heads * (int64_t)(s->nope_dim + s->value_dim), whole.dim[1] = s->kv_rank;
    whole.n_bytes = (size_t)whole.dim[0] * sac_dtype_row_bytes(type, s->kv_rank);
    const int64_t longest = s->nope_dim > s->kv_rank ? s->nope_dim : s->kv_rank;
    float *row = malloc((size_t)longest * sizeof *row);
    uint8_t *to = row ? sac_checkpoint_own(t->c, whole.n_bytes) : NULL;
    if (to) join_heads(t, &k, &v, type, to, row);
    free(row);
    if (!to) return sac_fail(t->err, SAC_NO_MEMORY, "no memory for blk.%d.attn_kv_b.weight", layer);
    whole.data = to;
    SAC_TRY(sac_checkpoint_add(t->joined, &k, k.name, strlen(k.name), t->err));
    SAC_TRY(sac_checkpoint_add(t->joined, &v, v.name, strlen(v.name), t->err));
    drop(t, k.name);
    drop(t, v.name);
    SAC_TRY(add(t, &whole, layer, "attn_kv_b"));
    const char *name = t->c->tensors[t->c->n_tensors - 1].name;
    return sac_checkpoint_add(t->joined, &whole, name, strlen(name), t->err);
}

static sac_status name_queries(const table *t, int layer) {
    sac_checkpoint_tensor q, other;
    if (t->d->latent.q_rank || find(t, layer, "attn_q_b", &other) || !find(t, layer, "attn_q", &q)) return SAC_OK;
    drop(t, q.name);
    return add(t, &q, layer, "attn_q_b");
}

/* ---- linear attention ---- */

/* Of the rows of a key head, n from `first` on. */
typedef struct piece {
    int64_t first, n;
} piece;

/* Pieces of all key heads, one kind behind the other, as a tensor of its own; of each head there are `all` rows. */
static sac_status take_rows(const table *t, const sac_checkpoint_tensor *from, int64_t all, const piece *pieces, int n_pieces,
                            int layer, const char *part) {
    sac_checkpoint_tensor out = *from, there;
    if (find(t, layer, part, &there)) return SAC_OK;
    const int64_t heads = t->d->linear.n_key_heads;
    const size_t row_bytes = from->n_bytes / (size_t)from->dim[0];
    out.dim[0] = 0;
    for (int i = 0; i < n_pieces; i++) out.dim[0] += heads * pieces[i].n;
    out.n_bytes = (size_t)out.dim[0] * row_bytes;
    uint8_t *to = sac_checkpoint_own(t->c, out.n_bytes);
    if (!to) return sac_fail(t->err, SAC_NO_MEMORY, "no memory for blk.%d.%s.weight", layer, part);
    out.data = to;
    out.file = -1;
    for (int i = 0; i < n_pieces; i++)
        for (int64_t h = 0; h < heads; h++) {
            const size_t n_bytes = (size_t)pieces[i].n * row_bytes;
            memcpy(to, from->data + (size_t)(h * all + pieces[i].first) * row_bytes, n_bytes);
            to += n_bytes;
        }
    return add(t, &out, layer, part);
}

static sac_status part_heads(const table *t, int layer) {
    const sac_linear_shape *s = &t->d->linear;
    const int64_t heads = s->n_heads / s->n_key_heads, key = s->key_dim, values = heads * s->value_dim, all = 2 * (key + values);
    const piece mixed[] = {{0, key}, {key, key}, {2 * key, values}}, gates = {2 * key + values, values}, strengths = {0, heads},
                decays = {heads, heads};
    sac_checkpoint_tensor from;
    if (find(t, layer, "ssm_ba", &from)) {
        SAC_TRY(check(t, &from, (const int64_t[]){2 * s->n_heads, t->d->hidden}, 2));
        SAC_TRY(take_rows(t, &from, 2 * heads, &strengths, 1, layer, "ssm_beta"));
        SAC_TRY(take_rows(t, &from, 2 * heads, &decays, 1, layer, "ssm_alpha"));
        drop(t, from.name);
    }
    if (!find(t, layer, "ssm_in", &from)) return SAC_OK;
    SAC_TRY(check(t, &from, (const int64_t[]){s->n_key_heads * all, t->d->hidden}, 2));
    SAC_TRY(take_rows(t, &from, all, mixed, 3, layer, "attn_qkv"));
    SAC_TRY(take_rows(t, &from, all, &gates, 1, layer, "attn_gate"));
    drop(t, from.name);
    return SAC_OK;
}

/* ---- the whole ---- */

sac_status sac_language_tensors_shape(sac_checkpoint *c, const sac_decoder_config *d, sac_checkpoint *joined, sac_error *err) {
    const table t = {c, d, c->n_tensors, joined, err};
    if (!d->latent.kv_rank && !d->linear.n_heads) return SAC_OK;
    for (int layer = 0; layer < d->n_layers; layer++) {
        if (d->latent.kv_rank) {
            SAC_TRY(name_queries(&t, layer));
            SAC_TRY(join_latents(&t, layer));
        }
        if (sac_decoder_is_linear(d, layer)) SAC_TRY(part_heads(&t, layer));
    }
    for (int i = c->n_tensors - 1; i >= 0; i--)
        if (c->tensors[i].n_dims == 0) sac_checkpoint_drop(c, i);
    return sac_checkpoint_seal(c, err);
}

/* Entries stand by threes: keys, values, what they became. Where that was rounded meanwhile, the rounded matrix keeps its place. */
sac_status sac_language_tensors_part(sac_checkpoint *c, const sac_checkpoint *joined, sac_error *err) {
    const table t = {.c = c, .n_sorted = c->n_tensors};
    for (int i = 0; i + 2 < joined->n_tensors; i += 3) {
        const sac_checkpoint_tensor *whole = &joined->tensors[i + 2], *now = sac_checkpoint_find(c, whole->name);
        if (now && now->data == whole->data) drop(&t, whole->name);
        sac_checkpoint_disown(c, whole->data);
    }
    const int n = c->n_tensors;
    for (int i = n - 1; i >= 0; i--)
        if (c->tensors[i].n_dims == 0) sac_checkpoint_drop(c, i);
    if (c->n_tensors == n) return SAC_OK;
    for (int i = 0; i < joined->n_tensors; i++) {
        const sac_checkpoint_tensor *part = &joined->tensors[i];
        if (i % 3 < 2) SAC_TRY(sac_checkpoint_add(c, part, part->name, strlen(part->name), err));
    }
    return sac_checkpoint_seal(c, err);
}
