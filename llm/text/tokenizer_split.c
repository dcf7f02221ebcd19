/* tokenizer_split.c - pre-tokenizer steps: pieces of text into smaller pieces, or into rewritten text. */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <string.h>

/* GPT-2's table: the 188 visible Latin-1 characters stand for their own bytes, the other bytes, in order, for
 * U+0100 and on. */
static bool is_visible(unsigned b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

uint32_t sac_char_of_byte(unsigned char byte) {
    if (is_visible(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;            /* 33 of them */
    if (byte < 0xa1) return 0x100u + 33 + byte - 0x7f; /* 0x7f .. 0xa0 */
    return 0x143;                                      /* 0xad */
}

int sac_byte_of_char(uint32_t c) {
    if (c < 0x100) return is_visible(c) ? (int)c : -1;
    if (c <= 0x120) return (int)(c - 0x100);
    if (c <= 0x142) return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

/* ---- cutting ---- */

typedef struct cutter {
    sac_pieces *out;
    size_t first;   /* pieces of the text being cut begin here in out */
    sac_piece from; /* that text */
    sac_split_behavior behavior;
    bool invert, previous_match, holds;
    size_t held_begin, held_end; /* MERGED_WITH_NEXT: a match that waits for what follows */
    sac_error *err;
} cutter;

static sac_status push(cutter *c, size_t begin, size_t end) {
    sac_piece p = {.begin = c->from.begin + (uint32_t)begin,
                   .n_bytes = (uint32_t)(end - begin),
                   .at_start = c->from.at_start && begin == 0};
    return sac_pieces_add(c->out, p, c->err);
}

static sac_status extend_or_push(cutter *c, bool extend, size_t begin, size_t end) {
    if (!extend || c->out->n == c->first) return push(c, begin, end);
    sac_piece *last = &c->out->piece[c->out->n - 1];
    last->n_bytes = c->from.begin + (uint32_t)end - last->begin;
    return SAC_OK;
}

static sac_status merge_with_next(cutter *c, size_t begin, size_t end, bool match) {
    if (c->holds && match) SAC_TRY(push(c, c->held_begin, c->held_end));
    if (!match) SAC_TRY(push(c, c->holds ? c->held_begin : begin, end));
    c->holds = match;
    c->held_begin = begin;
    c->held_end = end;
    return SAC_OK;
}

/* One range of the text, ranges in order and without gaps; what the behaviours do is NormalizedString::split
 * of `tokenizers`. */
static sac_status cut(cutter *c, size_t begin, size_t end, bool match) {
    match = match != c->invert;
    bool previous = c->previous_match;
    c->previous_match = match;
    switch (c->behavior) {
    case SAC_SPLIT_REMOVED: return match ? SAC_OK : push(c, begin, end);
    case SAC_SPLIT_ISOLATED: return push(c, begin, end);
    case SAC_SPLIT_MERGED_WITH_PREVIOUS: return extend_or_push(c, match && !previous, begin, end);
    case SAC_SPLIT_CONTIGUOUS: return extend_or_push(c, match == previous, begin, end);
    case SAC_SPLIT_MERGED_WITH_NEXT: return merge_with_next(c, begin, end, match);
    }
    return SAC_OK;
}

static sac_status finish_cut(cutter *c) {
    if (c->holds) SAC_TRY(push(c, c->held_begin, c->held_end));
    size_t kept = c->first;
    for (size_t i = c->first; i < c->out->n; i++)
        if (c->out->piece[i].n_bytes) c->out->piece[kept++] = c->out->piece[i];
    c->out->n = kept;
    return SAC_OK;
}

static sac_status cut_piece(sac_run *run, const sac_step *step, sac_piece p, sac_error *err) {
    cutter c = {.out = &run->next_pieces,
                .first = run->next_pieces.n,
                .from = p,
                .behavior = step->behavior,
                .invert = step->invert,
                .err = err};
    const char *text = run->passage.text.data + p.begin;
    sac_regex_iter it = sac_regex_find(&step->regex, &run->regex, text, p.n_bytes);
    size_t done = 0, begin, end;
    for (bool found;;) {
        SAC_TRY(sac_regex_next(&it, &begin, &end, &found, err));
        if (!found) break;
        if (begin != done) SAC_TRY(cut(&c, done, begin, false));
        SAC_TRY(cut(&c, begin, end, true));
        done = end;
    }
    if (done != p.n_bytes) SAC_TRY(cut(&c, done, p.n_bytes, false));
    return finish_cut(&c);
}

/* ---- rewriting ---- */

static sac_status write_byte_chars(sac_buffer *out, const char *text, size_t n_bytes, sac_error *err) {
    SAC_TRY(sac_buffer_reserve(out, 2 * n_bytes, err));
    char *to = out->data + out->n_bytes;
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char b = (unsigned char)text[i];
        if (b > 0x20 && b < 0x7f)
            *to++ = text[i];
        else
            to += sac_utf8_encode(sac_char_of_byte(b), to);
    }
    out->n_bytes = (size_t)(to - out->data);
    return SAC_OK;
}

static bool starts_with(const char *text, size_t n_bytes, const char *prefix, size_t prefix_bytes) {
    return n_bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

static sac_status write_metaspace(const sac_step *s, sac_buffer *out, const char *text, sac_piece p,
                                  sac_error *err) {
    bool has = text[0] == ' ' || starts_with(text, p.n_bytes, s->text, s->text_bytes);
    bool wants = s->scheme == SAC_PREPEND_ALWAYS || (s->scheme == SAC_PREPEND_FIRST && p.at_start);
    if (wants && !has) SAC_TRY(sac_buffer_add(out, s->text, s->text_bytes, err));
    const char *from = text, *end = text + p.n_bytes;
    for (const char *space; (space = memchr(from, ' ', (size_t)(end - from))); from = space + 1) {
        SAC_TRY(sac_buffer_add(out, from, (size_t)(space - from), err));
        SAC_TRY(sac_buffer_add(out, s->text, s->text_bytes, err));
    }
    return sac_buffer_add(out, from, (size_t)(end - from), err);
}

static sac_status rewrite_piece(sac_run *run, const sac_step *step, sac_piece p, sac_error *err) {
    const char *text = run->passage.text.data + p.begin;
    sac_buffer *out = &run->next_passage.text;
    size_t begin = out->n_bytes;
    if (step->kind == SAC_STEP_BYTE_CHARS) {
        SAC_TRY(write_byte_chars(out, text, p.n_bytes, err));
    } else if (step->kind == SAC_STEP_METASPACE) {
        SAC_TRY(write_metaspace(step, out, text, p, err));
    } else {
        if (!starts_with(text, p.n_bytes, step->text, step->text_bytes))
            SAC_TRY(sac_buffer_add(out, step->text, step->text_bytes, err));
        SAC_TRY(sac_buffer_add(out, text, p.n_bytes, err));
    }
    p.begin = (uint32_t)begin;
    p.n_bytes = (uint32_t)(out->n_bytes - begin);
    return sac_pieces_add(&run->next_pieces, p, err);
}

sac_status sac_run_split(sac_run *run, const sac_step *step, sac_error *err) {
    run->next_pieces.n = run->next_passage.text.n_bytes = 0;
    for (size_t i = 0; i < run->pieces.n; i++) {
        sac_piece p = run->pieces.piece[i];
        if (p.is_token)
            SAC_TRY(sac_pieces_add(&run->next_pieces, p, err));
        else if (step->kind == SAC_STEP_SPLIT)
            SAC_TRY(cut_piece(run, step, p, err));
        else
            SAC_TRY(rewrite_piece(run, step, p, err));
    }
    sac_pieces pieces = run->pieces;
    run->pieces = run->next_pieces;
    run->next_pieces = pieces;
    if (step->kind != SAC_STEP_SPLIT) {
        sac_passage passage = run->passage;
        run->passage = run->next_passage;
        run->next_passage = passage;
    }
    return SAC_OK;
}
