#include "decoder_told.h"

#include "sampler.h"

#include <string.h>

/* ---------------------------------------------------------------- room */

static int64_t mask_words(int64_t vocab) {
    return (vocab + 31) / 32;
}

static void take_room(sac_told_room *r, int64_t n, int64_t vocab, sac_arena *a) {
    const size_t rows = (size_t)n;
    r->n_rows = n;
    r->edits = sac_arena_take(a, rows * SAC_MOST_EDITS * sizeof *r->edits);
    r->masks = sac_arena_take(a, rows * (size_t)mask_words(vocab) * sizeof *r->masks);
    r->u = sac_arena_take(a, rows * sizeof *r->u);
    r->total = sac_arena_take(a, rows * sizeof *r->total);
    r->scale = sac_arena_take(a, rows * sizeof *r->scale);
    r->largest = sac_arena_take(a, rows * sizeof *r->largest);
    r->drawn = sac_arena_take(a, rows * sizeof *r->drawn);
    r->n_edits = sac_arena_take(a, rows * sizeof *r->n_edits);
    r->is_masked = sac_arena_take(a, rows * sizeof *r->is_masked);
    r->largest_at = sac_arena_take(a, rows * sizeof *r->largest_at);
    r->drawn_at = sac_arena_take(a, rows * sizeof *r->drawn_at);
    r->best_at = sac_arena_take(a, rows * SAC_MOST_BEST * sizeof *r->best_at);
    r->best = sac_arena_take(a, rows * SAC_MOST_BEST * sizeof *r->best);
}

size_t sac_told_room_bytes(int64_t n, int64_t vocab) {
    sac_arena measure = sac_arena_measure();
    sac_told_room r;
    take_room(&r, n, vocab, &measure);
    return measure.used_bytes;
}

void sac_told_room_lay(sac_told_room *r, void *pinned, int64_t n, int64_t vocab) {
    sac_arena a = sac_arena_over(pinned, sac_told_room_bytes(n, vocab));
    take_room(r, n, vocab, &a);
}

void sac_told_room_take(sac_told_room *r, int64_t n, sac_arena *device) {
    r->device_best_at = sac_arena_take(device, (size_t)n * SAC_MOST_BEST * sizeof *r->device_best_at);
    r->device_best = sac_arena_take(device, (size_t)n * SAC_MOST_BEST * sizeof *r->device_best);
}

/* ---------------------------------------------------------------- what is asked */

/* The same of all; NULL: the CPU. */
static const sac_device *device_of(const decoder_told_rows *r) {
    return r->states[0]->device;
}

/* Rounding on the host can make two logits equal that are not, where it divides or caps them. */
bool sac_decoder_may_tell(const sac_decoder *d, const sac_decoder_state *s) {
    const bool as_they_are = !(d->config.logit_softcap > 0) && !(d->config.logit_divisor > 0);
    return s->wanted.n_best > 0 && s->device && !s->device->no_choice && as_they_are;
}

bool sac_decoder_wants_largest(const sac_decoder *d, const sac_decoder_state *s) {
    const sac_token_wanted *w = &s->wanted;
    return w->n_best == 1 && w->n_top < 0 && !w->is_edited && !w->mask && w->scale == 0 && sac_decoder_may_tell(d, s);
}

/* Of all rows together. */
typedef struct asked {
    int most_edits, most_best; /* of a row; best: 0 where nobody wants more than the largest */
    bool any, masks, weighs;
} asked;

static void ask_row(const decoder_told_rows *r, int64_t i, asked *a) {
    sac_decoder_state *s = r->states[i];
    const sac_told_room *room = r->room;
    const sac_token_wanted *w = &s->wanted;
    s->told = (sac_token_told){.is_told = room && sac_decoder_may_tell(r->d, s)};
    if (!room) return;
    room->n_edits[i] = room->is_masked[i] = 0;
    room->scale[i] = 0;
    if (!s->told.is_told) return;
    a->any = true;
    if (w->is_edited) room->n_edits[i] = sac_sampler_edits(w->sampler, room->edits + i * SAC_MOST_EDITS);
    if (room->n_edits[i] > a->most_edits) a->most_edits = room->n_edits[i];
    if (w->mask) {
        uint32_t *bits = room->masks + i * mask_words(s->vocab);
        memset(bits, 0xff, (size_t)mask_words(s->vocab) * sizeof *bits);
        w->mask(w->mask_ctx, bits, s->vocab);
        room->is_masked[i] = a->masks = true;
    }
    room->scale[i] = w->scale;
    room->u[i] = w->u;
    a->weighs |= w->scale > 0;
    if (w->n_best > 1 && w->n_best > a->most_best) a->most_best = w->n_best;
}

/* ---------------------------------------------------------------- what the device does */

static sac_status edit(const decoder_told_rows *r, const asked *a) {
    const int64_t vocab = r->d->config.vocab;
    const sac_told_room *room = r->room;
    return r->ops->edit_scores(r->stream, &(sac_edit_scores_args){.x = r->logits,
                                                                  .stride = vocab,
                                                                  .n = vocab,
                                                                  .n_rows = (int)r->n,
                                                                  .most = a->most_edits,
                                                                  .n_edits = room->n_edits,
                                                                  .edits = room->edits,
                                                                  .edit_stride = SAC_MOST_EDITS,
                                                                  .is_masked = a->masks ? room->is_masked : NULL,
                                                                  .masks = room->masks,
                                                                  .mask_stride = mask_words(vocab)});
}

/* As many of each row as of the one of which most are wanted. */
static sac_status find_best(const decoder_told_rows *r, int64_t k) {
    const int64_t vocab = r->d->config.vocab;
    const sac_told_room *room = r->room;
    const size_t n = (size_t)(r->n * k);
    SAC_TRY(r->ops->top_k(r->stream, &(sac_top_k_args){.scores = r->logits,
                                                       .stride = vocab,
                                                       .n = vocab,
                                                       .n_rows = (int)r->n,
                                                       .k = k,
                                                       .indices = room->device_best_at}));
    for (int64_t i = 0; i < r->n; i++) {
        if (!r->states[i]->told.is_told || r->states[i]->wanted.n_best <= 1) continue;
        SAC_TRY(r->ops->gather_rows(r->stream, &(sac_gather_rows_args){.y = sac_mat_f32(room->device_best + i * k, k, 1),
                                                                       .x = sac_mat_f32(r->logits + i * vocab, vocab, 1),
                                                                       .source = room->device_best_at + i * k}));
    }
    const sac_device *device = device_of(r);
    SAC_TRY(device->download(r->stream, room->best_at, room->device_best_at, n * sizeof *room->best_at));
    return device->download(r->stream, room->best, room->device_best, n * sizeof *room->best);
}

static sac_status look(const decoder_told_rows *r, const asked *a) {
    const int64_t vocab = r->d->config.vocab;
    const sac_told_room *room = r->room;
    if (!a->any) return SAC_OK;
    SAC_TRY(sac_stream_use(r->stream)); /* a callback may have been in between */
    if (a->most_edits || a->masks) SAC_TRY(edit(r, a));
    SAC_TRY(r->ops->largest(r->stream, &(sac_largest_args){.x = r->logits,
                                                           .stride = vocab,
                                                           .n = vocab,
                                                           .n_rows = (int)r->n,
                                                           .at = room->largest_at,
                                                           .value = room->largest}));
    if (a->weighs)
        SAC_TRY(r->ops->weigh_scores(r->stream, &(sac_weigh_scores_args){.x = r->logits,
                                                                         .stride = vocab,
                                                                         .n = vocab,
                                                                         .n_rows = (int)r->n,
                                                                         .best = room->largest,
                                                                         .scale = room->scale,
                                                                         .u = room->u,
                                                                         .total = room->total,
                                                                         .at = room->drawn_at,
                                                                         .value = room->drawn}));
    return a->most_best ? find_best(r, a->most_best) : SAC_OK;
}

/* ---------------------------------------------------------------- what comes of it */

/* Lists go to the sequence's own room: the batch's is the next pass's, which may be of the same step. */
static sac_token_told told_of(const decoder_told_rows *r, int64_t i, int most_best) {
    const sac_told_room *room = r->room;
    const sac_decoder_state *s = r->states[i];
    const sac_token_wanted *w = &s->wanted;
    sac_token_told t = {.is_told = true, .largest_at = room->largest_at[i], .largest = room->largest[i], .drawn_at = -1};
    if (w->scale > 0) t.total = room->total[i], t.drawn_at = room->drawn_at[i], t.drawn = room->drawn[i];
    if (w->n_best > 1) {
        const sac_told_room *own = &s->told_room;
        const size_t n = (size_t)most_best, at = (size_t)i * n;
        if (room != own) {
            memcpy(own->best_at, room->best_at + at, n * sizeof *own->best_at);
            memcpy(own->best, room->best + at, n * sizeof *own->best);
        }
        t.n_best = most_best, t.best_at = own->best_at, t.best = own->best;
    }
    return t;
}

static sac_status fetch_row(const decoder_told_rows *r, int64_t i) {
    const size_t vocab = (size_t)r->d->config.vocab, n_bytes = vocab * sizeof(float);
    const float *row = r->logits + (size_t)i * vocab;
    const sac_device *device = device_of(r);
    if (device) return device->download(r->stream, r->states[i]->logits, row, n_bytes);
    memcpy(r->states[i]->logits, row, n_bytes);
    return SAC_OK;
}

static sac_status wait_for(const decoder_told_rows *r, sac_error *err) {
    const sac_device *device = device_of(r);
    return device ? device->stream_sync(r->stream, err) : SAC_OK;
}

/* Rows of which what was told is not enough come as well, as they have been changed. */
static sac_status hand_out_told(const decoder_told_rows *r, const asked *a, sac_error *err) {
    bool more = false;
    for (int64_t i = 0; i < r->n; i++) {
        sac_decoder_state *s = r->states[i];
        if (!s->told.is_told) continue;
        s->told = told_of(r, i, a->most_best);
        if (!s->wanted.sampler || sac_sampler_is_told(s->wanted.sampler, &s->wanted, &s->told)) continue;
        s->told = (sac_token_told){.is_edited = true};
        SAC_TRY(fetch_row(r, i));
        more = true;
    }
    return more ? wait_for(r, err) : SAC_OK;
}

sac_status sac_decoder_hand_out(const decoder_told_rows *r, sac_error *err) {
    asked a = {0};
    for (int64_t i = 0; i < r->n; i++) ask_row(r, i, &a);
    SAC_TRY(look(r, &a));
    for (int64_t i = 0; i < r->n; i++)
        if (!r->states[i]->told.is_told) SAC_TRY(fetch_row(r, i));
    SAC_TRY(wait_for(r, err));
    for (int64_t i = 0; i < r->n; i++)
        if (!r->states[i]->told.is_told) sac_decoder_end_logits(r->d, r->states[i]->logits, r->d->config.vocab);
    return a.any ? hand_out_told(r, &a, err) : SAC_OK;
}
