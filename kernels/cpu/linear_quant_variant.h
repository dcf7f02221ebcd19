/* linear_quant_variant.h - the copies of linear_quant_tmpl.h for each weight format, joined to `variant`.
 * Included last, once, with PANELS and AS_SIGNED defined. */
SAC_LQ_MULTIPLY(multiply_q8_0, SAC_DTYPE_Q8_0, AS_SIGNED, PANELS)
SAC_LQ_MULTIPLY(multiply_q4_0, SAC_DTYPE_Q4_0, AS_SIGNED, PANELS)
SAC_LQ_MULTIPLY(multiply_q4_1, SAC_DTYPE_Q4_1, AS_SIGNED, PANELS)
SAC_LQ_MULTIPLY(multiply_q4_k, SAC_DTYPE_Q4_K, AS_SIGNED, PANELS)
SAC_LQ_MULTIPLY(multiply_q6_k, SAC_DTYPE_Q6_K, AS_SIGNED, PANELS)

static void multiply(const sac_lq_job *j, int64_t first, int64_t last, int64_t first_panel,
                     int64_t last_panel, void *scratch) {
    switch (j->a->w.tensor.dtype) {
    case SAC_DTYPE_Q8_0: multiply_q8_0(j, first, last, first_panel, last_panel, scratch); break;
    case SAC_DTYPE_Q4_0: multiply_q4_0(j, first, last, first_panel, last_panel, scratch); break;
    case SAC_DTYPE_Q4_1: multiply_q4_1(j, first, last, first_panel, last_panel, scratch); break;
    case SAC_DTYPE_Q4_K: multiply_q4_k(j, first, last, first_panel, last_panel, scratch); break;
    case SAC_DTYPE_Q6_K: multiply_q6_k(j, first, last, first_panel, last_panel, scratch); break;
    default: break;
    }
}

static const sac_lq_variant variant = {VF, quantize_panel, multiply};
