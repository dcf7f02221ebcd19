#include "ahead.h"

#include "decoder_ahead.h"

/* How long drafts are. On a CPU a row more costs up to a whole step, so refused rows have to be paid for: each accepted
 * token earns one, and each pass of the model a small part of one, by which drafting is tried again where it has
 * failed. So an answer in which no draft is right runs START + 1 / A_ROW of its passes in vain, at most. */
enum { A_ROW = 50, START = 1 * A_ROW, RICH = 2 * SAC_DRAFT_MOST * A_ROW };

void sac_ahead_start(sac_session *s) {
    s->ahead.n = s->ahead.at = 0;
    s->ahead.credit = START;
}

static void forget(sac_ahead *a) {
    a->credit -= (a->n - a->at) * A_ROW;
    a->n = a->at = 0;
}

bool sac_ahead_has(sac_session *s) {
    sac_ahead *a = &s->ahead;
    if (!a->n) return false;
    if (a->at == a->n || a->ids[a->at + 1] != s->answer[s->reply.result.n_tokens - 1]) {
        forget(a);
        return false;
    }
    return true;
}

void sac_ahead_take(sac_session *s) {
    sac_ahead *a = &s->ahead;
    sac_decoder_accept(&s->decoder, ++a->at);
    s->reply.result.n_accepted_tokens++;
    if (a->credit < RICH) a->credit += A_ROW;
}

/* Tokens that may be drafted: as many as the answer and the context have room for, and as were earned. */
static int room(const sac_session *s, int64_t past) {
    const sac_ahead *a = &s->ahead;
    int64_t n = a->credit / A_ROW, answer = s->reply.limit - s->reply.result.n_tokens - 1,
            context = s->memory.n_ctx - past - 1;
    if (n > a->draft.most) n = a->draft.most;
    if (n > answer) n = answer;
    if (n > context) n = context;
    return n > 0 ? (int)n : 0;
}

/* Placeholders of pictures stand in a sequence too, and need not be ids of the table. */
static int n_known(const sac_session *s, const int32_t *ids, int n) {
    int k = 0;
    while (k < n && ids[k] >= 0 && ids[k] < s->model->loaded.decoder.config.vocab) k++;
    return k;
}

sac_status sac_ahead_run(sac_session *s, int64_t past, int32_t id, sac_error *err) {
    sac_ahead *a = &s->ahead;
    const sac_decoder *d = sac_model_decoder(s->model);
    int n = 0, most = a->draft.method ? room(s, past) : 0;
    if (most) n = a->draft.method->propose(a->draft.p, s->ids, past + 1, most, a->ids + 1);
    n = n_known(s, a->ids + 1, n);
    if (!n)
        SAC_TRY(sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, id, err));
    else {
        a->ids[0] = id;
        SAC_TRY(sac_decoder_step_ahead(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past,
                                       a->ids, n + 1, err));
    }
    a->n = n;
    a->at = 0;
    a->credit++;
    s->reply.result.n_drafted_tokens += n;
    return SAC_OK;
}
