/* llm_int8_weights.c - bitsandbytes' 8 bits (Dettmers et al., LLM.int8(), NeurIPS 2022, arXiv:2208.07339): for each module
 *
 *   <module>.weight         I8 [n][k]
 *   <module>.SCB            F32 [n]: the largest magnitude of each row, w = q SCB / 127
 *   <module>.weight_format  U8: 0, rows as they are; newer files have it
 *
 * Activations stay as they are. bitsandbytes rounds those below "llm_int8_threshold" to 8 bits as they come, to
 * multiply whole numbers, and leaves columns with one above it in 16 bits: what it approximates is computed here. */
#include "bitsandbytes.h"

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    *is_mine = sac_bnb_is(quantization, 8);
    return *is_mine ? sac_bnb_check(quantization, err) : SAC_OK;
}

/* Others (col32, col_turing, col_ampere) have rows in an order for tensor cores of one kind. */
static sac_status check_order(const sac_checkpoint_tensor *order, const sac_checkpoint_tensor *t, sac_error *err) {
    if (!order) return SAC_OK;
    if (strcmp(order->dtype_name, "u8") != 0 || order->n_bytes != 1) return sac_quant_misshapen(order, t, err);
    if (order->data[0] == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s is %d, an order other than row by row (0): not supported",
                    order->name, order->data[0]);
}

static sac_status check_scales(const sac_checkpoint_tensor *scales, const sac_checkpoint_tensor *t, sac_error *err) {
    if (t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 || scales->dtype != SAC_DTYPE_F32 || scales->n_dims != 1 ||
        scales->dim[0] != t->dim[0])
        return sac_quant_misshapen(scales, t, err);
    return sac_quant_check_finite(scales, err);
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization, const sac_checkpoint_tensor *t,
                           int n_module, sac_checkpoint_tensor *out, sac_error *err) {
    const sac_checkpoint_tensor *scales;
    (void)quantization;
    SAC_TRY(sac_quant_need(c, t, n_module, "SCB", &scales, err));
    SAC_TRY(check_scales(scales, t, err));
    SAC_TRY(check_order(sac_quant_part(c, t->name, n_module, "weight_format"), t, err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_I8, t->dim[0], t->dim[1], err);
}

/* What a number of a row is multiplied with, in the place of its largest magnitude. */
static sac_status divide(sac_checkpoint *c, const sac_checkpoint_tensor *t, sac_error *err) {
    sac_checkpoint_tensor *part =
        (sac_checkpoint_tensor *)(uintptr_t)sac_quant_part(c, t->name, sac_quant_module(t, "weight"), "SCB");
    float *scales = sac_checkpoint_own(c, part->n_bytes);
    if (!scales) return sac_fail(err, SAC_NO_MEMORY, "no memory for the scales of %.100s", t->name);
    memcpy(scales, part->data, part->n_bytes);
    for (int64_t i = 0; i < t->dim[0]; i++) scales[i] /= 127;
    part->data = (const uint8_t *)scales;
    return SAC_OK;
}

/* Scales of anything else would not be divided, as those of one expert among others that share a tensor. */
static sac_status check_lone(const sac_checkpoint *c, const sac_checkpoint_tensor *scales, sac_error *err) {
    const int n_module = sac_quant_module(scales, "SCB");
    const sac_checkpoint_tensor *t = n_module ? sac_quant_part(c, scales->name, n_module, "weight") : NULL;
    if (!n_module || (t && t->dtype == SAC_DTYPE_I8)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has no weight in i8 beside it", scales->name);
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    SAC_TRY(sac_quant_name_all(c, quantization, "weight", "i8", "llm_int8_skip_modules", name_one, err));
    for (int i = 0; i < c->n_tensors; i++) SAC_TRY(check_lone(c, &c->tensors[i], err));
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype == SAC_DTYPE_I8 && sac_quant_module(&c->tensors[i], "weight"))
            SAC_TRY(divide(c, &c->tensors[i], err));
    return SAC_OK;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    return numbers->dtype == SAC_DTYPE_I8 && sac_bnb_is(s->quantization, 8) && sac_quant_module(numbers, "weight");
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    const sac_checkpoint_tensor *scales;
    SAC_TRY(sac_quant_need(s->checkpoint, numbers, n_module, "SCB", &scales, err)); /* one of several experts may have none */
    SAC_TRY(check_scales(scales, numbers, err));
    *out = (sac_weight){
        .tensor = sac_checkpoint_matrix(numbers),
        .scales = sac_checkpoint_matrix(scales),
        .group = numbers->dim[1],
        .format = SAC_WEIGHT_INT8};
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_llm_int8 = {.check = check, .name = name, .knows = knows, .read = read};
