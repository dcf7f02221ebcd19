#include "renew.h"

#include "pages.h"
#include "beginnings.h"
#include "call.h"
#include "prefill.h"
#include "workspace.h"

#include <assert.h>

bool sac_renew_is_due(const sac_session *s) {
    return sac_decoder_turns_anew(&s->decoder, s->decoder.cache.n_rows + 1);
}

static sac_status run(sac_session *s, int64_t n, int64_t n_out, float *all_logits, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(s->model);
    sac_decoder_state *state = &s->decoder;
    sac_prefill_work w;
    SAC_TRY(sac_decoder_embed(d, state, sac_decoder_ops(s), sac_decoder_stream(s), 0, n, s->ids));
    SAC_TRY(sac_prefill_work_begin(&w, d, state, sac_decoder_ops(s), sac_decoder_stream(s), 0, n, n_out, err));
    while (!sac_prefill_work_is_done(&w)) {
        sac_status st = sac_session_check_cancel(s, err);
        if (st == SAC_OK) st = sac_prefill_work_next(&w, err);
        if (st == SAC_OK) continue;
        sac_prefill_work_drop(&w);
        return st;
    }
    if (all_logits) SAC_TRY(sac_decoder_logits(d, state, sac_decoder_ops(s), sac_decoder_stream(s), n - n_out, n_out, all_logits));
    return sac_decoder_last_logits(d, state, sac_decoder_ops(s), sac_decoder_stream(s));
}

sac_status sac_renew(sac_session *s, int64_t n, int64_t n_out, float *all_logits, sac_error *err) {
    assert(!s->decoder.n_visual && n <= s->memory.n_ctx);
    s->decoder.cache.anew = true; /* also while it waits */
    SAC_TRY(sac_session_make_room_apart(s, n, err)); /* before what is there goes */
    s->decoder.cache.anew = false;
    sac_beginnings_withdraw(s);
    sac_decoder_rewind(&s->decoder, 0);
    s->n_prompted = s->n_exact = 0;
    s->begins_few = false;
    SAC_TRY(sac_session_borrow(s, SAC_FOR_PROMPT, err));
    sac_status st = run(s, n, n_out, all_logits, err);
    sac_session_give_back(s);
    if (st == SAC_OK) s->n_prompted = n;
    return st;
}
