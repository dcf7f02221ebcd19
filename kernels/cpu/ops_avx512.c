/* The row ops at this instruction set, and its slots of the table. */
#include "cpu.h"

#if defined(__AVX512F__)
#include "blend_rows_tmpl.h"
#include "causal_conv_tmpl.h"
#include "delta_rule_tmpl.h"
#include "kept_rows_tmpl.h"
#include "key_scores_tmpl.h"
#include "kv_gather_tmpl.h"
#include "kv_store_tmpl.h"
#include "layernorm_tmpl.h"
#include "pool_tokens_tmpl.h"
#include "rmsnorm_tmpl.h"
#include "rope_tmpl.h"
#include "scale_add_tmpl.h"
#include "swiglu_tmpl.h"
#include "top_k_tmpl.h"
#include "top_p_tmpl.h"

#include "channels_tmpl.h"
#include "choice_step_tmpl.h"
#include "packed_attention.h"
#include "packed_turned_tmpl.h"
#include "packed_vote_tmpl.h"
#include "pages_tmpl.h"

static sac_status packed_vote_avx512(const sac_stream *s, const sac_packed_vote_args *a) {
    return packed_vote_over_avx512(s, a, sac_packed_scores_avx512);
}
static sac_status packed_vote_vnni(const sac_stream *s, const sac_packed_vote_args *a) {
    return packed_vote_over_avx512(s, a, sac_packed_scores_vnni);
}
static sac_status packed_scores_avx512(const sac_stream *s, const sac_packed_scores_args *a) {
    return packed_scores_or_avx512(s, a, sac_packed_scores_avx512);
}
static sac_status packed_scores_vnni(const sac_stream *s, const sac_packed_scores_args *a) {
    return packed_scores_or_avx512(s, a, sac_packed_scores_vnni);
}

void sac_ops_set_avx512(sac_ops *t) {
    t->rmsnorm = rmsnorm_avx512;
    t->layernorm = layernorm_avx512;
    t->rope = rope_avx512;
    t->swiglu = swiglu_avx512;
    t->kv_store = kv_store_avx512;
    t->key_scores = key_scores_avx512;
    t->kv_gather = kv_gather_avx512;
    t->kept_rows = kept_rows_avx512;
    t->top_k = top_k_avx512;
    t->top_p = top_p_avx512;
    t->softmax = softmax_avx512;
    t->soft_vote = soft_vote_avx512;
    t->pool_tokens = pool_tokens_avx512;
    t->blend_rows = blend_rows_avx512;
    t->scale_add = scale_add_avx512;
    t->causal_conv = causal_conv_avx512;
    t->delta_rule = delta_rule_avx512;
    t->choice_step = choice_step_avx512;
    bool vnni = t->packed_scores == sac_packed_scores_vnni;
    t->packed_vote = vnni ? packed_vote_vnni : packed_vote_avx512;
    t->packed_scores = vnni ? packed_scores_vnni : packed_scores_avx512;
    t->page_bounds = page_bounds_avx512;
    t->page_scores = page_scores_avx512;
    t->channel_sums = channel_sums_avx512;
    t->attention = sac_attention_avx512;
    t->attention_many = sac_attention_many_avx512;
    t->attention_sums = sac_attention_sums_avx512;
}
#endif
