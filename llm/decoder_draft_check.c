/* decoder_draft_check.c - which decode policies can draft. */
#include "decoder_draft.h"

static const char *reason(const sac_decoder_state *s) {
    const sac_decode_policy *p = s->drafting.policy;
    if (p == &sac_decode_dense)
        return "it reads all rows in a context of this length, as the answer's own steps do: give it a smaller budget, or fewer "
               "dense layers";
    if (p->settle || p->rebuild) return "it drops rows, and the answer needs those of all tokens";
    if (!sac_decode_keeps_prefix(&s->drafting)) return "it cannot forget the tokens that are refused";
    if (!p->select) return "it reads all rows, at other positions";
    return NULL;
}

sac_status sac_decoder_check_draft(const sac_decoder_state *s, const char *line, sac_error *err) {
    const char *why = reason(s);
    if (why) return sac_fail(err, SAC_UNSUPPORTED, "draft sparse with decode policy \"%s\": %s", line, why);
    if (s->prefill.policy->keep)
        return sac_fail(err, SAC_UNSUPPORTED, "draft sparse and prefill policy %s: it drops tokens; use another of the two",
                        s->prefill.policy->name);
    if (s->shape.softcap > 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "draft sparse: decode policies do not know scores of attention that are capped, as this model's are");
    return SAC_OK;
}
