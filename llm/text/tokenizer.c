/* tokenizer.c - from segments of text to ids; the steps themselves are in the files beside it. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static void run_free(sac_run *run) {
    sac_buffer_free(&run->passage.text);
    sac_buffer_free(&run->passage.may);
    sac_buffer_free(&run->next_passage.text);
    sac_buffer_free(&run->next_passage.may);
    free(run->pieces.piece);
    free(run->next_pieces.piece);
    sac_regex_scratch_free(&run->regex);
    sac_bpe_scratch_free(&run->bpe);
    sac_unigram_scratch_free(&run->unigram);
}

static bool segments_differ(const sac_text_segment *segments, size_t n) {
    const sac_text_segment *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (segments[i].is_token || segments[i].n_bytes == 0) continue;
        if (first && first->parse_special != segments[i].parse_special) return true;
        if (!first) first = &segments[i];
    }
    return false;
}

static sac_status end_piece(sac_run *run, size_t begin, sac_error *err) {
    size_t n_bytes = run->passage.text.n_bytes - begin;
    if (n_bytes == 0) return SAC_OK;
    return sac_pieces_add(
        &run->pieces,
        (sac_piece){.begin = (uint32_t)begin, .n_bytes = (uint32_t)n_bytes, .at_start = run->pieces.n == 0},
        err);
}

/* Segments into one passage; neighbouring texts are one piece. */
static sac_status gather(sac_run *run, const sac_text_segment *segments, size_t n, sac_error *err) {
    sac_passage *to = &run->passage;
    bool differ = segments_differ(segments, n);
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const sac_text_segment *s = &segments[i];
        if (s->is_token) {
            SAC_TRY(end_piece(run, begin, err));
            begin = to->text.n_bytes;
            SAC_TRY(sac_pieces_add(&run->pieces,
                                   (sac_piece){.begin = (uint32_t)begin, .id = s->token_id, .is_token = true},
                                   err));
            continue;
        }
        size_t before = to->text.n_bytes;
        if (s->n_bytes) to->may_all = s->parse_special;
        SAC_TRY(sac_utf8_repair(&to->text, s->text, s->n_bytes, err));
        if (differ) SAC_TRY(sac_buffer_fill(&to->may, s->parse_special, to->text.n_bytes - before, err));
    }
    return end_piece(run, begin, err);
}

/* Words come back: what the last ones with the same hash became is kept for the length of a call. English
 * text has four of five words answered here. */
#define MEMO_SLOTS     4096
#define MEMO_MAX_IDS   5
#define MEMO_MAX_BYTES 48

typedef struct sac_memo {
    const char *text; /* in the passage */
    uint32_t n_bytes, n_ids;
    int32_t ids[MEMO_MAX_IDS];
} sac_memo;

static sac_memo *memo_of(sac_memo *memo, const char *text, size_t n_bytes) {
    uint64_t h = n_bytes;
    for (size_t i = 0; i < n_bytes; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return &memo[(h ^ h >> 32) % MEMO_SLOTS];
}

static sac_status emit_bpe(sac_run *run, sac_memo *memo, const char *text, size_t n_bytes, sac_error *err) {
    const sac_tokenizer *t = run->t;
    if (n_bytes > MEMO_MAX_BYTES)
        return sac_bpe_word(&t->bpe, &t->vocab, &run->bpe, text, n_bytes, &run->out, err);
    sac_memo *m = memo_of(memo, text, n_bytes);
    if (m->n_bytes == n_bytes && memcmp(m->text, text, n_bytes) == 0) {
        for (uint32_t i = 0; i < m->n_ids; i++) sac_emit(&run->out, m->ids[i]);
        return SAC_OK;
    }
    int32_t ids[MEMO_MAX_BYTES];
    sac_id_sink word = {ids, MEMO_MAX_BYTES, 0};
    SAC_TRY(sac_bpe_word(&t->bpe, &t->vocab, &run->bpe, text, n_bytes, &word, err));
    for (size_t i = 0; i < word.n; i++) sac_emit(&run->out, ids[i]);
    if (word.n > MEMO_MAX_IDS) return SAC_OK;
    *m = (sac_memo){.text = text, .n_bytes = (uint32_t)n_bytes, .n_ids = (uint32_t)word.n};
    memcpy(m->ids, ids, word.n * sizeof *ids);
    return SAC_OK;
}

static sac_status emit_pieces(sac_run *run, sac_error *err) {
    const sac_tokenizer *t = run->t;
    sac_memo *memo = calloc(MEMO_SLOTS, sizeof *memo);
    sac_status st = memo ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for tokenising");
    for (size_t i = 0; st == SAC_OK && i < run->pieces.n; i++) {
        sac_piece p = run->pieces.piece[i];
        const char *text = run->passage.text.data + p.begin;
        if (p.is_token)
            sac_emit(&run->out, p.id);
        else if (t->model == SAC_MODEL_BPE)
            st = emit_bpe(run, memo, text, p.n_bytes, err);
        else
            st = sac_unigram_word(&t->unigram, &t->vocab, &run->unigram, text, p.n_bytes, &run->out, err);
    }
    free(memo);
    return st;
}

static sac_status run_all(sac_run *run, const sac_text_segment *segments, size_t n_segments, bool add_special,
                          sac_error *err) {
    const sac_tokenizer *t = run->t;
    SAC_TRY(gather(run, segments, n_segments, err));
    SAC_TRY(sac_run_added(run, false, err));
    if (t->added.normalized.n == 0) run->passage.may.n_bytes = 0; /* the marks have been used */
    SAC_TRY(sac_run_normalize(run, err));
    SAC_TRY(sac_run_added(run, true, err));
    run->passage.may.n_bytes = 0;
    for (int i = 0; i < t->split.n; i++) SAC_TRY(sac_run_split(run, &t->split.step[i], err));
    if (run->pieces.n && run->pieces.piece[0].is_token && t->n_before &&
        run->pieces.piece[0].id == t->before[0])
        add_special = false; /* a chat template that writes the begin token itself */
    for (int i = 0; add_special && i < t->n_before; i++) sac_emit(&run->out, t->before[i]);
    SAC_TRY(emit_pieces(run, err));
    for (int i = 0; add_special && i < t->n_behind; i++) sac_emit(&run->out, t->behind[i]);
    return SAC_OK;
}

sac_status sac_tokenize(const sac_tokenizer *t, const sac_text_segment *segments, size_t n_segments,
                        bool add_special, int32_t *ids, size_t capacity, size_t *n_ids, sac_error *err) {
    sac_run run = {.t = t, .out = {ids, capacity, 0}};
    sac_status st = run_all(&run, segments, n_segments, add_special, err);
    run_free(&run);
    *n_ids = run.out.n;
    if (st == SAC_OK && run.out.n > capacity)
        st = sac_fail(err, SAC_TOO_LONG, "the text has %zu tokens, more than the %zu there is room for",
                      run.out.n, capacity);
    return st;
}

/* ---- the finished object ---- */

void sac_steps_free(sac_steps *steps) {
    for (int i = 0; i < steps->n; i++) {
        sac_regex_free(&steps->step[i].regex);
        sac_charsmap_free(steps->step[i].charsmap);
        free(steps->step[i].text);
    }
    memset(steps, 0, sizeof *steps);
}

void sac_tokenizer_free(sac_tokenizer *t) {
    if (!t) return;
    sac_vocab_free(&t->vocab);
    sac_bpe_free(&t->bpe);
    sac_unigram_free(&t->unigram);
    sac_prefix_set_free(&t->added.plain);
    sac_prefix_set_free(&t->added.normalized);
    sac_buffer_free(&t->added.names);
    free(t->added.name_offset);
    free(t->added.token);
    sac_steps_free(&t->normalize);
    sac_steps_free(&t->split);
    free(t->chat_template);
    free(t);
}

int32_t sac_tokenizer_n_vocab(const sac_tokenizer *t) {
    return t->vocab.n_ids;
}

int32_t sac_tokenizer_bos(const sac_tokenizer *t) {
    return t->bos;
}

int32_t sac_tokenizer_eos(const sac_tokenizer *t) {
    return t->eos;
}

bool sac_tokenizer_adds_bos(const sac_tokenizer *t) {
    return t->n_before > 0 && t->before[0] == t->bos;
}

const char *sac_tokenizer_kind(const sac_tokenizer *t) {
    return t->kind ? t->kind : "vocabulary";
}

const char *sac_tokenizer_unknown_class(const sac_tokenizer *t) {
    return t->unknown_class[0] ? t->unknown_class : NULL;
}

const char *sac_tokenizer_chat_template(const sac_tokenizer *t) {
    return t->chat_template;
}

int32_t sac_token_find(const sac_tokenizer *t, const char *text, size_t n_bytes) {
    return sac_vocab_find(&t->vocab, text, n_bytes);
}

sac_text_span sac_token_text(const sac_tokenizer *t, int32_t id) {
    if (!sac_vocab_has(&t->vocab, id)) return (sac_text_span){NULL, 0};
    return (sac_text_span){sac_vocab_text(&t->vocab, id), t->vocab.token[id].n_bytes};
}

bool sac_token_is_special(const sac_tokenizer *t, int32_t id) {
    return sac_vocab_has(&t->vocab, id) && (t->vocab.token[id].flags & SAC_VOCAB_SPECIAL);
}

bool sac_token_is_added(const sac_tokenizer *t, int32_t id) {
    return sac_vocab_has(&t->vocab, id) && (t->vocab.token[id].flags & SAC_VOCAB_ADDED);
}
