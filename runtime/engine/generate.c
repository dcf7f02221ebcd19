#include "prompt.h"

#include "clock.h"
#include <string.h>

void sac_sampling_default(sac_sampling *s) {
    *s = (sac_sampling){.max_tokens = 512, .top_p = 1, .repetition_penalty = 1};
}

void sac_sampling_of_model(const sac_model *model, sac_sampling *s) {
    const sac_loaded_model *m = &model->loaded;
    sac_sampling_default(s);
    s->repetition_penalty = m->generation.repetition_penalty;
    if (!m->generation.do_sample) return;
    s->temperature = m->generation.temperature;
    s->top_k = m->generation.top_k;
    s->top_p = m->generation.top_p;
    s->min_p = m->generation.min_p;
}

/* ---------------------------------------------------------------- prefill */

typedef struct call {
    sac_session *s;
    const sac_events *events;
    sac_error *err;
    int64_t start_ns;
    sac_result result;
} call;

static sac_status on_layer(void *ctx, int layer, int n_layers) {
    call *c = ctx;
    SAC_TRY(sac_session_check_cancel(c->s, c->err));
    if (c->events && c->events->progress) c->events->progress(c->events->ctx, "prefill", layer, n_layers);
    return SAC_OK;
}

/* Rows of visual tokens from `past` on to where the decoder runs. */
static sac_status load_visual(sac_session *s, int64_t past) {
    for (int i = 0; i < s->decoder.n_visual; i++) {
        sac_visual_span v = s->decoder.visual[i];
        if (v.first + v.n > past)
            SAC_TRY(sac_decoder_load_rows(&s->model->loaded.decoder, &s->decoder, sac_decoder_stream(s),
                                          v.first, v.n));
    }
    return SAC_OK;
}

/* Hidden rows [past, n) become embeddings: text from the table, run by run, visual tokens from their media.
 */
static sac_status embed_prompt(call *c, int64_t past, int64_t n) {
    sac_session *s = c->s;
    int32_t image = s->model->loaded.image_token;
    for (int64_t i = past; i < n;) {
        int64_t end = i;
        while (end < n && s->ids[end] != image) end++;
        if (end > i)
            SAC_TRY(sac_decoder_embed(&s->model->loaded.decoder, &s->decoder, sac_decoder_ops(s),
                                      sac_decoder_stream(s), i, end - i, s->ids + i));
        while (end < n && s->ids[end] == image) end++;
        i = end;
    }
    for (size_t m = 0; m < s->n_media; m++)
        if (sac_prompt_media_end(s, m) > past)
            SAC_TRY(sac_media_encode(s, m, c->events, &c->result.seconds.media, &c->result.seconds.vision,
                                     c->err));
    return load_visual(s, past);
}

/* Where visual tokens stand, for methods that treat them apart. */
static void find_visual(sac_session *s) {
    s->decoder.n_visual = 0;
    s->decoder.visual = s->visual;
    for (size_t m = 0; m < s->n_media; m++)
        for (int64_t b = 0; b < s->media[m].n_blocks; b++)
            s->visual[s->decoder.n_visual++] =
                (sac_visual_span){s->media[m].start[b], s->media[m].block_tokens};
}

/* Runs a conversation's prompt; the logits of its last token are left in the session. */
static sac_status run_prompt(call *c, const sac_message *messages, size_t n_messages) {
    sac_session *s = c->s;
    sac_prompt prompt;
    s->has_logits = false;
    int64_t media_ns = sac_now_ns();
    SAC_TRY(sac_media_prepare(s, messages, n_messages, c->err));
    c->result.seconds.media = sac_seconds_since(media_ns);
    SAC_TRY(sac_prompt_build(s, messages, n_messages, &prompt, c->err));
    SAC_TRY(sac_prompt_place(s, &prompt, c->err));
    find_visual(s);
    SAC_TRY(embed_prompt(c, prompt.n_reused, prompt.n_tokens));
    int64_t prefill_ns = sac_now_ns();
    SAC_TRY(sac_decoder_prefill(&s->model->loaded.decoder, &s->decoder, sac_decoder_ops(s),
                                sac_decoder_stream(s), prompt.n_reused, prompt.n_tokens - prompt.n_reused,
                                on_layer, c, c->err));
    SAC_TRY(sac_decoder_last_logits(&s->model->loaded.decoder, &s->decoder, sac_decoder_ops(s),
                                    sac_decoder_stream(s)));
    s->has_logits = true;
    c->result.seconds.prefill = sac_seconds_since(prefill_ns);
    c->result.n_prompt_tokens = prompt.n_tokens;
    c->result.n_visual_tokens = prompt.n_visual;
    c->result.n_reused_tokens = prompt.n_reused;
    return SAC_OK;
}

/* ---------------------------------------------------------------- text out */

/* The answer as it grows: text that might become a stop text is held back until it cannot. */
typedef struct writer {
    call *c;
    const sac_sampling *sampling;
    const char *const *format_stops; /* the chat format's own, NULL-terminated or NULL */
    size_t n_bytes, n_sent;
} writer;

/* Calls f for every stop text. */
static const char *stop_text(const writer *w, size_t i) {
    if (i < w->sampling->n_stop) return w->sampling->stop[i];
    return w->format_stops ? w->format_stops[i - w->sampling->n_stop] : NULL;
}

static bool send_text(writer *w, size_t to) {
    const sac_events *e = w->c->events;
    size_t from = w->n_sent;
    if (to <= from) return true;
    w->n_sent = to;
    return !e || !e->text || e->text(e->ctx, w->c->s->text + from, to - from);
}

/* Bytes of the tail that a stop text may still grow from. */
static size_t held_back(const writer *w) {
    const char *text = w->c->s->text;
    size_t held = 0;
    const char *stop;
    for (size_t i = 0; (stop = stop_text(w, i)); i++) {
        size_t n = strlen(stop), most = n - 1 < w->n_bytes ? n - 1 : w->n_bytes;
        for (size_t k = most; n > 0 && k > held; k--)
            if (memcmp(text + w->n_bytes - k, stop, k) == 0) held = k;
    }
    return held;
}

/* The start of the first stop text that the text holds at or after `from`, or n_bytes. */
static size_t find_stop(const writer *w, size_t from) {
    const char *text = w->c->s->text, *stop;
    size_t first = w->n_bytes;
    for (size_t i = 0; (stop = stop_text(w, i)); i++) {
        size_t n = strlen(stop);
        for (size_t at = from; n > 0 && at + n <= w->n_bytes && at < first; at++)
            if (memcmp(text + at, stop, n) == 0) first = at;
    }
    return first;
}

typedef enum outcome { GO_ON, STOPPED, FULL, LEFT } outcome;

/* Appends what the detokenizer completed; the text is NUL-terminated at all times. */
static outcome append_text(writer *w, sac_text_span piece) {
    sac_session *s = w->c->s;
    if (piece.n_bytes > s->text_capacity - 1 - w->n_bytes) return FULL;
    if (piece.n_bytes) memcpy(s->text + w->n_bytes, piece.text, piece.n_bytes);
    w->n_bytes += piece.n_bytes;
    size_t stop = find_stop(w, w->n_sent);
    bool stopped = stop < w->n_bytes;
    if (stopped) w->n_bytes = stop;
    s->text[w->n_bytes] = 0;
    bool wanted = send_text(w, stopped ? stop : w->n_bytes - held_back(w));
    return !wanted ? LEFT : stopped ? STOPPED : GO_ON;
}

/* ---------------------------------------------------------------- decode */

static bool is_stop_id(const sac_loaded_model *m, int32_t id) {
    for (int i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id) return true;
    return false;
}

static sac_status start_sampler(call *c, const sac_sampling *o) {
    if (o->max_tokens < 0)
        return sac_fail(c->err, SAC_BAD_ARGUMENT, "max_tokens %d: give 1 or more, or 0 for all that fits",
                        o->max_tokens);
    for (size_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !o->stop[i][0])
            return sac_fail(c->err, SAC_BAD_ARGUMENT, "stop text %zu is empty", i);
    sac_sampler_config config = {.temperature = o->temperature,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .min_p = o->min_p,
                                 .repetition_penalty = o->repetition_penalty,
                                 .seed = o->seed};
    return sac_sampler_start(&c->s->sampler, &config, c->err);
}

static sac_status decode(call *c, const sac_sampling *o, writer *w) {
    sac_session *s = c->s;
    const sac_loaded_model *m = &s->model->loaded;
    int64_t limit = o->max_tokens > 0 ? o->max_tokens : s->memory.n_ctx;
    outcome out = GO_ON;
    c->result.finish_reason = "length";
    for (int64_t n = 0; n < limit && out == GO_ON; n++) {
        SAC_TRY(sac_session_check_cancel(s, c->err));
        int32_t id = sac_sampler_next(&s->sampler, s->decoder.logits, (uint64_t)n);
        if (n == 0) c->result.seconds.first_token = sac_seconds_since(c->start_ns);
        if (!o->ignore_eos && is_stop_id(m, id)) {
            c->result.finish_reason = "stop";
            break;
        }
        s->answer[n] = id;
        c->result.n_tokens = n + 1;
        sac_sampler_see(&s->sampler, id);
        out = append_text(w, sac_detokenizer_feed(s->detokenizer, id));
        if (out == STOPPED) c->result.finish_reason = "stop";
        if (c->events && c->events->progress) c->events->progress(c->events->ctx, "decode", n + 1, limit);
        int64_t past = s->decoder.cache.n_rows;
        if (out != GO_ON || n + 1 == limit || past >= s->memory.n_ctx) break;
        s->ids[past] = id;
        s->identity[past] = (uint64_t)(uint32_t)id;
        SAC_TRY(sac_decoder_step(&m->decoder, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past,
                                 id, c->err));
    }
    if (out == GO_ON) out = append_text(w, sac_detokenizer_flush(s->detokenizer));
    if ((out == GO_ON || out == FULL) && !send_text(w, w->n_bytes)) out = LEFT;
    if (out == LEFT) return sac_fail(c->err, SAC_CANCELLED, "cancelled by the receiver of the text");
    return SAC_OK;
}

/* ---------------------------------------------------------------- the public calls */

static sac_status generate(call *c, const sac_message *messages, size_t n_messages, const sac_sampling *o) {
    sac_session *s = c->s;
    SAC_TRY(start_sampler(c, o));
    SAC_TRY(run_prompt(c, messages, n_messages));
    for (int64_t i = 0; i < s->decoder.cache.n_rows; i++) sac_sampler_see(&s->sampler, s->ids[i]);
    writer w = {.c = c, .sampling = o};
    if (!o->ignore_eos) w.format_stops = sac_chat_stops(s->model->loaded.chat);
    sac_detokenizer_reset(s->detokenizer);
    s->text[0] = 0;
    int64_t decode_ns = sac_now_ns();
    SAC_TRY(decode(c, o, &w));
    c->result.seconds.decode = sac_seconds_since(decode_ns);
    c->result.text = s->text;
    c->result.n_text_bytes = w.n_bytes;
    c->result.tokens = s->answer;
    c->result.media = s->reports;
    c->result.n_media = s->n_media;
    c->result.seconds.total = sac_seconds_since(c->start_ns);
    return SAC_OK;
}

static void begin(call *c, sac_session *s, const sac_events *events, sac_error *err) {
    *c = (call){.s = s, .events = events, .err = err, .start_ns = sac_now_ns()};
    atomic_store(&s->cancel, false);
    s->events = events;
}

static void end(sac_session *s) {
    sac_media_close(s);
    s->events = NULL;
}

sac_status sac_session_generate(sac_session *s, const sac_message *messages, size_t n_messages,
                                const sac_sampling *sampling, const sac_events *events, sac_result *result,
                                sac_error *err) {
    sac_sampling defaults;
    sac_sampling_default(&defaults);
    call c;
    begin(&c, s, events, err);
    sac_status st = generate(&c, messages, n_messages, sampling ? sampling : &defaults);
    end(s);
    *result = st == SAC_OK ? c.result : (sac_result){0};
    return st;
}

sac_status sac_session_prefill(sac_session *s, const sac_message *messages, size_t n_messages,
                               const sac_events *events, sac_error *err) {
    call c;
    begin(&c, s, events, err);
    sac_status st = run_prompt(&c, messages, n_messages);
    end(s);
    return st;
}

static sac_status check_ids(const sac_session *s, const int32_t *ids, size_t n_ids, sac_error *err) {
    int vocab = s->model->loaded.decoder.config.vocab;
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return sac_fail(err, SAC_BAD_ARGUMENT, "token id %d is not in the vocabulary of %d", ids[i],
                            vocab);
    return SAC_OK;
}

/* n tokens as a prompt goes: the prefill policy. */
static sac_status append_prompt(call *c, int64_t past, int64_t n, float *all_logits) {
    sac_session *s = c->s;
    const sac_decoder *d = &s->model->loaded.decoder;
    const sac_ops *ops = sac_decoder_ops(s);
    const sac_stream *stream = sac_decoder_stream(s);
    if (all_logits && s->decoder.prefill.policy->keep)
        return sac_fail(c->err, SAC_UNSUPPORTED, "prefill policy %s drops tokens, so not all have logits",
                        s->decoder.prefill.policy->name);
    SAC_TRY(sac_decoder_embed(d, &s->decoder, ops, stream, past, n, s->ids + past));
    s->decoder.n_visual = 0;
    SAC_TRY(sac_decoder_prefill(d, &s->decoder, ops, stream, past, n, on_layer, c, c->err));
    if (all_logits) SAC_TRY(sac_decoder_logits(d, &s->decoder, ops, stream, past, n, all_logits));
    return sac_decoder_last_logits(d, &s->decoder, ops, stream);
}

/* One token as an answer's go: the decode policy. */
static sac_status append_step(call *c, int64_t past, float *logits) {
    sac_session *s = c->s;
    const sac_decoder *d = &s->model->loaded.decoder;
    SAC_TRY(sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, s->ids[past],
                             c->err));
    if (logits) memcpy(logits, s->decoder.logits, (size_t)d->config.vocab * sizeof *logits);
    return SAC_OK;
}

sac_status sac_session_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                              sac_error *err) {
    int64_t past = s->decoder.cache.n_rows, n = (int64_t)n_ids;
    call c;
    begin(&c, s, NULL, err);
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "no tokens to append");
    SAC_TRY(check_ids(s, ids, n_ids, err));
    if (n_ids > (size_t)(s->memory.n_ctx - past))
        return sac_fail(err, SAC_TOO_LONG, "%zu tokens after %lld do not fit a context of %lld", n_ids,
                        (long long)past, (long long)s->memory.n_ctx);
    s->has_logits = false;
    for (int64_t i = 0; i < n; i++) {
        s->ids[past + i] = ids[i];
        s->identity[past + i] = (uint64_t)(uint32_t)ids[i];
    }
    SAC_TRY(n == 1 ? append_step(&c, past, all_logits) : append_prompt(&c, past, n, all_logits));
    s->has_logits = true;
    return SAC_OK;
}
