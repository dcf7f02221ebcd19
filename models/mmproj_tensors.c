/* mmproj_tensors.c - the tensors of a vision half in GGUF as Hugging Face's checkpoints have them, whose names and shapes
 * the towers' YAML tells. Converters have changed over the years: queries, keys and values are one matrix or three; of
 * files from before 2025 the feed-forward layers' names are exchanged; a patch of two frames is two tensors; Pixtral's queries
 * and keys have the pairs that are rotated side by side. What lies in
 * one piece in the file stays where it is mapped. */
#include "dtype.h"
#include "model_load.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME_BYTES 128

/* The table while it changes: what is new stands behind the sorted entries, and what is dropped among them. */
typedef struct table {
    sac_checkpoint *c;
    int n_sorted;
    sac_error *err;
} table;

static int by_name(const void *key, const void *t) {
    return strcmp(key, ((const sac_checkpoint_tensor *)t)->name);
}

static sac_checkpoint_tensor *find(const table *t, const char *name) {
    if (t->n_sorted == 0) return NULL;
    return bsearch(name, t->c->tensors, (size_t)t->n_sorted, sizeof *t->c->tensors, by_name);
}

static sac_checkpoint_tensor *find_of_block(const table *t, char name[NAME_BYTES], int layer,
                                            const char *part, const char *kind) {
    snprintf(name, NAME_BYTES, "v.blk.%d.%s.%s", layer, part, kind);
    return find(t, name);
}

static sac_status add(table *t, const sac_checkpoint_tensor *tensor, const char *name) {
    return sac_checkpoint_add(t->c, tensor, name, strlen(name), t->err);
}

static void drop(sac_checkpoint_tensor *t) {
    t->n_dims = 0;
}

static sac_status finish(table *t) {
    sac_checkpoint *c = t->c;
    int n = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        if (c->tensors[i].n_dims)
            c->tensors[n++] = c->tensors[i];
        else
            free(c->tensors[i].name);
    }
    c->n_tensors = n;
    return sac_checkpoint_seal(c, t->err);
}

static const char *const kinds[] = {"weight", "bias"};

/* ---- up and down ---- */

static void exchange(sac_checkpoint_tensor *a, sac_checkpoint_tensor *b) {
    const sac_checkpoint_tensor was = *a;
    char *name_a = a->name, *name_b = b->name;
    *a = *b;
    *b = was;
    a->name = name_a;
    b->name = name_b;
}

/* The matrix down gives rows of the tower's width: [hidden, feed-forward]. */
static sac_status name_feed_forward(sac_checkpoint *c, int hidden, sac_error *err) {
    const table t = {c, c->n_tensors, err};
    char up_name[NAME_BYTES], down_name[NAME_BYTES];
    for (int i = 0; i < c->n_tensors; i++) { /* there are no more blocks than tensors */
        const sac_checkpoint_tensor *down = find_of_block(&t, down_name, i, "ffn_down", kinds[0]);
        if (!down) return SAC_OK;
        if (down->n_dims != 2) return sac_fail(err, SAC_BAD_FILE, "tensor %s is no matrix", down_name);
        if (down->dim[0] == hidden || down->dim[1] != hidden) continue;
        for (size_t k = 0; k < SAC_COUNT(kinds); k++) {
            sac_checkpoint_tensor *a = find_of_block(&t, up_name, i, "ffn_up", kinds[k]),
                                  *b = find_of_block(&t, down_name, i, "ffn_down", kinds[k]);
            if (!a != !b) return sac_fail(err, SAC_BAD_FILE, "tensor %s is missing", a ? down_name : up_name);
            if (a) exchange(a, b);
        }
    }
    return SAC_OK;
}

/* LLaVA-1.6's, as a converter of 2024 has it. */
static sac_status name_newline(sac_checkpoint *c, sac_error *err) {
    table t = {c, c->n_tensors, err};
    sac_checkpoint_tensor *found = find(&t, "model.image_newline");
    if (!found) return SAC_OK;
    const sac_checkpoint_tensor copy = *found;
    drop(found);
    SAC_TRY(add(&t, &copy, "v.image_newline"));
    return finish(&t);
}

sac_status sac_mmproj_name_tensors(sac_checkpoint *c, int hidden, sac_error *err) {
    SAC_TRY(name_feed_forward(c, hidden, err));
    return name_newline(c, err);
}

/* ---- one or three ---- */

/* Whether rows of one can stand under those of the other. */
static bool is_alike(const sac_checkpoint_tensor *a, const sac_checkpoint_tensor *b) {
    bool same = a->dtype == b->dtype && a->n_dims == b->n_dims && a->dtype >= 0 && a->dim[0] <= INT32_MAX &&
                b->dim[0] <= INT32_MAX;
    for (int i = 1; same && i < a->n_dims; i++) same = a->dim[i] == b->dim[i];
    return same;
}

/* Queries, keys and values under one another. */
static sac_status join(table *t, sac_checkpoint_tensor *const part[3], const char *name) {
    sac_checkpoint_tensor whole = *part[0];
    bool in_one_piece = true;
    for (int i = 1; i < 3; i++) {
        if (!is_alike(part[0], part[i]))
            return sac_fail(t->err, SAC_BAD_FILE, "tensors %.80s and %.80s are not alike in type or width",
                            part[0]->name, part[i]->name);
        in_one_piece &= part[i - 1]->data + part[i - 1]->n_bytes == part[i]->data;
        whole.n_bytes += part[i]->n_bytes;
        whole.dim[0] += part[i]->dim[0];
    }
    if (!in_one_piece) {
        uint8_t *copy = sac_checkpoint_own(t->c, whole.n_bytes);
        if (!copy) return sac_fail(t->err, SAC_NO_MEMORY, "no memory for %s", name);
        whole.data = copy;
        for (int i = 0; i < 3; copy += part[i++]->n_bytes) memcpy(copy, part[i]->data, part[i]->n_bytes);
    }
    for (int i = 0; i < 3; i++) drop(part[i]);
    return add(t, &whole, name);
}

static const char *const thirds[] = {"attn_q", "attn_k", "attn_v"};

/* What is missing the binder says. */
static sac_status join_block(table *t, int layer, const char *kind) {
    char name[NAME_BYTES];
    sac_checkpoint_tensor *part[3];
    for (int i = 0; i < 3; i++) part[i] = find_of_block(t, name, layer, thirds[i], kind);
    if (!part[0] || !part[1] || !part[2]) return SAC_OK;
    find_of_block(t, name, layer, "attn_qkv", kind);
    return join(t, part, name);
}

static sac_status split_block(table *t, int layer, const char *kind) {
    char name[NAME_BYTES];
    sac_checkpoint_tensor *whole = find_of_block(t, name, layer, "attn_qkv", kind);
    if (!whole) return SAC_OK;
    sac_checkpoint_tensor third = *whole;
    const bool is_rows =
        third.n_dims > 1 || (third.dtype >= 0 && sac_dtype_block((sac_dtype)third.dtype) == 1);
    if (third.dim[0] % 3 || !is_rows)
        return sac_fail(t->err, SAC_BAD_FILE, "tensor %s has %lld rows of %s, which are not three parts",
                        name, (long long)third.dim[0], third.dtype_name);
    third.dim[0] /= 3;
    third.n_bytes /= 3;
    drop(whole);
    for (int i = 0; i < 3; i++, third.data += third.n_bytes) {
        find_of_block(t, name, layer, thirds[i], kind);
        SAC_TRY(add(t, &third, name));
    }
    return SAC_OK;
}

/* ---- patches of several frames ---- */

/* [hidden, 3, p, p] twice as [hidden, 3, 2, p, p]. */
static sac_status join_frames(table *t) {
    static const char first[] = "v.patch_embd.weight", second[] = "v.patch_embd.weight.1";
    sac_checkpoint_tensor *a = find(t, first), *b = find(t, second);
    if (!a || !b) return sac_fail(t->err, SAC_BAD_FILE, "tensor %s is missing", a ? second : first);
    if (!is_alike(a, b) || a->n_dims != 4 || a->dim[0] != b->dim[0] || a->n_bytes == 0 ||
        a->dim[1] > INT32_MAX || sac_dtype_block((sac_dtype)a->dtype) > 1)
        return sac_fail(t->err, SAC_BAD_FILE,
                        "tensors %s and %s must be two convolutions of one shape and type", first, second);
    uint8_t *whole = sac_checkpoint_own(t->c, 2 * a->n_bytes);
    if (!whole) return sac_fail(t->err, SAC_NO_MEMORY, "no memory for %s", first);
    const size_t n_planes = (size_t)(a->dim[0] * a->dim[1]), plane = a->n_bytes / n_planes;
    for (size_t i = 0; i < n_planes; i++) {
        memcpy(whole + 2 * i * plane, a->data + i * plane, plane);
        memcpy(whole + (2 * i + 1) * plane, b->data + i * plane, plane);
    }
    const int64_t dim[] = {a->dim[0], a->dim[1], 2, a->dim[2], a->dim[3]};
    memcpy(a->dim, dim, sizeof dim);
    a->n_dims = (int)SAC_COUNT(dim);
    a->data = whole;
    a->n_bytes *= 2;
    drop(b);
    return SAC_OK;
}

/* ---- mergers of layers ---- */

/* They are numbered as the tower's layers; here from 0 on. */
static sac_status number_deep(table *t, const sac_tower_config *tower, int n_deep) {
    static const char *const parts[] = {"norm", "fc1", "fc2"};
    char name[NAME_BYTES];
    for (int i = 0; i < n_deep; i++)
        for (size_t p = 0; p < SAC_COUNT(parts); p++)
            for (size_t k = 0; k < SAC_COUNT(kinds); k++) {
                snprintf(name, sizeof name, "v.deepstack.%d.%s.%s", tower->feature_layer[i + 1] - 1, parts[p],
                         kinds[k]);
                sac_checkpoint_tensor *found = find(t, name), copy;
                if (!found) return sac_fail(t->err, SAC_BAD_FILE, "tensor %s is missing", name);
                copy = *found;
                drop(found);
                snprintf(name, sizeof name, "v.deepstack.%d.%s.%s", i, parts[p], kinds[k]);
                SAC_TRY(add(t, &copy, name));
            }
    return SAC_OK;
}

/* ---- pairs of rotations ---- */

/* Rows of queries or keys whose pairs are neighbours, as halves of their heads: whatever a row is stored as. */
static sac_status part_pairs(table *t, int layer, const char *part, const sac_tower_config *tower) {
    char name[NAME_BYTES];
    sac_checkpoint_tensor *found = find_of_block(t, name, layer, part, kinds[0]);
    if (!found) return SAC_OK; /* the binder says so */
    if (found->n_dims != 2 || found->dim[0] != tower->hidden)
        return sac_fail(t->err, SAC_BAD_FILE, "tensor %s is no matrix of %d rows", name, tower->hidden);
    const size_t row = found->n_bytes / (size_t)tower->hidden;
    const int dim = tower->hidden / tower->n_heads, half = dim / 2;
    uint8_t *copy = sac_checkpoint_own(t->c, found->n_bytes);
    if (!copy) return sac_fail(t->err, SAC_NO_MEMORY, "no memory for %s", name);
    for (int i = 0; i < tower->hidden; i++) {
        const int in = i % dim, to = i - in + in % 2 * half + in / 2;
        memcpy(copy + (size_t)to * row, found->data + (size_t)i * row, row);
    }
    found->data = copy;
    return SAC_OK;
}

/* ---- positions of a square ---- */

/* [side * side, hidden] as [side, side, hidden], Kimi-VL's. */
static void square_positions(const table *t, const sac_tower_config *tower) {
    sac_checkpoint_tensor *found = find(t, "v.position_embd.weight");
    if (!found || found->n_dims != 2 || found->dim[0] != (int64_t)tower->table_side * tower->table_side) return; /* the binder says so */
    found->dim[2] = found->dim[1];
    found->dim[0] = found->dim[1] = tower->table_side;
    found->n_dims = 3;
}

/* ---- the whole ---- */

/* GLM-OCR's takes its queries, keys and values as rows of one, as folders have it. */
static bool wants_one_matrix(const sac_tower_kind *kind) {
    if (kind == &sac_tower_glmocrvit) return true;
    for (int i = 0; i < kind->n_slots; i++)
        if (strcmp(kind->slots[i].name, "tower.layer.qkv") == 0) return true;
    return false;
}

sac_status sac_mmproj_shape_tensors(sac_checkpoint *c, const sac_tower_config *tower, int n_deep,
                                    sac_error *err) {
    table t = {c, c->n_tensors, err};
    const bool one = wants_one_matrix(tower->kind);
    for (int layer = 0; layer < tower->n_layers; layer++)
        for (size_t k = 0; k < SAC_COUNT(kinds); k++)
            SAC_TRY((one ? join_block : split_block)(&t, layer, kinds[k]));
    for (int layer = 0; layer < tower->n_layers && tower->kind == &sac_tower_pixtral; layer++)
        for (int i = 0; i < 2; i++) SAC_TRY(part_pairs(&t, layer, thirds[i], tower));
    if (tower->temporal_patch_size > 1) SAC_TRY(join_frames(&t));
    if (tower->kind == &sac_tower_moonvit) square_positions(&t, tower);
    SAC_TRY(number_deep(&t, tower, n_deep));
    return finish(&t);
}
