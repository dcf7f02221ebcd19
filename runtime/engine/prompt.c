#include "prompt.h"
#include "beginnings.h"
#include "call.h"
#include "media_reduce.h"
#include "prompt_chat.h"
#include "prompt_counts.h"
#include "prompt_instruction.h"
#include "prompt_tiles.h"
#include "prompt_times.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- counting */

static sac_status count(const sac_session *s, sac_prompt *p, sac_error *err) {
    int32_t image = s->model->loaded.image_token, vocab = s->model->loaded.decoder.config.vocab;
    int64_t n_marks = 0, n_like_marks = 0;
    for (int64_t i = 0; i < p->n_ids; i++) {
        if (s->prompt[i] >= vocab)
            return sac_fail(err, SAC_BAD_FILE,
                            "the tokenizer makes id %d, the model has %d rows of embeddings", s->prompt[i],
                            vocab);
        n_marks += s->prompt[i] == SAC_PROMPT_MARK;
        n_like_marks += s->prompt[i] == image || s->prompt[i] == s->model->loaded.video_token;
    }
    if (n_marks + n_like_marks != s->n_spans)
        return sac_fail(err, SAC_BAD_FILE,
                        "token %d, the model's placeholder for pictures, comes %lld times in a prompt with "
                        "%lld of them: image_token_index of its config.json is not the tokenizer's",
                        image, (long long)(n_marks + n_like_marks), (long long)s->n_spans);
    p->n_visual = 0;
    for (int i = 0; i < s->n_spans; i++) p->n_visual += s->spans[i].n;
    p->n_tokens = p->n_ids - n_marks + p->n_visual;
    if (p->n_tokens + 1 > s->memory.n_ctx)
        return sac_fail(err, SAC_TOO_LONG,
                        "the prompt has %lld tokens (%lld of pictures), the context %lld: give fewer frames, "
                        "a shorter text or a larger context",
                        (long long)p->n_tokens, (long long)p->n_visual, (long long)s->memory.n_ctx);
    return SAC_OK;
}

/* What the conversation is as text, with a mark for every span of visual tokens. */
static sac_status render(const sac_session *s, const sac_message *messages, size_t n_messages,
                         sac_prompt_text *text, sac_error *err) {
    int64_t *n_blocks = calloc(s->n_media + 1, sizeof *n_blocks);
    if (!n_blocks) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu pictures and videos", s->n_media);
    const sac_frame_layout layout = s->model->loaded.frame_layout;
    const bool has_texts = sac_processor_has_texts(&s->model->loaded.processor);
    const bool is_timed = layout == SAC_FRAMES_TIMED || layout == SAC_FRAMES_SECONDS,
               is_written = is_timed || layout == SAC_FRAMES_COUNTED; /* then a video has one for now */
    for (size_t i = 0; i < s->n_media; i++) n_blocks[i] = is_written || has_texts ? 1 : s->media[i].n_blocks;
    sac_status st = sac_prompt_render(s->model, &s->chat, messages, n_messages, n_blocks, text, err);
    free(n_blocks);
    const bool instructs = s->model->loaded.time_instruction;
    if (st != SAC_OK || (!is_written && !has_texts && !instructs)) return st;
    st = (instructs  ? sac_prompt_instruct
          : has_texts  ? sac_prompt_write_tiles
          : is_timed ? sac_prompt_time_frames
                     : sac_prompt_count_frames)(s, text, err);
    if (st != SAC_OK) sac_prompt_text_free(text);
    return st;
}

sac_status sac_prompt_build(sac_session *s, const sac_message *messages, size_t n_messages,
                            sac_prompt *prompt, sac_error *err) {
    const sac_model_chat *chat = &s->model->loaded.chat;
    *prompt = (sac_prompt){0};
    if (n_messages == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "the conversation has no message");
    sac_prompt_text text;
    size_t n_ids = 0;
    SAC_TRY(render(s, messages, n_messages, &text, err));
    sac_status st = sac_tokenize(s->model->loaded.tokenizer, text.segments, text.n_segments,
                                 chat->adds_special && !text.rendered.has_begin, s->prompt,
                                 (size_t)s->memory.n_ctx, &n_ids, err);
    sac_prompt_text_free(&text);
    if (st == SAC_TOO_LONG)
        return sac_fail(err, st,
                        "the prompt has %zu tokens without its pictures, the context %lld: give a shorter "
                        "text or a larger context",
                        n_ids, (long long)s->memory.n_ctx);
    SAC_TRY(st);
    if (n_ids == 0 && !chat->format)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "the prompt is empty: %s writes nothing for this conversation; give --chat NAME or FILE",
            sac_chat_template_source(chat->plain));
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "the prompt is empty");
    prompt->n_ids = (int64_t)n_ids;
    return count(s, prompt, err);
}

sac_status sac_prompt_of_text(sac_session *s, const char *text, size_t n_bytes, sac_prompt *prompt,
                              sac_error *err) {
    sac_text_segment segment = {.text = text, .n_bytes = n_bytes};
    size_t n_ids = 0;
    *prompt = (sac_prompt){0};
    sac_status st = sac_tokenize(s->model->loaded.tokenizer, &segment, 1, true, s->prompt,
                                 (size_t)s->memory.n_ctx, &n_ids, err);
    if (st == SAC_TOO_LONG)
        return sac_fail(err, st, "the prompt has %zu tokens, the context %lld: give a shorter text", n_ids,
                        (long long)s->memory.n_ctx);
    SAC_TRY(st);
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "the prompt is empty");
    prompt->n_ids = (int64_t)n_ids;
    return count(s, prompt, err);
}

sac_status sac_prompt_of_tokens(sac_session *s, const int32_t *ids, size_t n_ids, sac_prompt *prompt,
                                sac_error *err) {
    *prompt = (sac_prompt){.n_ids = (int64_t)n_ids};
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "the prompt is empty");
    if (n_ids >= (size_t)s->memory.n_ctx)
        return sac_fail(err, SAC_TOO_LONG, "the prompt has %zu tokens, the context %lld: give fewer", n_ids,
                        (long long)s->memory.n_ctx);
    SAC_TRY(sac_check_ids(s, ids, n_ids, err));
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] == s->model->loaded.image_token || ids[i] == s->model->loaded.video_token)
            return sac_fail(err, SAC_BAD_ARGUMENT, "token id %d stands for a picture: give text only",
                            ids[i]);
    memcpy(s->prompt, ids, n_ids * sizeof *ids);
    return count(s, prompt, err);
}

/* ---------------------------------------------------------------- placing */

typedef struct placer {
    sac_session *s;
    int64_t n;       /* tokens placed */
    int64_t n_equal; /* leading ones equal to what stood there */
    int64_t n_held;  /* rows in the cache */
    bool compare;    /* only: nothing is written */
} placer;

/* Tokens before the first difference are overwritten by themselves, so old and new may share the arrays. */
static void place(placer *p, int32_t id, sac_identity identity) {
    if (p->n_equal == p->n && p->n < p->n_held && sac_identity_equal(p->s->identity[p->n], identity)) p->n_equal++;
    if (!p->compare) {
        p->s->ids[p->n] = id;
        p->s->identity[p->n] = identity;
    }
    p->n++;
}

static void place_span(placer *p, sac_prompt_span *span) {
    const sac_media *m = &p->s->media[span->media];
    span->first = p->n;
    if (sac_media_is_undecided(m)) { /* compared only: no row of it is held, as far as is known */
        p->n_held = p->n;
        p->n += span->n;
        return;
    }
    for (int64_t t = 0; t < span->n; t++)
        place(p, sac_media_token(p->s, m),
              sac_row_identity(p->s, sac_media_identity(p->s, (size_t)span->media, sac_media_index(m, span, t))));
}

/* What the session itself may keep: where steps of an answer have made some of the rows, the bits are others anyway. */
static int64_t own_rows(const sac_session *s, int64_t n, int64_t n_tokens) {
    if (n <= s->n_prompted && s->begins_few) return 0;
    if (n <= s->n_prompted) return sac_prompt_exact_rows(s, n, n_tokens);
    return sac_prompt_whole_spans(s, n < n_tokens ? n : n_tokens - 1);
}

/* All tokens of the prompt; n_equal becomes how many of them the session may keep. */
static sac_status place_all(placer *p, const sac_prompt *prompt, sac_error *err) {
    sac_session *s = p->s;
    int n_spans = 0;
    p->n_held = s->decoder.cache.n_rows;
    for (int64_t i = 0; i < prompt->n_ids; i++) {
        if (s->prompt[i] != SAC_PROMPT_MARK)
            place(p, s->prompt[i], sac_token_identity(s, s->prompt[i]));
        else if (n_spans < s->n_spans)
            place_span(p, &s->spans[n_spans++]);
        else
            return sac_fail(err, SAC_INTERNAL, "more marks in the prompt than pictures");
    }
    p->n_equal = own_rows(s, p->n_equal, prompt->n_tokens);
    if (!sac_decoder_may_reuse(&s->decoder, p->n_held, prompt->n_tokens)) p->n_equal = 0;
    return SAC_OK;
}

sac_status sac_prompt_place(sac_session *s, sac_prompt *prompt, sac_error *err) {
    placer p = {.s = s};
    sac_beginnings_withdraw(s);
    SAC_TRY(place_all(&p, prompt, err));
    sac_positions_fn number = s->model->loaded.positions;
    if (number == sac_positions_mrope && s->decoder.rope.grid_positions) number = sac_positions_mrope_grid;
    s->next_position = number(s->spans, s->n_spans, prompt->n_tokens, s->positions);
    prompt->n_reused = sac_decoder_rewind(&s->decoder, p.n_equal);
    sac_kv_cache_rename_from(&s->decoder.cache, prompt->n_reused); /* parked rows are found by pages (parked.h) */
    s->held_adapter = s->decoder.adapter;
    sac_row_numbers numbers = {.stride = prompt->n_tokens, .n = prompt->n_tokens, .next = s->next_position};
    if (s->model->loaded.positions != sac_positions_plain) numbers.ids = s->positions;
    sac_decoder_number_rows(&s->decoder, numbers, prompt->n_reused);
    if (s->n_exact > prompt->n_reused) s->n_exact = prompt->n_reused;
    if (s->n_prompted > prompt->n_reused) s->n_prompted = prompt->n_reused;
    return SAC_OK;
}

int64_t sac_prompt_media_end(const sac_session *s, size_t i) {
    const sac_media *m = &s->media[i];
    return m->spans[m->n_blocks - 1].first + m->spans[m->n_blocks - 1].n;
}

/* ---------------------------------------------------------------- the public calls */

int64_t sac_session_token_places(sac_session *s, sac_token_place *places, int64_t capacity) {
    int64_t n = s->decoder.cache.n_rows < capacity ? s->decoder.cache.n_rows : capacity;
    for (int64_t i = 0; i < n; i++) places[i] = (sac_token_place){.media = -1, .tile = -1};
    for (size_t i = 0; i < s->n_media; i++) sac_media_places(s, i, places, n);
    return s->decoder.cache.n_rows;
}

/* Copies the prompt with the model's placeholder for every visual token; the full count is returned. */
static size_t widen(const sac_session *s, const sac_prompt *prompt, int32_t *ids, size_t capacity) {
    size_t n = 0;
    int n_spans = 0;
    for (int64_t i = 0; i < prompt->n_ids; i++) {
        bool is_mark = s->prompt[i] == SAC_PROMPT_MARK;
        const sac_prompt_span *span = is_mark ? &s->spans[n_spans++] : NULL;
        int32_t token = span ? sac_media_token(s, &s->media[span->media]) : 0;
        int64_t repeat = span ? span->n : 1;
        for (int64_t r = 0; r < repeat; r++, n++)
            if (n < capacity) ids[n] = is_mark ? token : s->prompt[i];
    }
    return n;
}

sac_status sac_session_prompt(sac_session *s, const sac_message *messages, size_t n_messages, int32_t *ids,
                              size_t capacity, size_t *n_ids, sac_error *err) {
    sac_prompt prompt;
    if (s->reply.busy) return sac_fail(err, SAC_BAD_ARGUMENT, "this session is at work: end that first");
    sac_reply_drop(s);
    atomic_store(&s->cancel, false); /* of a call before */
    sac_status st = sac_media_prepare(s, messages, n_messages, err);
    if (st == SAC_OK) st = sac_prompt_build(s, messages, n_messages, &prompt, err);
    if (st == SAC_OK) *n_ids = widen(s, &prompt, ids, capacity);
    sac_media_close(s);
    return st;
}

sac_status sac_session_n_reusable(sac_session *s, const sac_message *messages, size_t n_messages,
                                  int64_t *n_prompt, int64_t *n_reusable, sac_error *err) {
    sac_prompt prompt;
    placer p = {.s = s, .compare = true};
    if (s->reply.running || s->reply.busy)
        return sac_fail(err, SAC_BAD_ARGUMENT, "this session is answering: end that first");
    atomic_store(&s->cancel, false); /* of a call before */
    sac_status st = sac_media_prepare(s, messages, n_messages, err);
    if (st == SAC_OK) st = sac_prompt_build(s, messages, n_messages, &prompt, err);
    if (st == SAC_OK) st = place_all(&p, &prompt, err);
    sac_media_close(s);
    SAC_TRY(st);
    if (n_prompt) *n_prompt = prompt.n_tokens;
    if (n_reusable) *n_reusable = sac_decoder_can_keep(&s->decoder, p.n_equal);
    return SAC_OK;
}

sac_status sac_tokenize_text(const sac_model *m, const char *text, size_t n_bytes, bool add_special,
                             bool parse_special, int32_t *ids, size_t capacity, size_t *n_ids,
                             sac_error *err) {
    sac_text_segment segment = {.text = text, .n_bytes = n_bytes, .parse_special = parse_special};
    sac_status st = sac_tokenize(m->loaded.tokenizer, &segment, 1, add_special, ids, capacity, n_ids, err);
    return st == SAC_TOO_LONG ? SAC_OK : st; /* *n_ids tells */
}

sac_status sac_detokenize_ids(const sac_model *m, const int32_t *ids, size_t n_ids, bool skip_special,
                              char *text, size_t capacity, size_t *n_bytes, sac_error *err) {
    sac_status st = sac_detokenize(m->loaded.tokenizer, ids, n_ids, skip_special, text,
                                   capacity ? capacity - 1 : 0, n_bytes, err);
    if (capacity) text[*n_bytes < capacity - 1 ? *n_bytes : capacity - 1] = 0;
    return st == SAC_TOO_LONG ? SAC_OK : st;
}

sac_status sac_token_bytes(const sac_model *m, int32_t id, char *bytes, size_t capacity, size_t *n_bytes,
                           sac_error *err) {
    *n_bytes = 0;
    if (id < 0 || id >= m->loaded.decoder.config.vocab)
        return sac_fail(err, SAC_BAD_ARGUMENT, "token id %d is not in the vocabulary of %d", id,
                        m->loaded.decoder.config.vocab);
    return sac_detokenize_piece(m->loaded.tokenizer, id, bytes, capacity, n_bytes, err);
}
