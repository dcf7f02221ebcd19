#include "tensor_table.h"

#include "family.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* The file, the one that it is like, and so on; `tower`: instead of the second. */
static sac_status find_specs(sac_tensor_table *t, const char *name, const char *tower, sac_error *err) {
    for (const char *like = name; like; tower = NULL) {
        if (t->n_specs == (int)SAC_COUNT(t->specs))
            return sac_fail(err, SAC_BAD_CONFIG, "models/%s.yaml: is like too many others", name);
        SAC_TRY(sac_family_spec_find(&t->specs[t->n_specs], like, err));
        like = t->specs[t->n_specs++]->like;
        if (like && tower) like = tower;
    }
    return SAC_OK;
}

static void add_symbol(sac_tensor_table *t, const char *name, int64_t value) {
    t->symbols[t->n_symbols++] = (sac_shape_symbol){name, value};
}

static void add_symbols(sac_tensor_table *t, const sac_model_config *c) {
    const sac_decoder_config *d = &c->decoder;
    add_symbol(t, "hidden", d->hidden);
    add_symbol(t, "heads", d->n_heads);
    add_symbol(t, "kv_heads", d->n_kv_heads);
    add_symbol(t, "head_dim", d->head_dim);
    add_symbol(t, "intermediate", d->intermediate);
    add_symbol(t, "vocab", d->vocab);
    add_symbol(t, "experts", d->experts.n);
    add_symbol(t, "expert_width", d->experts.intermediate);
    add_symbol(t, "shared_width", d->experts.shared);
    add_symbol(t, "linear_mixed", sac_linear_mixed(&d->linear));
    add_symbol(t, "linear_values", sac_linear_values(&d->linear));
    add_symbol(t, "linear_heads", d->linear.n_heads);
    add_symbol(t, "linear_value_dim", d->linear.value_dim);
    add_symbol(t, "linear_width", d->linear.conv_width);
    add_symbol(t, "latent_queries", d->latent.q_rank);
    add_symbol(t, "latent_query_in", d->latent.q_rank ? d->latent.q_rank : d->hidden);
    add_symbol(t, "latent_rank", d->latent.kv_rank);
    add_symbol(t, "latent_width", sac_latent_width(&d->latent));
    add_symbol(t, "latent_each", d->latent.nope_dim + d->latent.value_dim);
    add_symbol(t, "latent_value", d->latent.value_dim);
    t->latent = d->latent;
    t->linear = d->linear;
    t->n_heads = d->n_heads;
    t->n_experts = d->experts.n;
    sac_shape_symbol tower[SAC_TOWER_MAX_SYMBOLS], merger[SAC_MERGER_MAX_SYMBOLS];
    const sac_merger m = sac_model_config_merger(c);
    int n = c->has_vision ? c->tower.kind->symbols(&c->tower, tower) : 0;
    for (int i = 0; i < n; i++) t->symbols[t->n_symbols++] = tower[i];
    n = c->has_vision ? m.kind->symbols(&m, merger) : 0;
    for (int i = 0; i < n; i++) t->symbols[t->n_symbols++] = merger[i];
}

sac_status sac_tensor_table_init(sac_tensor_table *t, const sac_model_config *c, sac_error *err) {
    memset(t, 0, sizeof *t);
    SAC_TRY(find_specs(t, c->family->name, c->has_vision ? c->tower.kind->name : NULL, err));
    if (c->text_family != c->family) SAC_TRY(find_specs(t, c->text_family->name, NULL, err));
    add_symbols(t, c);
    return SAC_OK;
}

const sac_spec_tensor *sac_tensor_table_row(const sac_tensor_table *t, const char *slot) {
    const sac_spec_tensor *first = NULL;
    for (int i = 0; i < t->n_specs; i++)
        for (int k = 0; k < t->specs[i]->n_tensors; k++) {
            const sac_spec_tensor *row = &t->specs[i]->tensors[k];
            if (strcmp(row->slot, slot) != 0) continue;
            if (!t->gguf || row->gguf) return row;
            if (!first) first = row;
        }
    return first;
}

/* ---- names ---- */

/* `pattern` with {i} replaced by the layer, {e} by the expert and {other} by the k-th prefix of that name, which the model's own
 * family lists. False when there is no k-th prefix, or when the name does not fit. */
static bool expand(const sac_tensor_table *t, const char *pattern, int layer, int k,
                   char out[SAC_TENSOR_NAME_BYTES]) {
    size_t used = 0;
    bool has_prefix = false;
    const int n_each = strstr(pattern, "{e}") ? t->n_experts : 0;
    for (const char *p = pattern; *p;) {
        char *at = out + used;
        size_t room = SAC_TENSOR_NAME_BYTES - used;
        int n;
        const char *close = *p == '{' ? strchr(p, '}') : NULL;
        if (!close) {
            n = snprintf(at, room, "%c", *p++);
        } else if (strncmp(p, "{i}", 3) == 0) {
            n = snprintf(at, room, "%d", n_each ? layer / n_each : layer);
            p = close + 1;
        } else if (n_each && strncmp(p, "{e}", 3) == 0) {
            n = snprintf(at, room, "%d", layer % n_each);
            p = close + 1;
        } else {
            char name[32];
            snprintf(name, sizeof name, "%.*s", (int)(close - p - 1), p + 1);
            const sac_spec_list *prefixes = sac_family_spec_prefix(t->specs[0], name);
            if (!prefixes || k >= prefixes->n) return false;
            n = snprintf(at, room, "%s", prefixes->item[k]);
            has_prefix = true;
            p = close + 1;
        }
        if (n < 0 || (used += (size_t)n) >= SAC_TENSOR_NAME_BYTES) return false;
    }
    return has_prefix || k == 0;
}

bool sac_tensor_table_name(const sac_tensor_table *t, const sac_spec_tensor *row, bool gguf, int layer,
                           int which, char name[SAC_TENSOR_NAME_BYTES]) {
    if (gguf) return which == 0 && row->gguf && expand(t, row->gguf, layer, 0, name);
    for (int i = 0; i < row->names.n; i++)
        for (int k = 0; expand(t, row->names.item[i], layer, k, name); k++)
            if (which-- == 0) return true;
    return false;
}

const sac_checkpoint_tensor *sac_tensor_table_find(const sac_tensor_table *t, const sac_spec_tensor *row,
                                                   const sac_checkpoint *checkpoint, bool gguf, int layer,
                                                   char name[SAC_TENSOR_NAME_BYTES]) {
    name[0] = 0;
    for (int which = 0; sac_tensor_table_name(t, row, gguf, layer, which, name); which++) {
        const sac_checkpoint_tensor *found = sac_checkpoint_find(checkpoint, name);
        if (found) return found;
    }
    if (!sac_tensor_table_name(t, row, gguf, layer, 0, name)) name[0] = 0;
    return NULL;
}

/* ---- shapes ---- */

/* Sum of products of symbols and integers: "grid*grid+1". -1 when it is not one. */
static int64_t evaluate(const sac_tensor_table *t, const char *text) {
    int64_t sum = 0, product = 1;
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, "*+");
        int64_t value = -1;
        if (n && isdigit((unsigned char)*p)) value = strtol(p, NULL, 10);
        for (int i = 0; i < t->n_symbols && value < 0; i++)
            if (strncmp(t->symbols[i].name, p, n) == 0 && !t->symbols[i].name[n]) value = t->symbols[i].value;
        if (value < 0) return -1;
        product *= value;
        p += n;
        if (*p == '*') continue;
        sum += product;
        product = 1;
        if (!*p) return sum;
    }
}

static bool is_same_shape(const int64_t *a, int n_a, const int64_t *b, int n_b, bool ones_count) {
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (!ones_count && i < n_a && a[i] == 1) i++;
        while (!ones_count && k < n_b && b[k] == 1) k++;
        if (i == n_a || k == n_b) return i == n_a && k == n_b;
        if (a[i] != b[k]) return false;
    }
}

sac_status sac_tensor_table_check(const sac_tensor_table *t, const sac_spec_tensor *row, bool gguf,
                                  const sac_checkpoint_tensor *found, sac_error *err) {
    int64_t want[SAC_SPEC_MAX_ITEMS];
    for (int i = 0; i < row->shape.n; i++) {
        want[i] = evaluate(t, row->shape.item[i]);
        if (want[i] < 0)
            return sac_fail(err, SAC_INTERNAL, "shape \"%s\" of %s cannot be evaluated", row->shape.item[i],
                            row->slot);
    }
    if (row->within.n) want[0] = evaluate(t, row->within.item[1]);
    if (is_same_shape(found->dim, found->n_dims, want, row->shape.n, !gguf)) return SAC_OK;
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has shape %s, the configuration asks for %s",
                    found->name, sac_shape_text(a, found->dim, found->n_dims),
                    sac_shape_text(b, want, row->shape.n));
}

sac_status sac_tensor_table_rows(const sac_tensor_table *t, const sac_spec_tensor *row, int64_t n_all, int64_t *first, int64_t *n,
                                 sac_error *err) {
    *first = evaluate(t, row->within.item[0]), *n = evaluate(t, row->shape.item[0]);
    if (*first >= 0 && *n >= 1 && *n <= n_all && *first <= n_all - *n) return SAC_OK;
    return sac_fail(err, SAC_INTERNAL, "rows \"%s\" of %s are not in it", row->within.item[0], row->slot);
}

sac_status sac_tensor_table_part(const sac_tensor_table *t, const sac_spec_tensor *row,
                                 const sac_checkpoint_tensor *whole, sac_checkpoint_tensor *part, sac_error *err) {
    int64_t first, n;
    *part = *whole;
    if (whole->dtype != SAC_DTYPE_F32 && whole->dtype != SAC_DTYPE_F16 && whole->dtype != SAC_DTYPE_BF16)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s is %s; what holds several vectors is read in f32, f16 or bf16 only",
                        whole->name, whole->dtype_name);
    SAC_TRY(sac_tensor_table_rows(t, row, whole->dim[0], &first, &n, err));
    const size_t row_bytes = whole->n_bytes / (size_t)whole->dim[0];
    part->dim[0] = n;
    part->n_bytes = (size_t)n * row_bytes;
    part->data = whole->data + (size_t)first * row_bytes;
    return SAC_OK;
}

sac_status sac_tensor_table_inputs(const sac_tensor_table *t, const sac_spec_tensor *row, int64_t n_columns, int64_t *outer,
                                   int64_t *inner, sac_error *err) {
    *outer = evaluate(t, row->inputs.item[0]);
    *inner = evaluate(t, row->inputs.item[1]);
    if (*outer > 0 && *inner > 0 && *outer * *inner == n_columns) return SAC_OK;
    return sac_fail(err, SAC_INTERNAL, "inputs \"%s\" and \"%s\" of %s are not its %lld columns", row->inputs.item[0],
                    row->inputs.item[1], row->slot, (long long)n_columns);
}

sac_row_range sac_tensor_table_range(const sac_tensor_table *t, const sac_spec_tensor *row) {
    sac_row_range r = {0};
    if (!row->within.n) return r;
    r.first = evaluate(t, row->within.item[0]);
    r.n = evaluate(t, row->shape.item[0]);
    r.n_whole = evaluate(t, row->within.item[1]);
    return r;
}
