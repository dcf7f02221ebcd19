/* The row ops at this instruction set, and its slots of the table. */
#include "cpu.h"

#if defined(__AVX2__)
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

static sac_status packed_vote_avx2(const sac_stream *s, const sac_packed_vote_args *a) {
    return packed_vote_over_avx2(s, a, sac_packed_scores_avx2);
}
static sac_status packed_scores_avx2(const sac_stream *s, const sac_packed_scores_args *a) {
    return packed_scores_or_avx2(s, a, sac_packed_scores_avx2);
}

void sac_ops_set_avx2(sac_ops *t) {
    t->rmsnorm = rmsnorm_avx2;
    t->layernorm = layernorm_avx2;
    t->rope = rope_avx2;
    t->swiglu = swiglu_avx2;
    t->kv_store = kv_store_avx2;
    t->key_scores = key_scores_avx2;
    t->kv_gather = kv_gather_avx2;
    t->kept_rows = kept_rows_avx2;
    t->top_k = top_k_avx2;
    t->top_p = top_p_avx2;
    t->softmax = softmax_avx2;
    t->soft_vote = soft_vote_avx2;
    t->pool_tokens = pool_tokens_avx2;
    t->blend_rows = blend_rows_avx2;
    t->scale_add = scale_add_avx2;
    t->causal_conv = causal_conv_avx2;
    t->delta_rule = delta_rule_avx2;
    t->choice_step = choice_step_avx2;
    t->packed_vote = packed_vote_avx2;
    t->packed_scores = packed_scores_avx2;
    t->page_bounds = page_bounds_avx2;
    t->page_scores = page_scores_avx2;
    t->channel_sums = channel_sums_avx2;
    t->attention = sac_attention_avx2;
    t->attention_many = sac_attention_many_avx2;
    t->attention_sums = sac_attention_sums_avx2;
}
#endif
