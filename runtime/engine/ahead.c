#include "ahead.h"

#include "clock.h"
#include "decoder_ahead.h"
#include "decoder_draft.h"
#include "draft_head.h"
#include "draft_model.h"

#include <string.h>

/* How long drafts are whose tokens cost nothing to guess. On a CPU a row more costs up to a whole step, so refused rows have
 * to be paid for: each accepted token earns one, and each pass of the model a small part of one, by which drafting is tried again where it has
 * failed. So an answer in which no draft is right runs START + 1 / A_ROW of its passes in vain, at most. */
enum { A_ROW = SAC_AHEAD_A_ROW, START = 1 * A_ROW, RICH = 2 * SAC_DRAFT_MOST * A_ROW };

void sac_ahead_start(sac_session *s) {
    s->ahead.n = s->ahead.at = 0;
    s->ahead.credit = START;
    s->ahead.has_failed = false;
    memset(s->ahead.n_taken, 0, sizeof s->ahead.n_taken);
    sac_ahead_gain_start(&s->ahead.gain, s->reply.result.seconds.prefill);
}

bool sac_ahead_has(sac_session *s) {
    sac_ahead *a = &s->ahead;
    if (!a->n) return false;
    if (a->at == a->n || a->ids[a->at + 1] != s->answer[s->reply.result.n_tokens - 1]) {
        sac_ahead_drop(s);
        return false;
    }
    return true;
}

void sac_ahead_take(sac_session *s) {
    sac_ahead *a = &s->ahead;
    sac_decoder_accept(&s->decoder, ++a->at);
    s->reply.result.n_accepted_tokens++;
    a->n_taken[a->at - 1]++;
    if (a->credit < RICH) a->credit += A_ROW;
}

/* Of n as many as the answer and the context have room for. */
static int within(const sac_session *s, int64_t past, int64_t n) {
    const int64_t answer = s->reply.limit - s->reply.result.n_tokens - 1, context = s->memory.n_ctx - past - 1;
    if (!s->ahead.draft.method || s->ahead.has_failed) return 0;
    if (n > answer) n = answer;
    if (n > context) n = context;
    return n > 0 ? (int)n : 0;
}

/* Tokens that may be drafted: as many as the answer and the context have room for, and as were earned. */
static int room(const sac_session *s, int64_t past) {
    const sac_ahead *a = &s->ahead;
    int n = a->draft.most;
    if (a->draft.adapts)
        n = sac_ahead_gain_most(&a->gain, n);
    else if (a->draft.method && a->draft.method->from == SAC_DRAFT_OF_TOKENS && n > a->credit / A_ROW)
        n = a->credit / A_ROW;
    return within(s, past, n);
}

int sac_ahead_room_shared(sac_session *s, int64_t past, int most, double share_s) {
    sac_ahead *a = &s->ahead;
    if (most > a->draft.most) most = a->draft.most;
    if (a->draft.adapts) most = share_s > 0 ? sac_ahead_gain_most_shared(&a->gain, share_s, most) : 0;
    return within(s, past, most);
}

/* Placeholders of pictures stand in a sequence too, and need not be ids of the table. */
static int n_known(const sac_session *s, const int32_t *ids, int n) {
    int k = 0;
    while (k < n && ids[k] >= 0 && ids[k] < s->model->loaded.decoder.config.vocab) k++;
    return k;
}

int sac_ahead_guess(sac_session *s, int64_t past, int most) {
    sac_ahead *a = &s->ahead;
    if (!a->draft.method || !a->draft.method->propose) return 0;
    const int n = room(s, past);
    if (n < most) most = n;
    return most > 0 ? n_known(s, a->ids + 1, a->draft.method->propose(a->draft.p, s->ids, past + 1, most, a->ids + 1)) : 0;
}

void sac_ahead_was_run(sac_session *s, int n) {
    s->ahead.n = n;
    s->ahead.at = 0;
    s->ahead.credit++;
    s->reply.result.n_drafts += n > 0;
    s->reply.result.n_drafted_tokens += n;
}

/* At most `most` guesses at what follows `id` into a->ids[1 ..]. */
static sac_status guess(sac_session *s, int64_t past, int32_t id, int most, int *n, double *behind_s, sac_error *err) {
    sac_ahead *a = &s->ahead;
    const sac_draft_method *m = a->draft.method;
    *n = 0;
    if (!most) return SAC_OK;
    if (m->from == SAC_DRAFT_OF_MODEL || m->from == SAC_DRAFT_OF_HEAD) {
        const sac_status st = m->from == SAC_DRAFT_OF_MODEL
                                  ? sac_draft_model_guess(s, past, most, a->ids + 1, n, behind_s, err)
                                  : sac_draft_head_guess(s, sac_decoder_ops(s), sac_decoder_stream(s), past, most, a->ids + 1, n,
                                                         behind_s, err);
        if (st == SAC_OK || st == SAC_CANCELLED) return st;
        a->has_failed = true; /* an answer does not fail with its draft: it goes on without */
        *n = 0;
        return SAC_OK;
    }
    if (m->from == SAC_DRAFT_OF_SPARSE)
        return sac_decoder_draft(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, id,
                                 most, a->ids + 1, n, err);
    *n = sac_ahead_guess(s, past, most);
    return SAC_OK;
}

sac_status sac_ahead_run(sac_session *s, int64_t past, int32_t id, sac_error *err) {
    sac_ahead *a = &s->ahead;
    const sac_decoder *d = sac_model_decoder(s->model);
    const int64_t start_ns = sac_now_ns();
    double behind_s = 0; /* which is paid once, and says nothing of what a draft costs */
    int n;
    SAC_TRY(guess(s, past, id, room(s, past), &n, &behind_s, err));
    if (!n) {
        SAC_TRY(sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, id, err));
        sac_ahead_gain_plain(&a->gain, sac_seconds_since(start_ns) - behind_s);
    } else {
        a->ids[0] = id;
        SAC_TRY(sac_decoder_step_ahead(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past,
                                       a->ids, n + 1, err));
        sac_ahead_gain_passed(&a->gain, n, sac_seconds_since(start_ns) - behind_s);
    }
    sac_ahead_was_run(s, n);
    return SAC_OK;
}
