/* tokenizer_normalize.c - the normaliser steps, each from one passage into the next.
 *
 * When only parts of a text may hold added tokens and some of those are looked for behind the normalisers,
 * every output byte must know which kind of part it came from. Steps that rewrite locally copy the mark
 * along; the Unicode forms normalise the text joined and find the borders again (see joined). */
#include "tokenizer_impl.h"

#include "utf8.h"

#include <string.h>

static bool has_marks(const sac_passage *p) {
    return p->may.n_bytes > 0;
}

static sac_status copy_range(const sac_passage *in, size_t from, size_t to, sac_passage *out,
                             sac_error *err) {
    if (has_marks(in)) SAC_TRY(sac_buffer_add(&out->may, in->may.data + from, to - from, err));
    return sac_buffer_add(&out->text, in->text.data + from, to - from, err);
}

static sac_status add_marked(sac_passage *out, const char *text, size_t n_bytes, char mark, bool marks,
                             sac_error *err) {
    if (marks) SAC_TRY(sac_buffer_fill(&out->may, mark, n_bytes, err));
    return sac_buffer_add(&out->text, text, n_bytes, err);
}

static bool all_set(const char *marks, size_t n) {
    return n == 0 || !memchr(marks, 0, n);
}

static sac_status replace(const sac_step *step, sac_regex_scratch *scratch, const sac_passage *in,
                          sac_passage *out, sac_error *err) {
    size_t done = 0, begin, end;
    sac_regex_iter it = sac_regex_find(&step->regex, scratch, in->text.data, in->text.n_bytes);
    for (bool found;;) {
        SAC_TRY(sac_regex_next(&it, &begin, &end, &found, err));
        if (!found) break;
        SAC_TRY(copy_range(in, done, begin, out, err));
        char mark = has_marks(in) && all_set(in->may.data + begin, end - begin);
        SAC_TRY(add_marked(out, step->text, step->text_bytes, mark, has_marks(in), err));
        done = end;
    }
    return copy_range(in, done, in->text.n_bytes, out, err);
}

static sac_status strip(const sac_step *step, const sac_passage *in, sac_passage *out, sac_error *err) {
    const char *text = in->text.data, *from = text, *to = text + in->text.n_bytes;
    if (step->left) from = sac_skip_space(from, to);
    if (step->right) to = sac_skip_space_back(from, to);
    return copy_range(in, (size_t)(from - text), (size_t)(to - text), out, err);
}

/* ---- Unicode forms and the charsmap, which may join neighbouring characters ---- */

static sac_status map_range(const sac_step *step, sac_buffer *out, const char *text, size_t n_bytes,
                            sac_error *err) {
    if (step->kind == SAC_STEP_UNICODE) return sac_unicode_normalize(out, step->form, text, n_bytes, err);
    return sac_charsmap_apply(step->charsmap, out, text, n_bytes, err);
}

static sac_status map_marked(const sac_step *step, const sac_passage *in, size_t from, size_t to, char mark,
                             sac_passage *out, sac_error *err) {
    if (from == to) return SAC_OK;
    size_t before = out->text.n_bytes;
    SAC_TRY(map_range(step, &out->text, in->text.data + from, to - from, err));
    return sac_buffer_fill(&out->may, mark, out->text.n_bytes - before, err);
}

/* [from, to) holds a change of mark at `border`: the halves keep their marks if they do not join. */
static sac_status map_border(const sac_step *step, const sac_passage *in, size_t from, size_t border,
                             size_t to, sac_passage *out, sac_error *err) {
    const char *text = in->text.data;
    sac_buffer apart = {0}, joined = {0};
    sac_status st = map_range(step, &apart, text + from, border - from, err);
    size_t half = apart.n_bytes;
    if (st == SAC_OK) st = map_range(step, &apart, text + border, to - border, err);
    if (st == SAC_OK) st = map_range(step, &joined, text + from, to - from, err);
    if (st == SAC_OK) {
        bool same = apart.n_bytes == joined.n_bytes &&
                    (!joined.n_bytes || !memcmp(apart.data, joined.data, joined.n_bytes));
        char left = same && in->may.data[border - 1],
             right = same && all_set(in->may.data + border, to - border);
        if (!same) half = joined.n_bytes;
        st = sac_buffer_fill(&out->may, left, half, err);
        if (st == SAC_OK) st = sac_buffer_fill(&out->may, right, joined.n_bytes - half, err);
        if (st == SAC_OK) st = sac_buffer_add(&out->text, joined.data, joined.n_bytes, err);
    }
    sac_buffer_free(&apart);
    sac_buffer_free(&joined);
    return st;
}

/* ASCII characters join with nothing before them, so a text may be normalised in parts cut in
 * front of them. */
static sac_status joined(const sac_step *step, const sac_passage *in, sac_passage *out, sac_error *err) {
    const char *text = in->text.data, *may = in->may.data;
    size_t n = in->text.n_bytes, done = 0;
    if (!has_marks(in)) return map_range(step, &out->text, text, n, err);
    for (size_t border = 1; border <= n; border++) {
        if (border == n) return map_marked(step, in, done, n, may[done], out, err);
        if (border <= done || may[border] == may[border - 1]) continue;
        size_t from = border - 1, to = border;
        while (from > done && (unsigned char)text[from] >= 0x80) from--;
        while (to < n && (unsigned char)text[to] >= 0x80) to++;
        SAC_TRY(map_marked(step, in, done, from, may[done], out, err));
        SAC_TRY(map_border(step, in, from, border, to, out, err));
        done = to;
        if (done == n) return SAC_OK;
        border = done;
    }
    return SAC_OK;
}

static sac_status apply(const sac_step *step, sac_regex_scratch *scratch, const sac_passage *in,
                        sac_passage *out, sac_error *err) {
    out->text.n_bytes = out->may.n_bytes = 0;
    out->may_all = in->may_all;
    if (in->text.n_bytes == 0) return SAC_OK;
    switch (step->kind) {
    case SAC_STEP_UNICODE:
    case SAC_STEP_PRECOMPILED: return joined(step, in, out, err);
    case SAC_STEP_PREPEND:
        SAC_TRY(add_marked(out, step->text, step->text_bytes, 1, has_marks(in), err));
        return copy_range(in, 0, in->text.n_bytes, out, err);
    case SAC_STEP_REPLACE: return replace(step, scratch, in, out, err);
    case SAC_STEP_STRIP: return strip(step, in, out, err);
    default: return sac_fail(err, SAC_INTERNAL, "step %d is not a normaliser", (int)step->kind);
    }
}

sac_status sac_normalize_text(const sac_steps *steps, sac_regex_scratch *regex, sac_passage *text,
                              sac_passage *spare, sac_error *err) {
    for (int i = 0; i < steps->n; i++) {
        SAC_TRY(apply(&steps->step[i], regex, text, spare, err));
        sac_passage swap = *text;
        *text = *spare;
        *spare = swap;
    }
    return SAC_OK;
}

static sac_status normalize_pieces(sac_run *run, sac_passage *text, sac_passage *spare, sac_error *err) {
    const sac_passage *from = &run->passage;
    sac_passage *to = &run->next_passage;
    to->text.n_bytes = to->may.n_bytes = run->next_pieces.n = 0;
    to->may_all = from->may_all;
    for (size_t i = 0; i < run->pieces.n; i++) {
        sac_piece p = run->pieces.piece[i];
        if (!p.is_token) {
            text->text.n_bytes = text->may.n_bytes = 0;
            if (has_marks(from))
                SAC_TRY(sac_buffer_add(&text->may, from->may.data + p.begin, p.n_bytes, err));
            SAC_TRY(sac_buffer_add(&text->text, from->text.data + p.begin, p.n_bytes, err));
            SAC_TRY(sac_normalize_text(&run->t->normalize, &run->regex, text, spare, err));
            p.begin = (uint32_t)to->text.n_bytes;
            p.n_bytes = (uint32_t)text->text.n_bytes;
            SAC_TRY(sac_buffer_add(&to->may, text->may.data, text->may.n_bytes, err));
            SAC_TRY(sac_buffer_add(&to->text, text->text.data, text->text.n_bytes, err));
            if (p.n_bytes == 0) continue;
        }
        SAC_TRY(sac_pieces_add(&run->next_pieces, p, err));
    }
    return SAC_OK;
}

sac_status sac_run_normalize(sac_run *run, sac_error *err) {
    if (run->t->normalize.n == 0) return SAC_OK;
    sac_passage text = {0}, spare = {0};
    sac_status st = normalize_pieces(run, &text, &spare, err);
    sac_buffer_free(&text.text);
    sac_buffer_free(&text.may);
    sac_buffer_free(&spare.text);
    sac_buffer_free(&spare.may);
    sac_passage passage = run->passage;
    run->passage = run->next_passage;
    run->next_passage = passage;
    sac_pieces pieces = run->pieces;
    run->pieces = run->next_pieces;
    run->next_pieces = pieces;
    return st;
}
