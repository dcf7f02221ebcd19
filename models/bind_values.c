#include "bind_values.h"

#include "kept_adapters.h"

#include <math.h>

/* Bytes at which an element, or a block's f16 scale, must be aligned to be read directly. */
static size_t natural_alignment(sac_dtype t) {
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_I32 ? 4 : t >= SAC_DTYPE_I8 ? 1 : 2;
}

static int64_t count(const sac_checkpoint_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

/* Values of [rows][columns], read as [columns][rows]. */
static void to_f32_turned(float *out, const sac_checkpoint_tensor *t, int64_t n) {
    const int64_t rows = t->dim[0], cols = n / rows;
    const size_t element = sac_dtype_row_bytes(t->dtype, 1);
    for (int64_t i = 0; i < n; i++) {
        sac_checkpoint_tensor one = *t;
        one.data += (size_t)i * element;
        sac_checkpoint_to_f32(out + i % cols * rows + i / cols, &one, 1);
    }
}

/* The logarithms of what decays, of which files have the negative. */
static sac_status take_logs(float *values, int64_t n, const char *name, sac_error *err) {
    for (int64_t i = 0; i < n; i++) {
        if (!(values[i] < 0 && isfinite(values[i])))
            return sac_fail(err, SAC_BAD_FILE, "tensor %.100s: value %lld must be negative", name, (long long)i);
        values[i] = (float)log(-(double)values[i]);
    }
    return SAC_OK;
}

sac_status sac_bind_vector(sac_value_binder *b, const sac_spec_tensor *row, const sac_checkpoint_tensor *t,
                           const sac_adapted *adapted, const float **out) {
    if (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16)
        return sac_fail(b->err, SAC_UNSUPPORTED, "tensor %.100s is %s; f32, f16 or bf16 is needed here",
                        t->name, t->dtype_name);
    int64_t n = count(t);
    const sac_tensor base = sac_checkpoint_matrix(t);
    void *values = NULL;
    if (row->transposed && adapted->n_loras)
        return sac_fail(b->err, SAC_UNSUPPORTED, "tensor %.100s is supported without an adapter only",
                        t->name);
    SAC_TRY(sac_lora_check(adapted->loras, adapted->n_loras, &base, b->err));
    SAC_TRY(sac_bind_take(b, t->name, (size_t)n * sizeof(float), &values));
    if (!b->arena) return SAC_OK;
    *out = values;
    if (adapted->n_loras)
        SAC_TRY(sac_lora_merge(adapted->loras, adapted->n_loras, &base, SAC_DTYPE_F32, values,
                               b->source->pool, b->err));
    else
        (row->transposed ? to_f32_turned : sac_checkpoint_to_f32)(values, t, n);
    for (int64_t i = 0; i < n && row->plus_one && !b->source->gguf; i++) ((float *)values)[i] += 1.0f;
    if (row->decays && b->source->gguf) return take_logs(values, n, t->name, b->err);
    return SAC_OK;
}

/* A tensor that may be read where it is mapped stays there. */
static sac_status bind_tensor(sac_value_binder *b, const char *name, sac_tensor *t) {
    size_t n_bytes = sac_weight_part_bytes(t);
    if ((uintptr_t)t->data % natural_alignment(t->dtype) == 0) return SAC_OK;
    void *copy = NULL;
    SAC_TRY(sac_bind_take(b, name, n_bytes, &copy));
    if (!b->arena) return SAC_OK;
    memcpy(copy, t->data, n_bytes);
    t->data = copy;
    return SAC_OK;
}

static void transpose(uint8_t *to, const uint8_t *from, int64_t rows, int64_t cols, size_t element) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            memcpy(to + (size_t)(j * rows + i) * element, from + (size_t)(i * cols + j) * element, element);
}

/* A copy with rows and columns exchanged, which the file has the other way round; or with those of each row, which there is
 * [channels][places]. */
static sac_status turn(sac_value_binder *b, const sac_spec_tensor *row, const sac_checkpoint_tensor *from,
                       const sac_adapted *adapted, sac_weight *w) {
    sac_tensor *t = &w->tensor;
    void *copy = NULL;
    if (w->format != SAC_WEIGHT_FLOATS || adapted->n_loras)
        return sac_fail(b->err, SAC_UNSUPPORTED,
                        "tensor %.100s is supported in f32, f16 or bf16 only, and without an "
                        "adapter",
                        from->name);
    SAC_TRY(sac_bind_take(b, from->name, sac_weight_part_bytes(t), &copy));
    const int64_t rows = t->dim[0], cols = t->dim[1], inner = row->channels_last ? from->dim[1] : 0;
    const size_t element = sac_dtype_row_bytes(t->dtype, 1), row_bytes = (size_t)cols * element;
    for (int64_t i = 0; b->arena && inner && i < rows; i++)
        transpose((uint8_t *)copy + (size_t)i * row_bytes, (const uint8_t *)t->data + (size_t)i * row_bytes,
                  inner, cols / inner, element);
    if (b->arena && !inner) transpose(copy, t->data, rows, cols, element);
    if (b->arena) t->data = copy;
    if (!inner) t->dim[0] = cols, t->dim[1] = rows;
    return SAC_OK;
}

/* A copy whose columns stand in the order that they are read in, of a file that has them as [outer][inner]. */
static sac_status exchange_inputs(sac_value_binder *b, const sac_spec_tensor *row, const char *name,
                                  const sac_adapted *adapted, sac_weight *w) {
    sac_tensor *t = &w->tensor;
    void *copy = NULL;
    int64_t outer, inner;
    if (w->format != SAC_WEIGHT_FLOATS || adapted->n_loras ||
        (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16))
        return sac_fail(b->err, SAC_UNSUPPORTED,
                        "tensor %.100s is supported in f32, f16 or bf16 only, and without an adapter", name);
    SAC_TRY(sac_tensor_table_inputs(b->table, row, t->dim[1], &outer, &inner, b->err));
    SAC_TRY(sac_bind_take(b, name, sac_weight_part_bytes(t), &copy));
    if (!b->arena) return SAC_OK;
    const size_t element = sac_dtype_row_bytes(t->dtype, 1);
    for (int64_t i = 0; i < t->dim[0]; i++) {
        const uint8_t *from = (const uint8_t *)t->data + (size_t)(i * t->dim[1]) * element;
        uint8_t *to = (uint8_t *)copy + (size_t)(i * t->dim[1]) * element;
        for (int64_t j = 0; j < t->dim[1]; j++)
            memcpy(to + (size_t)(j % inner * outer + j / inner) * element, from + (size_t)j * element,
                   element);
    }
    t->data = copy;
    return SAC_OK;
}

/* The sum of the matrix and what adapters add to it, in the matrix's type. */
static sac_status merge(sac_value_binder *b, const char *name, const sac_adapted *adapted, sac_weight *w) {
    void *sum = NULL;
    SAC_TRY(sac_lora_check(adapted->loras, adapted->n_loras, &w->tensor, b->err));
    SAC_TRY(sac_bind_take(b, name, sac_weight_part_bytes(&w->tensor), &sum));
    if (!b->arena) return SAC_OK;
    SAC_TRY(sac_lora_merge(adapted->loras, adapted->n_loras, &w->tensor, w->tensor.dtype, sum,
                           b->source->pool, b->err));
    w->tensor.data = sum;
    return SAC_OK;
}

/* Of a tensor that holds several matrices, this one. */
static sac_status take_rows(sac_value_binder *b, const sac_spec_tensor *row, const sac_checkpoint_tensor *t,
                            sac_weight *w) {
    int64_t first, n;
    SAC_TRY(sac_tensor_table_rows(b->table, row, w->tensor.dim[0], &first, &n, b->err));
    return sac_weight_rows(w, t->name, first, n, b->err);
}

sac_status sac_bind_matrix(sac_value_binder *b, const sac_checkpoint *checkpoint, const sac_spec_tensor *row,
                           const sac_checkpoint_tensor *t, const sac_adapted *adapted, sac_weight *out) {
    const sac_weight_source source = {checkpoint, b->source->quantization};
    sac_weight w;
    SAC_TRY(sac_weight_read(&source, t, &w, b->err));
    if (row->within.n) SAC_TRY(take_rows(b, row, t, &w));
    if (row->spread)
        SAC_TRY((b->table->latent.kv_rank ? sac_bind_spread : sac_bind_regrouped)(b, row, t->name, adapted, &w));
    else if (row->transposed || row->channels_last)
        SAC_TRY(turn(b, row, t, adapted, &w));
    else if (row->inputs.n)
        SAC_TRY(exchange_inputs(b, row, t->name, adapted, &w));
    else if (adapted->n_loras && (w.format == SAC_WEIGHT_FLOATS || !sac_kept_adapters_have_slot(row->slot)))
        SAC_TRY(merge(b, t->name, adapted, &w));
    else { /* what adapters add to most quantised matrices of a layer is kept apart (kept_adapters.h) */
        SAC_TRY(bind_tensor(b, t->name, &w.tensor));
        SAC_TRY(bind_tensor(b, t->name, &w.scales));
        SAC_TRY(bind_tensor(b, t->name, &w.zeros));
        SAC_TRY(bind_tensor(b, t->name, &w.order));
    }
    if (b->arena) *out = w;
    return SAC_OK;
}
