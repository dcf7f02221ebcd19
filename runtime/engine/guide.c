#include "guide.h"

#include "score_processor.h"

sac_status sac_guide_check(const sac_session *s, sac_error *err) {
    if (!sac_controls_guide(&s->reply.controls) || s->guide) return SAC_OK;
    return sac_fail(
        err, SAC_BAD_ARGUMENT,
        "guidance_scale needs a second sequence, for which this session has no memory: begin with "
        "--set guidance_scale=1 (sac_session_config.guidance)");
}

sac_status sac_guide_start(sac_session *s, sac_error *err) {
    const sac_controls *c = &s->reply.controls;
    if (!sac_controls_guide(c)) return SAC_OK;
    const int32_t *ids = &s->ids[s->decoder.cache.n_rows - 1];
    size_t n = 1;
    if (c->negative_prompt_ids.n) {
        ids = c->pool + c->negative_prompt_ids.at;
        n = (size_t)c->negative_prompt_ids.n;
    }
    sac_session_reset(s->guide);
    sac_status st = sac_session_append(s->guide, ids, n, NULL, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "guidance_scale");
}

sac_status sac_guide_choose(sac_session *s, sac_error *err) {
    const sac_reply *r = &s->reply;
    if (!sac_controls_guide(&r->controls)) return SAC_OK;
    int64_t n = r->result.n_tokens;
    if (n > 0) {
        sac_status st = sac_session_append(s->guide, &s->answer[n - 1], 1, NULL, err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "guidance_scale");
    }
    sac_guide_scores(s->sampler.scores, s->guide->decoder.logits, s->sampler.vocab,
                     r->controls.guidance_scale);
    return SAC_OK;
}
