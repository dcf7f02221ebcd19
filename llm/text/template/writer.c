/* writer.c - text that grows, and values as Python writes them: str and repr. */
#include "iterate.h"
#include "number.h"
#include "tmpl_chars.h"
#include "tmpl_run.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sac_status reserve(sac_tmpl_writer *w, size_t n_bytes) {
    sac_tmpl_run *r = w->run;
    if (w->limit && n_bytes > w->limit - w->n)
        return sac_tmpl_fail(r, "it writes more than %zu MiB", w->limit >> 20);
    SAC_TRY(sac_tmpl_charge(r, n_bytes));
    if (n_bytes <= w->capacity - w->n) return SAC_OK;
    size_t more = 2 * w->capacity > w->n + n_bytes ? 2 * w->capacity : w->n + n_bytes + 32;
    char *bytes = sac_tmpl_grow(&r->pool, w->bytes, w->n, more);
    uint8_t *marks = w->marks ? sac_tmpl_grow(&r->pool, w->marks, w->n, more) : NULL;
    if (!bytes || (w->marks && !marks)) return sac_tmpl_full(r);
    w->bytes = bytes;
    w->marks = marks;
    w->capacity = more;
    return SAC_OK;
}

sac_status sac_tmpl_write(sac_tmpl_writer *w, sac_tmpl_string s) {
    if (s.n_bytes == 0) return SAC_OK;
    SAC_TRY(reserve(w, s.n_bytes));
    if (w->n == 0 && !s.marks) w->is_user = s.is_user;
    if (!w->marks && (s.marks || s.is_user != w->is_user)) {
        w->marks = sac_tmpl_take(&w->run->pool, w->capacity);
        if (!w->marks) return sac_tmpl_full(w->run);
        memset(w->marks, w->is_user, w->n);
    }
    memcpy(w->bytes + w->n, s.bytes, s.n_bytes);
    if (w->marks && s.marks)
        memcpy(w->marks + w->n, s.marks, s.n_bytes);
    else if (w->marks)
        memset(w->marks + w->n, s.is_user, s.n_bytes);
    w->n += s.n_bytes;
    return SAC_OK;
}

sac_status sac_tmpl_write_bytes(sac_tmpl_writer *w, const char *bytes, size_t n_bytes, bool is_user) {
    return sac_tmpl_write(w, (sac_tmpl_string){.bytes = bytes, .n_bytes = n_bytes, .is_user = is_user});
}

sac_status sac_tmpl_write_text(sac_tmpl_writer *w, const char *text) {
    return sac_tmpl_write_bytes(w, text, strlen(text), false);
}

sac_tmpl_string sac_tmpl_written(const sac_tmpl_writer *w) {
    return (sac_tmpl_string){
        .bytes = w->bytes ? w->bytes : "", .marks = w->marks, .n_bytes = w->n, .is_user = w->is_user};
}

sac_status sac_tmpl_written_value(const sac_tmpl_writer *w, sac_tmpl_value *out) {
    return sac_tmpl_give(w->run, sac_tmpl_string_value(&w->run->pool, sac_tmpl_written(w)), out);
}

sac_status sac_tmpl_str(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value *out) {
    *out = v;
    if (v.kind == SAC_TMPL_STRING) return SAC_OK;
    sac_tmpl_writer w = {.run = r};
    SAC_TRY(sac_tmpl_write_str(&w, v));
    return sac_tmpl_written_value(&w, out);
}

/* ---- repr ---- */

static sac_status write_escaped(sac_tmpl_writer *w, const sac_tmpl_string *s, size_t i, size_t n,
                                char quote) {
    uint32_t c = sac_utf8_decode(s->bytes + i);
    char text[16] = {'\\', 0};
    if (c == (unsigned char)quote || c == '\\')
        text[1] = (char)c;
    else if (c == '\n' || c == '\r' || c == '\t')
        text[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
    else if (sac_tmpl_is_printable(c))
        return sac_tmpl_write(w, sac_tmpl_part(s, i, i + n));
    else
        snprintf(text, sizeof text,
                 c < 0x100     ? "\\x%02" PRIx32
                 : c < 0x10000 ? "\\u%04" PRIx32
                               : "\\U%08" PRIx32,
                 c);
    return sac_tmpl_write_bytes(w, text, strlen(text), sac_tmpl_mark(s, i));
}

static sac_status write_quoted(sac_tmpl_writer *w, const sac_tmpl_string *s) {
    bool single = memchr(s->bytes, '\'', s->n_bytes) != NULL,
         twin = memchr(s->bytes, '"', s->n_bytes) != NULL;
    char quote[2] = {single && !twin ? '"' : '\'', 0};
    SAC_TRY(sac_tmpl_write_text(w, quote));
    for (size_t i = 0, n; i < s->n_bytes; i += n) {
        n = sac_tmpl_char_bytes(s->bytes + i, s->bytes + s->n_bytes);
        SAC_TRY(write_escaped(w, s, i, n, quote[0]));
    }
    return sac_tmpl_write_text(w, quote);
}

static sac_status write_items(sac_tmpl_writer *w, const sac_tmpl_list *list, const char *open,
                              const char *close) {
    SAC_TRY(sac_tmpl_write_text(w, open));
    for (size_t i = 0; i < list->n; i++) {
        if (i) SAC_TRY(sac_tmpl_write_text(w, ", "));
        SAC_TRY(sac_tmpl_write_repr(w, list->items[i]));
    }
    return sac_tmpl_write_text(w, close);
}

static sac_status write_dict(sac_tmpl_writer *w, const sac_tmpl_dict *d) {
    SAC_TRY(sac_tmpl_write_text(w, "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i) SAC_TRY(sac_tmpl_write_text(w, ", "));
        SAC_TRY(sac_tmpl_write_repr(w, d->keys[i]));
        SAC_TRY(sac_tmpl_write_text(w, ": "));
        SAC_TRY(sac_tmpl_write_repr(w, d->values[i]));
    }
    return sac_tmpl_write_text(w, "}");
}

static sac_status write_range(sac_tmpl_writer *w, const int64_t range[3]) {
    char text[100];
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, range[0], range[1]);
    if (range[2] != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, range[2]);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return sac_tmpl_write_text(w, text);
}

static sac_status write_macro(sac_tmpl_writer *w, const char *name) {
    if (!name) return sac_tmpl_write_text(w, "<Macro anonymous>");
    SAC_TRY(sac_tmpl_write_text(w, "<Macro '"));
    SAC_TRY(sac_tmpl_write_text(w, name));
    return sac_tmpl_write_text(w, "'>");
}

static sac_status write_container(sac_tmpl_writer *w, sac_tmpl_value v) {
    char text[64];
    int64_t n;
    switch (v.kind) {
    case SAC_TMPL_LIST: return write_items(w, v.list, "[", "]");
    case SAC_TMPL_RANGE: return write_range(w, v.list->range);
    case SAC_TMPL_VIEW:
        SAC_TRY(sac_tmpl_write_text(w, v.list->type));
        return write_items(w, v.list, "([", "])");
    case SAC_TMPL_TUPLE: return write_items(w, v.list, "(", v.list->n == 1 ? ",)" : ")");
    case SAC_TMPL_DICT: return write_dict(w, v.dict);
    case SAC_TMPL_NAMESPACE:
        SAC_TRY(sac_tmpl_write_text(w, "<Namespace "));
        SAC_TRY(write_dict(w, v.dict));
        return sac_tmpl_write_text(w, ">");
    case SAC_TMPL_LOOP:
        SAC_TRY(sac_tmpl_loop_length(w->run, v.loop, &n));
        snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%" PRId64 ">", v.loop->index + 1, n);
        return sac_tmpl_write_text(w, text);
    case SAC_TMPL_FUNCTION:
        if (v.function->is_macro) return write_macro(w, v.function->name);
        /* fall through */
    default: return sac_tmpl_fail_use(w->run, v, "written as text: Python would show its address");
    }
}

sac_status sac_tmpl_write_repr(sac_tmpl_writer *w, sac_tmpl_value v) {
    char text[64];
    switch (v.kind) {
    case SAC_TMPL_UNDEFINED: return sac_tmpl_write_text(w, "Undefined");
    case SAC_TMPL_NONE: return sac_tmpl_write_text(w, "None");
    case SAC_TMPL_BOOL: return sac_tmpl_write_text(w, v.truth ? "True" : "False");
    case SAC_TMPL_INT:
        snprintf(text, sizeof text, "%" PRId64, v.integer);
        return sac_tmpl_write_text(w, text);
    case SAC_TMPL_FLOAT: sac_tmpl_write_float(v.real, text); return sac_tmpl_write_text(w, text);
    case SAC_TMPL_STRING:
        if (!v.string->is_markup) return write_quoted(w, v.string);
        SAC_TRY(sac_tmpl_write_text(w, "Markup("));
        SAC_TRY(write_quoted(w, v.string));
        return sac_tmpl_write_text(w, ")");
    default: break;
    }
    SAC_TRY(sac_tmpl_descend(w->run));
    sac_status st = write_container(w, v);
    w->run->depth--;
    return st;
}

sac_status sac_tmpl_write_str(sac_tmpl_writer *w, sac_tmpl_value v) {
    if (v.kind == SAC_TMPL_STRING) return sac_tmpl_write(w, *v.string);
    return v.kind == SAC_TMPL_UNDEFINED ? SAC_OK : sac_tmpl_write_repr(w, v);
}
