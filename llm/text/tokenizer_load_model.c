/* tokenizer_load_model.c - the two values that are nearly all of a tokenizer.json: the vocabulary and the
 * merges. They go through json_stream straight into the tables. */
#include "json_stream.h"
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static sac_status read_vocab_object(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    const char *text;
    size_t n_bytes;
    int64_t id;
    SAC_TRY(sac_json_stream_enter(s, '{', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(sac_json_stream_key(s, &text, &n_bytes, err));
        SAC_TRY(sac_json_stream_int(s, &id, err));
        SAC_TRY(sac_vocab_add(&t->vocab, id, text, n_bytes, SAC_VOCAB_MODEL, err));
    }
}

static sac_status read_unigram_piece(sac_tokenizer *t, sac_json_stream *s, size_t *capacity, sac_error *err) {
    sac_unigram *u = &t->unigram;
    const char *text;
    size_t n_bytes;
    bool more, after;
    double score;
    if ((size_t)u->n == *capacity) {
        size_t grown = *capacity ? 2 * *capacity : 4096;
        double *p = realloc(u->score, grown * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu scores", grown);
        u->score = p;
        *capacity = grown;
    }
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    SAC_TRY(sac_json_stream_next(s, &more, err));
    if (!more) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d is not [text, score]", (int)u->n);
    SAC_TRY(sac_json_stream_string(s, &text, &n_bytes, err));
    SAC_TRY(sac_vocab_add(&t->vocab, u->n, text, n_bytes, SAC_VOCAB_MODEL, err));
    SAC_TRY(sac_json_stream_next(s, &more, err));
    if (!more) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d has no score", (int)u->n);
    SAC_TRY(sac_json_stream_float(s, &score, err));
    SAC_TRY(sac_json_stream_next(s, &after, err));
    if (after) return sac_fail(err, SAC_BAD_FILE, "model.vocab: entry %d is not [text, score]", (int)u->n);
    u->score[u->n++] = score;
    return SAC_OK;
}

static sac_status read_vocab_list(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    size_t capacity = 0;
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) return SAC_OK;
        SAC_TRY(read_unigram_piece(t, s, &capacity, err));
    }
}

/* Merges wait in a ring, so that the memory behind two look-ups each has time to answer. */
#define AHEAD 8

typedef struct waiting_merge {
    sac_text_span left, right; /* in the file's text */
    uint64_t asked_left, asked_right;
} waiting_merge;

typedef struct merge_reader {
    sac_tokenizer *t;
    uint32_t rank; /* of the next merge to be added */
    int32_t last;  /* id made by the merge before */
    waiting_merge wait[AHEAD];
    uint32_t n_waiting, n_read;
    char both[2 * SAC_MAX_TOKEN_BYTES]; /* left and right, one behind the other */
    char pair_left[SAC_MAX_TOKEN_BYTES];
} merge_reader;

/* Merges are mostly written in the order of the ids they make: the next id is tried before the table is
 * asked. */
static int32_t find_merged(merge_reader *m, sac_text_span left, sac_text_span right) {
    const sac_vocab *v = &m->t->vocab;
    int32_t guess = m->last + 1;
    size_t n_bytes = left.n_bytes + right.n_bytes;
    if (sac_vocab_has(v, guess) && v->token[guess].n_bytes == n_bytes) {
        const char *text = sac_vocab_text(v, guess);
        if (memcmp(text, left.text, left.n_bytes) == 0 &&
            memcmp(text + left.n_bytes, right.text, right.n_bytes) == 0)
            return guess;
    }
    memcpy(m->both, left.text, left.n_bytes);
    memcpy(m->both + left.n_bytes, right.text, right.n_bytes);
    return sac_vocab_find(v, m->both, n_bytes);
}

static sac_status missing(const merge_reader *m, sac_text_span token, sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "merge %u needs the token \"%.*s\", which is not in the vocabulary",
                    m->rank, (int)(token.n_bytes < 80 ? token.n_bytes : 80), token.text);
}

static sac_status add_oldest(merge_reader *m, sac_error *err) {
    const sac_vocab *v = &m->t->vocab;
    waiting_merge *w = &m->wait[(m->n_read - m->n_waiting) % AHEAD];
    int32_t left = sac_vocab_answer(v, w->asked_left, w->left.text, w->left.n_bytes);
    if (left < 0) return missing(m, w->left, err);
    int32_t right = sac_vocab_answer(v, w->asked_right, w->right.text, w->right.n_bytes);
    if (right < 0) return missing(m, w->right, err);
    m->last = find_merged(m, w->left, w->right);
    if (m->last < 0) return missing(m, (sac_text_span){m->both, w->left.n_bytes + w->right.n_bytes}, err);
    m->n_waiting--;
    return sac_bpe_add(&m->t->bpe, left, right, m->rank++, m->last, err);
}

static sac_status add_waiting(merge_reader *m, sac_error *err) {
    while (m->n_waiting) SAC_TRY(add_oldest(m, err));
    return SAC_OK;
}

static sac_status add_merge(merge_reader *m, sac_text_span left, sac_text_span right, sac_error *err) {
    if (!left.n_bytes || !right.n_bytes || left.n_bytes > SAC_MAX_TOKEN_BYTES ||
        right.n_bytes > SAC_MAX_TOKEN_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "merge %u is not two tokens", m->n_read);
    if (m->n_waiting == AHEAD) SAC_TRY(add_oldest(m, err));
    m->wait[m->n_read++ % AHEAD] =
        (waiting_merge){left, right, sac_vocab_ask(&m->t->vocab, left.text, left.n_bytes),
                        sac_vocab_ask(&m->t->vocab, right.text, right.n_bytes)};
    m->n_waiting++;
    return SAC_OK;
}

/* "left right" */
static sac_status read_merge_string(merge_reader *m, sac_json_stream *s, sac_error *err) {
    const char *text;
    size_t n_bytes;
    SAC_TRY(sac_json_stream_string(s, &text, &n_bytes, err));
    if (n_bytes >= 8 && memcmp(text, "#version", 8) == 0) return SAC_OK;
    const char *space = memchr(text, ' ', n_bytes), *end = text + n_bytes;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return sac_fail(err, SAC_BAD_FILE, "merge %u \"%.*s\" is not two tokens with a space between",
                        m->n_read, (int)(n_bytes < 80 ? n_bytes : 80), text);
    SAC_TRY(add_merge(m, (sac_text_span){text, (size_t)(space - text)},
                      (sac_text_span){space + 1, (size_t)(end - space - 1)}, err));
    return text == s->unescaped ? add_waiting(m, err) : SAC_OK; /* that text is gone with the next string */
}

/* ["left", "right"] */
static sac_status read_merge_pair(merge_reader *m, sac_json_stream *s, sac_error *err) {
    sac_text_span part[2] = {{0}};
    size_t n_parts = 0;
    bool escaped = false;
    SAC_TRY(sac_json_stream_enter(s, '[', err));
    for (bool more;;) {
        SAC_TRY(sac_json_stream_next(s, &more, err));
        if (!more) break;
        if (n_parts == 2) return sac_fail(err, SAC_BAD_FILE, "merge %u is not a pair of tokens", m->n_read);
        sac_text_span *p = &part[n_parts++];
        SAC_TRY(sac_json_stream_string(s, &p->text, &p->n_bytes, err));
        if (p->text != s->unescaped || p->n_bytes > SAC_MAX_TOKEN_BYTES) continue;
        escaped = true;
        if (n_parts == 1) p->text = memcpy(m->pair_left, p->text, p->n_bytes);
    }
    if (n_parts != 2) return sac_fail(err, SAC_BAD_FILE, "merge %u is not a pair of tokens", m->n_read);
    SAC_TRY(add_merge(m, part[0], part[1], err));
    return escaped ? add_waiting(m, err) : SAC_OK;
}

sac_status sac_load_merges(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    merge_reader *m = malloc(sizeof *m);
    if (!m) return sac_fail(err, SAC_NO_MEMORY, "no memory for merges");
    m->t = t;
    m->rank = m->n_waiting = m->n_read = 0;
    m->last = -1;
    sac_status st = sac_bpe_reserve(&t->bpe, (size_t)t->vocab.n_tokens, err);
    if (st == SAC_OK) st = sac_json_stream_enter(s, '[', err);
    for (bool more = true; st == SAC_OK;) {
        st = sac_json_stream_next(s, &more, err);
        if (st != SAC_OK || !more) break;
        st = sac_json_stream_peek(s) == SAC_JSON_ARRAY ? read_merge_pair(m, s, err)
                                                       : read_merge_string(m, s, err);
    }
    if (st == SAC_OK) st = add_waiting(m, err);
    free(m);
    return st;
}

sac_status sac_load_vocab(sac_tokenizer *t, sac_json_stream *s, sac_error *err) {
    bool list = sac_json_stream_peek(s) == SAC_JSON_ARRAY;
    t->model = list ? SAC_MODEL_UNIGRAM : SAC_MODEL_BPE;
    SAC_TRY(list ? read_vocab_list(t, s, err) : read_vocab_object(t, s, err));
    return sac_vocab_index(&t->vocab, err);
}
