#include "beginnings.h"

#include "parked.h"
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

sac_status sac_beginnings_open(sac_beginnings **out, const sac_model *m, sac_error *err) {
    sac_beginnings *b = *out = calloc(1, sizeof *b);
    if (!b) return sac_fail(err, SAC_NO_MEMORY, "no memory for shared beginnings");
    b->model = m;
    pthread_mutex_init(&b->lock, NULL);
    return SAC_OK;
}

void sac_beginnings_close(sac_beginnings *b) {
    if (!b) return;
    sac_store_close(b->store);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void sac_beginnings_get_report(sac_beginnings *b, sac_beginnings_report *report) {
    pthread_mutex_lock(&b->lock);
    *report = b->report;
    if (b->store) sac_store_report(b->store, report);
    pthread_mutex_unlock(&b->lock);
}

sac_status sac_beginnings_keep(sac_beginnings *b, const sac_store_options *o, sac_error *err) {
    if (b->store || b->sharers)
        return sac_fail(err, SAC_BAD_ARGUMENT, "beginnings are kept already, or sessions share them: ask for it before");
    if (!o->memory_bytes) return sac_fail(err, SAC_BAD_ARGUMENT, "no memory to keep beginnings in: give some bytes");
    return sac_store_open(&b->store, b, o, err);
}

sac_status sac_beginnings_watch(sac_beginnings *b, void (*event)(void *ctx, const sac_block_event *e), void *ctx, sac_error *err) {
    if (!b->store || b->sharers)
        return sac_fail(err, SAC_BAD_ARGUMENT, "beginnings are not kept (sac_beginnings_keep comes first), or sessions share them already");
    sac_store_watch_by(b->store, event, ctx);
    return SAC_OK;
}

sac_status sac_session_join(sac_session *s, sac_beginnings *b, sac_error *err) {
    if (s->model != b->model)
        return sac_fail(err, SAC_BAD_ARGUMENT, "the session is of another model than the beginnings");
    if (s->beginnings) return sac_fail(err, SAC_BAD_ARGUMENT, "the session shares beginnings already");
    pthread_mutex_lock(&b->lock);
    sac_status st = b->store ? sac_store_enter(b->store, s, err) : SAC_OK;
    if (st == SAC_OK) {
        s->beginnings = b;
        s->n_shared = 0;
        s->next_sharer = b->sharers;
        b->sharers = s;
    }
    pthread_mutex_unlock(&b->lock);
    return st;
}

int64_t sac_session_n_found(const sac_session *s) {
    if (!s->beginnings) return 0;
    pthread_mutex_lock(&s->beginnings->lock);
    int64_t n = s->stored.n_found;
    pthread_mutex_unlock(&s->beginnings->lock);
    return n;
}

int64_t sac_session_n_shared(const sac_session *s) {
    if (!s->beginnings || !sac_decoder_shares(&s->decoder)) return 0;
    pthread_mutex_lock(&s->beginnings->lock);
    int64_t n = s->n_shared;
    pthread_mutex_unlock(&s->beginnings->lock);
    return n;
}

void sac_beginnings_leave(sac_session *s) {
    sac_beginnings *b = s->beginnings;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    if (b->store) sac_store_save(b->store, s);
    sac_session **at = &b->sharers;
    while (*at != s) at = &(*at)->next_sharer;
    *at = s->next_sharer;
    s->beginnings = NULL;
    pthread_mutex_unlock(&b->lock);
}

void sac_beginnings_offer(sac_session *s) {
    if (!s->beginnings || sac_session_is_parked(s)) return; /* offered when they are brought back */
    if (s->decoder.cache.planes.is_broken) return;          /* nobody knows what is still there */
    pthread_mutex_lock(&s->beginnings->lock);
    s->n_shared = s->n_exact;
    if (s->beginnings->store) sac_store_offer(s->beginnings->store, s);
    pthread_mutex_unlock(&s->beginnings->lock);
}

void sac_beginnings_withdraw(sac_session *s) {
    if (!s->beginnings) return;
    pthread_mutex_lock(&s->beginnings->lock);
    if (s->beginnings->store) sac_store_save(s->beginnings->store, s);
    s->n_shared = 0;
    pthread_mutex_unlock(&s->beginnings->lock);
}

/* ---------------------------------------------------------------- what another session has */

static bool may_take(const sac_session *s, const sac_session *from) {
    return from != s && from->n_shared > 0 && sac_decoder_same_rows(&s->decoder, &from->decoder) &&
           sac_reduce_same(&s->reduce, &from->reduce);
}

static bool same_row(const sac_session *s, const sac_session *from, int64_t row) {
    if (!sac_identity_equal(s->identity[row], from->identity[row])) return false;
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++)
        if (sac_row_number(&s->decoder.numbers, axis, row) !=
            sac_row_number(&from->decoder.numbers, axis, row))
            return false;
    return true;
}

/* Leading rows of the placed prompt that the other session may give. */
static int64_t rows_of(const sac_session *s, const sac_session *from, int64_t n_tokens) {
    int64_t n = 0, most = from->n_shared < n_tokens ? from->n_shared : n_tokens;
    while (n < most && same_row(s, from, n)) n++;
    return sac_prompt_exact_rows(s, n, n_tokens);
}

/* Of n rows that may be taken, those whose pages may be. */
static int64_t in_whole_pages(const sac_session *s, int64_t n, int64_t n_tokens) {
    const int64_t step = sac_kv_cache_page_rows(&s->decoder.cache);
    while (step && n > 0 && n % step) n = sac_prompt_exact_rows(s, n / step * step, n_tokens); /* each may undo the other, downwards */
    return step ? n : 0;
}

/* Whose beginning is longest, and longer than n rows; of its rows all or those in whole pages. */
static const sac_session *find(const sac_session *s, int64_t n_tokens, bool pages, int64_t *n) {
    const sac_session *best = NULL;
    for (const sac_session *from = s->beginnings->sharers; from; from = from->next_sharer) {
        if (!may_take(s, from)) continue;
        int64_t rows = rows_of(s, from, n_tokens);
        if (pages) rows = in_whole_pages(s, rows, n_tokens);
        if (rows > *n) *n = rows, best = from;
    }
    return best;
}

/* ---------------------------------------------------------------- taking rows over */

/* Copied before the call returns: the other session may change them then. */
static sac_status copy_rows(sac_session *s, const sac_session *from, int64_t first, int64_t n,
                            sac_error *err) {
    sac_kv_cache *to = &s->decoder.cache;
    if (!sac_model_on_device(s->model)) return sac_kv_cache_copy(to, &from->decoder.cache, NULL, first, n);
    const sac_device *d = &s->model->device;
    sac_workspace *w;
    SAC_TRY(sac_workspace_borrow(s->model, &(sac_workspace_need){0}, SAC_FOR_STEP, &w, err));
    sac_status st = sac_kv_cache_copy(to, &from->decoder.cache, &w->device_stream, first, n);
    if (st == SAC_OK) st = d->stream_sync(&w->device_stream, NULL);
    sac_workspace_give_back(s->model, w);
    return st == SAC_OK ? SAC_OK : sac_fail(err, SAC_DEVICE, "%s: copying rows of a prompt failed", d->name);
}

/* Rows that steps of an answer have made are replaced by the prompt's, too. */
static sac_status take_rows(sac_session *s, const sac_session *from, int64_t n, sac_error *err) {
    int64_t first = sac_decoder_rewind(&s->decoder, s->n_exact);
    SAC_TRY(copy_rows(s, from, first, n - first, err));
    sac_decoder_add_rows(&s->decoder, n);
    s->n_prompted = s->n_exact = n;
    s->begins_few = false;
    s->beginnings->report.n_taken_rows += n - first;
    return SAC_OK;
}

/* Pages in place of all that it has, whose rows are fewer. */
static sac_status take_pages(sac_session *s, const sac_session *from, int64_t n, sac_error *err) {
    const int64_t had = s->decoder.cache.n_rows;
    sac_session_drop_parked(s);
    const sac_status st = sac_kv_cache_share(&s->decoder.cache, &from->decoder.cache, n, err);
    if (st != SAC_OK) {
        sac_decoder_rewind(&s->decoder, 0);
        s->n_prompted = s->n_exact = 0;
        return st;
    }
    sac_decoder_rewind(&s->decoder, s->n_exact);
    sac_decoder_add_rows(&s->decoder, n);
    s->n_prompted = s->n_exact = n;
    s->begins_few = false;
    s->beginnings->report.n_taken_rows += n - had;
    return SAC_OK;
}

/* Rows that are not written again: those of LongRoPE and dynamic scaling may be turned anew. */
bool sac_beginnings_may_share(const sac_session *s) {
    const sac_decoder_state *d = &s->decoder;
    const bool turns = d->rope.scaling == SAC_ROPE_LONG || d->rope.scaling == SAC_ROPE_DYNAMIC;
    return s->beginnings && d->cache.pool && sac_decoder_shares(d) && !d->n_spare && !turns;
}

sac_status sac_beginnings_share(sac_session *s, sac_prompt *prompt, sac_error *err) {
    sac_beginnings *b = s->beginnings;
    sac_status st = SAC_OK;
    if (!sac_beginnings_may_share(s)) return SAC_OK;
    pthread_mutex_lock(&b->lock);
    int64_t n = prompt->n_reused;
    const sac_session *from = sac_decoder_may_take(&s->decoder, prompt->n_tokens) ? find(s, prompt->n_tokens, true, &n) : NULL;
    if (from && sac_kv_cache_may_share(&from->decoder.cache, n)) {
        st = take_pages(s, from, n, err);
        b->report.n_taken += st == SAC_OK && !prompt->shares;
        prompt->shares |= st == SAC_OK;
        if (st == SAC_NO_MEMORY) st = SAC_OK; /* rows are copied, or made */
    }
    prompt->n_reused = s->decoder.cache.n_rows;
    pthread_mutex_unlock(&b->lock);
    return st;
}

sac_status sac_beginnings_take(sac_session *s, sac_prompt *prompt, sac_error *err) {
    sac_beginnings *b = s->beginnings;
    sac_status st = SAC_OK;
    if (!b || !sac_decoder_shares(&s->decoder)) return SAC_OK;
    pthread_mutex_lock(&b->lock);
    int64_t n = prompt->n_reused;
    const sac_session *from = sac_decoder_may_take(&s->decoder, prompt->n_tokens) ? find(s, prompt->n_tokens, false, &n) : NULL;
    if (from) st = take_rows(s, from, n, err);
    b->report.n_taken += from && st == SAC_OK && !prompt->shares;
    prompt->n_reused = s->decoder.cache.n_rows;
    s->n_shared = s->n_exact;
    s->stored.n_saved = INT64_MAX / 2; /* what others had is offered again when the prompt has been run */
    s->stored.n_found = 0;
    pthread_mutex_unlock(&b->lock);
    return st;
}
