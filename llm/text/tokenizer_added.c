/* tokenizer_added.c - finding added tokens in text: leftmost, then longest, as `tokenizers` does. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>

void sac_added_token_flag(sac_tokenizer *t, sac_added_token *token) {
    sac_vocab_token *v = &t->vocab.token[token->id];
    const char *text = sac_vocab_text(&t->vocab, token->id), *end = text + v->n_bytes;
    token->is_text = !token->special && sac_skip_space(text, end) == end;
    v->flags |= SAC_VOCAB_ADDED | (token->special ? SAC_VOCAB_SPECIAL : 0);
}

sac_status sac_added_tokens_add(sac_tokenizer *t, sac_added_token token, sac_error *err) {
    sac_added_tokens *a = &t->added;
    if (a->n == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : 32;
        sac_added_token *p = realloc(a->token, capacity * sizeof *p);
        if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", capacity);
        a->token = p;
        a->capacity = capacity;
    }
    a->token[a->n] = token;
    sac_added_token_flag(t, &a->token[a->n++]);
    return SAC_OK;
}

sac_text_span sac_added_name(const sac_added_tokens *a, int32_t id) {
    for (size_t i = 0; i < a->n; i++)
        if (a->token[i].id == id)
            return (sac_text_span){a->names.data + a->name_offset[i],
                                   a->name_offset[i + 1] - a->name_offset[i]};
    return (sac_text_span){NULL, 0};
}

/* The longest token that starts at p (limit: end of the piece) and may stand there, or -1. */
static int32_t longest_at(const sac_added_tokens *a, const sac_prefix_set *set, const char *p,
                          const char *limit, const char *may, bool may_all, bool splits_special,
                          size_t *n_bytes) {
    int32_t best = -1;
    sac_prefix_walk w = sac_prefix_start();
    while (p + w.depth < limit && sac_prefix_step(set, &w, p[w.depth])) {
        int32_t i = sac_prefix_here(set, &w);
        if (i < 0 || (splits_special && a->token[i].special)) continue;
        bool allowed = a->token[i].is_text || (may ? !memchr(may, 0, w.depth) : may_all);
        if (!allowed) continue;
        best = i;
        *n_bytes = w.depth;
    }
    return best;
}

static bool stands_alone(const char *text, const char *begin, const char *end, const char *limit) {
    if (begin > text) {
        const char *last = begin - 1;
        while (last > text && sac_utf8_continues(*last)) last--;
        if (sac_is_word(sac_utf8_decode(last))) return false;
    }
    return end == limit || !sac_is_word(sac_utf8_decode(end));
}

typedef struct finder {
    sac_run *run;
    sac_piece from;                  /* the piece being searched */
    const char *text, *limit, *done; /* done: up to here pieces have been put out */
    sac_error *err;
} finder;

static sac_status put(finder *f, const char *begin, const char *end, const sac_added_token *token) {
    sac_piece p = {.begin = f->from.begin + (uint32_t)(begin - f->text),
                   .n_bytes = (uint32_t)(end - begin),
                   .id = token ? token->id : 0,
                   .is_token = token != NULL,
                   .at_start = f->from.at_start && begin == f->text};
    return sac_pieces_add(&f->run->next_pieces, p, f->err);
}

static sac_status take(finder *f, const sac_added_token *token, const char *begin, const char *end) {
    if (token->single_word && !stands_alone(f->text, begin, end, f->limit)) return SAC_OK;
    if (token->lstrip) {
        begin = sac_skip_space_back(f->text, begin);
        if (begin < f->done) begin = f->done;
    }
    if (token->rstrip) end = sac_skip_space(end, f->limit);
    if (f->done < begin) SAC_TRY(put(f, f->done, begin, NULL));
    SAC_TRY(put(f, begin, end, token));
    f->done = end;
    return SAC_OK;
}

static sac_status search(sac_run *run, const sac_prefix_set *set, sac_piece piece, sac_error *err) {
    const sac_added_tokens *a = &run->t->added;
    const char *text = run->passage.text.data + piece.begin, *limit = text + piece.n_bytes;
    const char *may = run->passage.may.n_bytes ? run->passage.may.data + piece.begin : NULL;
    finder f = {run, piece, text, limit, text, err};
    for (const char *p = text; p < limit;) {
        unsigned char b = (unsigned char)*p;
        size_t n_bytes = 0;
        int32_t i = -1;
        if (set->first[b] < set->first[b + 1])
            i = longest_at(a, set, p, limit, may ? may + (p - text) : NULL, run->passage.may_all,
                           run->t->splits_special, &n_bytes);
        if (i < 0) {
            p++;
            continue;
        }
        SAC_TRY(take(&f, &a->token[i], p, p + n_bytes));
        p += n_bytes;
    }
    return f.done < limit ? put(&f, f.done, limit, NULL) : SAC_OK;
}

sac_status sac_run_added(sac_run *run, bool normalized, sac_error *err) {
    const sac_prefix_set *set = normalized ? &run->t->added.normalized : &run->t->added.plain;
    if (set->n == 0) return SAC_OK;
    run->next_pieces.n = 0;
    for (size_t i = 0; i < run->pieces.n; i++) {
        sac_piece p = run->pieces.piece[i];
        if (p.is_token)
            SAC_TRY(sac_pieces_add(&run->next_pieces, p, err));
        else
            SAC_TRY(search(run, set, p, err));
    }
    sac_pieces pieces = run->pieces;
    run->pieces = run->next_pieces;
    run->next_pieces = pieces;
    return SAC_OK;
}
