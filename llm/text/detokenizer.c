/* detokenizer.c - see detokenizer.h. One engine does both: `whole` only decides what happens to runs of byte
 * tokens. */
#include "detokenizer.h"

#include "tokenizer_impl.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#define SKIPPED (SAC_VOCAB_SPECIAL | SAC_VOCAB_RENAMED)

struct sac_detokenizer {
    const sac_tokenizer *t;
    bool skip_special;
    bool whole;      /* a run of byte tokens is judged as one, as `tokenizers` does */
    bool first;      /* no token yet */
    bool raw;        /* bytes as they are, whole characters or not */
    int strip_left;  /* characters that may still be stripped off the start */
    bool in_run;     /* the last token was a byte token */
    sac_buffer tail; /* bytes that are no whole character yet; whole: of the run of byte tokens */
    sac_buffer out;
    char *token[2]; /* scratch for one token's text, ping and pong */
    size_t token_capacity;
    sac_status status; /* of allocations; a stream makes none after open */
    sac_error error;
};

static void emit(sac_detokenizer *d, const char *text, size_t n_bytes) {
    if (d->status == SAC_OK) d->status = sac_buffer_add(&d->out, text, n_bytes, &d->error);
}

static void hold(sac_detokenizer *d, const char *text, size_t n_bytes) {
    if (d->status == SAC_OK) d->status = sac_buffer_add(&d->tail, text, n_bytes, &d->error);
}

static void emit_replacements(sac_detokenizer *d, size_t n) {
    for (size_t i = 0; i < n; i++) emit(d, SAC_UTF8_REPLACEMENT, 3);
}

/* Text on its way out, past the characters that are stripped off the start. */
static void emit_text(sac_detokenizer *d, const char *text, size_t n_bytes) {
    const char *end = text + n_bytes;
    while (text < end && d->strip_left > 0) {
        if (sac_utf8_decode(text) != d->t->decoder.strip_char) {
            d->strip_left = 0;
            break;
        }
        d->strip_left--;
        text += sac_utf8_length(*text);
    }
    emit(d, text, (size_t)(end - text));
}

/* Whole characters of the tail go out, broken bytes as U+FFFD; what could still become a character stays,
 * unless this is the end. per_byte: a broken character costs one U+FFFD for each of its bytes. */
static void drain_tail(sac_detokenizer *d, bool at_end, bool per_byte) {
    const char *p = d->tail.data, *end = p + d->tail.n_bytes, *good = p;
    if (d->raw) {
        emit(d, p, d->tail.n_bytes);
        d->tail.n_bytes = 0;
        return;
    }
    while (p < end) {
        size_t n;
        bool cut;
        if (sac_utf8_next(p, end, &n, &cut)) {
            p += n;
            continue;
        }
        emit_text(d, good, (size_t)(p - good));
        good = p;
        if (cut && !at_end) break;
        d->strip_left = 0;
        emit_replacements(d, per_byte ? n : 1);
        good = p += n;
    }
    if (p == end) emit_text(d, good, (size_t)(p - good));
    size_t left = (size_t)(end - p);
    if (left) memmove(d->tail.data, p, left);
    d->tail.n_bytes = left;
}

static void end_run(sac_detokenizer *d) {
    if (!d->in_run) return;
    d->in_run = false;
    if (d->whole && !sac_utf8_valid(d->tail.data, d->tail.n_bytes)) {
        d->strip_left = 0;
        emit_replacements(d, d->tail.n_bytes);
        d->tail.n_bytes = 0;
        return;
    }
    drain_tail(d, true, true);
}

/* "<0x0A>" */
static int byte_of(const char *text, size_t n_bytes) {
    if (n_bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t replace_all(const sac_decoder_replace *r, bool first, const char *from, size_t n_bytes,
                          char *to) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes;) {
        if (n_bytes - i >= r->from_bytes && memcmp(from + i, r->from, r->from_bytes) == 0) {
            size_t length = first && r->drop_in_first ? 0 : r->to_bytes;
            memcpy(to + n, r->to, length);
            n += length;
            i += r->from_bytes;
        } else {
            to[n++] = from[i++];
        }
    }
    return n;
}

static sac_text_span strip_token(const sac_decoder *s, sac_text_span t) {
    for (int i = 0; i < s->strip_left && t.n_bytes && sac_utf8_decode(t.text) == s->strip_char; i++) {
        size_t n = sac_utf8_length(t.text[0]);
        t.text += n;
        t.n_bytes -= n;
    }
    for (int i = 0; i < s->strip_right && t.n_bytes; i++) {
        const char *last = t.text + t.n_bytes - 1;
        while (last > t.text && sac_utf8_continues(*last)) last--;
        if (sac_utf8_decode(last) != s->strip_char) break;
        t.n_bytes = (size_t)(last - t.text);
    }
    return t;
}

/* Characters that stand for bytes; a token with any other character stands for itself. */
static void feed_byte_level(sac_detokenizer *d, sac_text_span t) {
    char *bytes = d->token[0];
    size_t n = 0;
    for (size_t i = 0; i < t.n_bytes; i += sac_utf8_length(t.text[i])) {
        int byte = sac_byte_of_char(sac_utf8_decode(t.text + i));
        if (byte < 0) {
            n = t.n_bytes;
            memcpy(bytes, t.text, n);
            break;
        }
        bytes[n++] = (char)byte;
    }
    hold(d, bytes, n);
    drain_tail(d, false, false);
}

static void feed_text(sac_detokenizer *d, sac_text_span t) {
    const sac_decoder *s = &d->t->decoder;
    for (int i = 0; i < s->n_replaces; i++) {
        char *to = d->token[i % 2];
        t.n_bytes = replace_all(&s->replace[i], d->first, t.text, t.n_bytes, to);
        t.text = to;
    }
    if (s->strip_tokens) t = strip_token(s, t);
    int byte = s->byte_fallback ? byte_of(t.text, t.n_bytes) : -1;
    if (byte >= 0) {
        d->in_run = true;
        char c = (char)byte;
        hold(d, &c, 1);
        if (!d->whole) drain_tail(d, false, true);
        return;
    }
    end_run(d);
    if (s->join_spaces && !d->first) emit(d, " ", 1);
    emit_text(d, t.text, t.n_bytes);
}

static void feed(sac_detokenizer *d, int32_t id) {
    if (!sac_vocab_has(&d->t->vocab, id)) return;
    /* `tokenizers` looks the changed name up, which is no control token's */
    if (d->skip_special && (d->t->vocab.token[id].flags & SKIPPED) == SAC_VOCAB_SPECIAL) return;
    sac_text_span t = sac_token_text(d->t, id);
    if (d->t->vocab.token[id].flags & SAC_VOCAB_RENAMED) t = sac_added_name(&d->t->added, id);
    if (d->t->decoder.byte_level)
        feed_byte_level(d, t);
    else
        feed_text(d, t);
    d->first = false;
}

static void flush(sac_detokenizer *d) {
    if (d->t->decoder.byte_level)
        drain_tail(d, true, false);
    else
        end_run(d);
}

/* ---- life ---- */

void sac_detokenizer_reset(sac_detokenizer *d) {
    d->first = true;
    d->in_run = false;
    d->tail.n_bytes = d->out.n_bytes = 0;
    d->strip_left = d->t->decoder.strip_tokens || d->t->decoder.byte_level ? 0 : d->t->decoder.strip_left;
    d->status = SAC_OK;
}

/* Longest text a token can become: each Replace may lengthen it. */
static size_t longest_token(const sac_tokenizer *t) {
    size_t n = t->vocab.longest_bytes;
    for (int i = 0; i < t->decoder.n_replaces; i++) {
        size_t by = t->decoder.replace[i].to_bytes / t->decoder.replace[i].from_bytes + 1;
        n = n * by + 1;
    }
    return n + 1;
}

static sac_status detokenizer_make(sac_detokenizer *d, const sac_tokenizer *t, bool skip_special,
                                   sac_error *err) {
    d->t = t;
    d->skip_special = skip_special;
    d->token_capacity = longest_token(t);
    if (d->token_capacity > SAC_MAX_TEXT_BYTES)
        return sac_fail(err, SAC_BAD_FILE,
                        "the tokenizer's decoder makes texts of %zu bytes out of one token",
                        d->token_capacity);
    for (int i = 0; i < 2; i++) {
        d->token[i] = malloc(d->token_capacity);
        if (!d->token[i])
            return sac_fail(err, SAC_NO_MEMORY, "no memory for a token of %zu bytes", d->token_capacity);
    }
    SAC_TRY(sac_buffer_reserve(&d->tail, d->token_capacity + 8, err));
    SAC_TRY(
        sac_buffer_reserve(&d->out, 3 * (d->token_capacity + 8), err)); /* U+FFFD for each byte at worst */
    sac_detokenizer_reset(d);
    return SAC_OK;
}

static void detokenizer_clear(sac_detokenizer *d) {
    sac_buffer_free(&d->tail);
    sac_buffer_free(&d->out);
    free(d->token[0]);
    free(d->token[1]);
}

sac_status sac_detokenizer_open(sac_detokenizer **out, const sac_tokenizer *t, bool skip_special,
                                sac_error *err) {
    *out = NULL;
    sac_detokenizer *d = calloc(1, sizeof *d);
    if (!d) return sac_fail(err, SAC_NO_MEMORY, "no memory for a detokenizer");
    sac_status st = detokenizer_make(d, t, skip_special, err);
    if (st != SAC_OK) {
        sac_detokenizer_free(d);
        return st;
    }
    *out = d;
    return SAC_OK;
}

void sac_detokenizer_free(sac_detokenizer *d) {
    if (!d) return;
    detokenizer_clear(d);
    free(d);
}

sac_text_span sac_detokenizer_feed(sac_detokenizer *d, int32_t id) {
    d->out.n_bytes = 0;
    feed(d, id);
    return (sac_text_span){d->out.data, d->out.n_bytes};
}

sac_text_span sac_detokenizer_flush(sac_detokenizer *d) {
    d->out.n_bytes = 0;
    flush(d);
    return (sac_text_span){d->out.data, d->out.n_bytes};
}

sac_status sac_detokenize(const sac_tokenizer *t, const int32_t *ids, size_t n_ids, bool skip_special,
                          char *text, size_t capacity, size_t *n_bytes, sac_error *err) {
    sac_detokenizer d = {.whole = true};
    *n_bytes = 0;
    sac_status st = detokenizer_make(&d, t, skip_special, err);
    for (size_t i = 0; st == SAC_OK && i < n_ids; i++) feed(&d, ids[i]);
    if (st == SAC_OK) flush(&d);
    if (st == SAC_OK && d.status != SAC_OK) {
        st = d.status;
        if (err) *err = d.error;
    }
    if (st == SAC_OK) {
        size_t n = d.out.n_bytes < capacity ? d.out.n_bytes : capacity;
        if (n) memcpy(text, d.out.data, n);
        *n_bytes = d.out.n_bytes;
        if (d.out.n_bytes > capacity)
            st = sac_fail(err, SAC_TOO_LONG, "the text has %zu bytes, more than the %zu there is room for",
                          d.out.n_bytes, capacity);
    }
    detokenizer_clear(&d);
    return st;
}

sac_status sac_detokenize_piece(const sac_tokenizer *t, int32_t id, char *bytes, size_t capacity,
                                size_t *n_bytes, sac_error *err) {
    sac_detokenizer d = {0};
    *n_bytes = 0;
    sac_status st = detokenizer_make(&d, t, false, err);
    if (st == SAC_OK) {
        d.raw = true;
        d.first = false;
        d.strip_left = 0;
        feed(&d, id);
        *n_bytes = d.out.n_bytes;
        size_t n = d.out.n_bytes < capacity ? d.out.n_bytes : capacity;
        if (n) memcpy(bytes, d.out.data, n);
    }
    detokenizer_clear(&d);
    return st;
}
