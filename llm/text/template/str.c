/* str.c - what methods and filters do with text. The user's bytes stay the user's. */
#define _GNU_SOURCE
#include "str.h"

#include "tmpl_chars.h"
#include "utf8.h"

#include <string.h>

sac_status sac_tmpl_need_string(sac_tmpl_run *r, sac_tmpl_value v) {
    return v.kind == SAC_TMPL_STRING ? SAC_OK : sac_tmpl_fail_use(r, v, "taken as text");
}

static sac_status write_char(sac_tmpl_writer *w, uint32_t c, bool is_user) {
    char text[4];
    return sac_tmpl_write_bytes(w, text, sac_utf8_encode(c, text), is_user);
}

static bool is_cased(uint32_t c) {
    return sac_tmpl_is_upper(c) || sac_tmpl_is_lower(c) || sac_tmpl_is_title(c);
}

/* A sigma is small at the end of a word, where letters are before it and none behind. */
static bool is_last_sigma(const sac_tmpl_string *s, size_t at) {
    size_t i = at, behind = at + sac_utf8_length(s->bytes[at]);
    bool before = false, after = false;
    while (i > 0 && !before) {
        do i--;
        while (i > 0 && sac_utf8_continues(s->bytes[i]));
        uint32_t c = sac_utf8_decode(s->bytes + i);
        before = is_cased(c);
        if (!before && !sac_tmpl_ignores_case(c)) break;
    }
    for (; before && behind < s->n_bytes && !after; behind += sac_utf8_length(s->bytes[behind])) {
        uint32_t c = sac_utf8_decode(s->bytes + behind);
        after = is_cased(c);
        if (!after && !sac_tmpl_ignores_case(c)) break;
    }
    return before && !after;
}

static sac_status write_lower(sac_tmpl_writer *w, const sac_tmpl_string *s, size_t at, uint32_t c) {
    bool is_user = sac_tmpl_mark(s, at);
    if (c == 0x3a3) return write_char(w, is_last_sigma(s, at) ? 0x3c2 : 0x3c3, is_user);
    SAC_TRY(write_char(w, c == 0x130 ? 'i' : sac_tmpl_lower(c), is_user));
    return c == 0x130 ? write_char(w, 0x307, is_user) : SAC_OK; /* I with a dot: the dot stays */
}

static sac_status write_folded(sac_tmpl_writer *w, uint32_t c, bool is_user) {
    int32_t letters[8];
    size_t n = sac_tmpl_fold(c, letters);
    for (size_t i = 0; i < n; i++) SAC_TRY(write_char(w, (uint32_t)letters[i], is_user));
    return SAC_OK;
}

/* first: of a word, where the way asks for words. */
static sac_status write_cased(sac_tmpl_writer *w, const sac_tmpl_string *s, size_t at, sac_tmpl_case how,
                              bool first) {
    uint32_t c = sac_utf8_decode(s->bytes + at);
    bool is_user = sac_tmpl_mark(s, at),
         title = first && (how == SAC_TMPL_TITLE || how == SAC_TMPL_CAPITALIZE);
    bool up = how == SAC_TMPL_UPPER || (how == SAC_TMPL_SWAP && sac_tmpl_is_lower(c));
    if (how == SAC_TMPL_FOLD) return write_folded(w, c, is_user);
    if (how == SAC_TMPL_SWAP && sac_tmpl_is_title(c)) return write_char(w, c, is_user);
    if (!title && !up) return write_lower(w, s, at, c);
    const uint16_t *letters = sac_tmpl_special_case(c, title);
    if (!letters) return write_char(w, title ? sac_tmpl_title(c) : sac_tmpl_upper(c), is_user);
    for (; *letters; letters++) SAC_TRY(write_char(w, *letters, is_user));
    return SAC_OK;
}

sac_status sac_tmpl_change_case(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_case how,
                                sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    bool first = true;
    for (size_t i = 0; i < s->n_bytes; i += sac_utf8_length(s->bytes[i])) {
        uint32_t c = sac_utf8_decode(s->bytes + i);
        SAC_TRY(write_cased(&w, s, i, how, first));
        first = how == SAC_TMPL_TITLE && !is_cased(c);
    }
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, s, out);
}

sac_status sac_tmpl_keep_markup(sac_tmpl_run *r, const sac_tmpl_string *like, sac_tmpl_value *out) {
    if (like->is_markup == out->string->is_markup) return SAC_OK;
    sac_tmpl_string s = *out->string;
    s.is_markup = like->is_markup;
    return sac_tmpl_give(r, sac_tmpl_string_value(&r->pool, s), out);
}

sac_status sac_tmpl_escape(sac_tmpl_run *r, const sac_tmpl_string *s, bool again, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    if (s->is_markup && !again) return sac_tmpl_give(r, sac_tmpl_string_value(&r->pool, *s), out);
    for (size_t i = 0; i < s->n_bytes; i++) {
        char c = s->bytes[i];
        const char *to = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : NULL;
        SAC_TRY(to ? sac_tmpl_write_bytes(&w, to, strlen(to), sac_tmpl_mark(s, i))
                   : sac_tmpl_write(&w, sac_tmpl_part(s, i, i + 1)));
    }
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, &(sac_tmpl_string){.is_markup = true}, out);
}

/* ---- strip ---- */

static bool is_stripped(const sac_tmpl_string *chars, const char *p, size_t n) {
    if (!chars) return sac_tmpl_is_space(sac_utf8_decode(p));
    for (size_t i = 0, m; i < chars->n_bytes; i += m) {
        m = sac_utf8_length(chars->bytes[i]);
        if (m == n && memcmp(chars->bytes + i, p, n) == 0) return true;
    }
    return false;
}

sac_status sac_tmpl_strip(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value chars, bool left,
                          bool right, sac_tmpl_value *out) {
    if (chars.kind != SAC_TMPL_MISSING && chars.kind != SAC_TMPL_NONE && chars.kind != SAC_TMPL_STRING)
        return sac_tmpl_fail_use(r, chars, "stripped");
    const sac_tmpl_string *set = chars.kind == SAC_TMPL_STRING ? chars.string : NULL;
    size_t from = 0, to = s->n_bytes;
    while (left && from < to) {
        size_t n = sac_utf8_length(s->bytes[from]);
        if (!is_stripped(set, s->bytes + from, n)) break;
        SAC_TRY(sac_tmpl_charge(r, set ? set->n_bytes : 0));
        from += n;
    }
    while (right && to > from) {
        size_t last = to - 1;
        while (last > from && sac_utf8_continues(s->bytes[last])) last--;
        if (!is_stripped(set, s->bytes + last, to - last)) break;
        SAC_TRY(sac_tmpl_charge(r, set ? set->n_bytes : 0));
        to = last;
    }
    return sac_tmpl_part_value(r, s, from, to, out);
}

sac_status sac_tmpl_replace(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_string *old,
                            const sac_tmpl_string *new_text, int64_t count, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    size_t at = 0;
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    if (old->n_bytes == 0) { /* before every character, and at the end */
        for (; count != 0; count--) {
            SAC_TRY(sac_tmpl_write(&w, *new_text));
            if (at >= s->n_bytes) break;
            size_t n = sac_utf8_length(s->bytes[at]);
            SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(s, at, at + n)));
            at += n;
        }
    } else
        for (const char *p;
             count != 0 && (p = memmem(s->bytes + at, s->n_bytes - at, old->bytes, old->n_bytes)); count--) {
            size_t to = (size_t)(p - s->bytes);
            SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(s, at, to)));
            SAC_TRY(sac_tmpl_write(&w, *new_text));
            at = to + old->n_bytes;
        }
    SAC_TRY(sac_tmpl_write(&w, sac_tmpl_part(s, at, s->n_bytes)));
    return sac_tmpl_written_value(&w, out);
}

static bool is_line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static sac_status add_part(sac_tmpl_run *r, sac_tmpl_list *list, const sac_tmpl_string *s, size_t from,
                           size_t to) {
    sac_tmpl_value v;
    SAC_TRY(sac_tmpl_charge(r, 0));
    SAC_TRY(sac_tmpl_part_value(r, s, from, to, &v));
    return sac_tmpl_list_add(&r->pool, list, v) ? SAC_OK : sac_tmpl_full(r);
}

sac_status sac_tmpl_split_lines(sac_tmpl_run *r, const sac_tmpl_string *s, bool keep_ends,
                                sac_tmpl_value *out) {
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_LIST, 8), out));
    SAC_TRY(sac_tmpl_charge(r, s->n_bytes));
    size_t from = 0;
    for (size_t i = 0, n; i < s->n_bytes; i += n) {
        n = sac_utf8_length(s->bytes[i]);
        if (!is_line_end(sac_utf8_decode(s->bytes + i))) continue;
        if (s->bytes[i] == '\r' && i + 1 < s->n_bytes && s->bytes[i + 1] == '\n') n = 2;
        SAC_TRY(add_part(r, out->list, s, from, keep_ends ? i + n : i));
        from = i + n;
    }
    return from < s->n_bytes ? add_part(r, out->list, s, from, s->n_bytes) : SAC_OK;
}

sac_status sac_tmpl_join(sac_tmpl_run *r, const sac_tmpl_list *items, const sac_tmpl_string *between,
                         bool needs_text, sac_tmpl_value *out) {
    sac_tmpl_writer w = {.run = r};
    for (size_t i = 0; i < items->n; i++) {
        SAC_TRY(sac_tmpl_charge(r, 0));
        if (i) SAC_TRY(sac_tmpl_write(&w, *between));
        sac_tmpl_value v = items->items[i];
        if (needs_text && between->is_markup) {
            SAC_TRY(sac_tmpl_str(r, v, &v));
            SAC_TRY(sac_tmpl_escape(r, v.string, false, &v));
        } else if (needs_text && v.kind != SAC_TMPL_STRING)
            return sac_tmpl_fail_use(r, v, "joined as text");
        SAC_TRY(sac_tmpl_write_str(&w, v));
    }
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return needs_text ? sac_tmpl_keep_markup(r, between, out) : SAC_OK;
}

sac_status sac_tmpl_pad(sac_tmpl_run *r, const sac_tmpl_string *s, int64_t width, sac_tmpl_string fill,
                        int side, sac_tmpl_value *out) {
    int64_t n = (int64_t)sac_tmpl_count_chars(s->bytes, s->n_bytes), room = width > n ? width - n : 0;
    int64_t left = side < 0 ? 0 : side > 0 ? room : room / 2 + (room & width & 1);
    sac_tmpl_writer w = {.run = r};
    for (int64_t i = 0; i < left; i++) SAC_TRY(sac_tmpl_write(&w, fill));
    SAC_TRY(sac_tmpl_write(&w, *s));
    for (int64_t i = left; i < room; i++) SAC_TRY(sac_tmpl_write(&w, fill));
    SAC_TRY(sac_tmpl_written_value(&w, out));
    return sac_tmpl_keep_markup(r, s, out);
}
