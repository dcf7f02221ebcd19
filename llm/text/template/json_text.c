#include "json_text.h"

#include "iterate.h"
#include "number.h"
#include "tmpl_chars.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct json_writer {
    sac_tmpl_writer w;
    bool ascii, sort;
    bool has_indent;
    sac_tmpl_string indent, between, colon;
} json_writer;

static sac_status write_value(json_writer *j, sac_tmpl_value v, int level);

static size_t escape(uint32_t c, bool ascii, char text[16]) {
    static const char plain[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    for (const char *p = plain; *p; p += 2)
        if (c == (unsigned char)*p) return (size_t)snprintf(text, 16, "\\%c", p[1]);
    if (c >= 0x20 && (c < 0x7f || !ascii)) return 0;
    if (c == 0x7f) return 0;
    if (c < 0x10000) return (size_t)snprintf(text, 16, "\\u%04" PRIx32, c);
    c -= 0x10000;
    return (size_t)snprintf(text, 16, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (c >> 10),
                            0xdc00 + (c & 0x3ff));
}

static sac_status write_string(json_writer *j, const sac_tmpl_string *s) {
    size_t from = 0;
    char text[16];
    SAC_TRY(sac_tmpl_write_text(&j->w, "\""));
    for (size_t i = 0, n; i < s->n_bytes; i += n) {
        n = sac_tmpl_char_bytes(s->bytes + i, s->bytes + s->n_bytes);
        size_t n_escape = escape(sac_utf8_decode(s->bytes + i), j->ascii, text);
        if (!n_escape) continue;
        SAC_TRY(sac_tmpl_write(&j->w, sac_tmpl_part(s, from, i)));
        SAC_TRY(sac_tmpl_write_bytes(&j->w, text, n_escape, sac_tmpl_mark(s, i)));
        from = i + n;
    }
    SAC_TRY(sac_tmpl_write(&j->w, sac_tmpl_part(s, from, s->n_bytes)));
    return sac_tmpl_write_text(&j->w, "\"");
}

static sac_status new_line(json_writer *j, int level) {
    if (!j->has_indent) return SAC_OK;
    SAC_TRY(sac_tmpl_write_text(&j->w, "\n"));
    for (int i = 0; i < level; i++) SAC_TRY(sac_tmpl_write(&j->w, j->indent));
    return SAC_OK;
}

static sac_status write_list(json_writer *j, const sac_tmpl_list *list, int level) {
    if (list->n == 0) return sac_tmpl_write_text(&j->w, "[]");
    for (size_t i = 0; i < list->n; i++) {
        SAC_TRY(i ? sac_tmpl_write(&j->w, j->between) : sac_tmpl_write_text(&j->w, "["));
        SAC_TRY(new_line(j, level + 1));
        SAC_TRY(write_value(j, list->items[i], level + 1));
    }
    SAC_TRY(new_line(j, level));
    return sac_tmpl_write_text(&j->w, "]");
}

/* Keys that are not strings become strings. */
static sac_status write_key(json_writer *j, sac_tmpl_value key) {
    if (key.kind == SAC_TMPL_STRING) return write_string(j, key.string);
    if (key.kind != SAC_TMPL_NONE && key.kind != SAC_TMPL_BOOL && key.kind != SAC_TMPL_INT &&
        key.kind != SAC_TMPL_FLOAT)
        return sac_tmpl_fail_use(j->w.run, key, "a key in JSON");
    SAC_TRY(sac_tmpl_write_text(&j->w, "\""));
    SAC_TRY(write_value(j, key, 0));
    return sac_tmpl_write_text(&j->w, "\"");
}

/* The order in which keys are written; an insertion sort, as dicts are small, and paid for in steps. */
static sac_status key_order(json_writer *j, const sac_tmpl_dict *d, size_t **order) {
    *order = sac_tmpl_take(&j->w.run->pool, (d->n + 1) * sizeof **order);
    if (!*order) return sac_tmpl_full(j->w.run);
    for (size_t i = 0; i < d->n; i++) {
        size_t at = i;
        for (int c; j->sort && at > 0; at--) {
            SAC_TRY(sac_tmpl_charge(j->w.run, 0));
            SAC_TRY(sac_tmpl_order(j->w.run, d->keys[(*order)[at - 1]], d->keys[i], &c));
            if (c <= 0) break;
            (*order)[at] = (*order)[at - 1];
        }
        (*order)[at] = i;
    }
    return SAC_OK;
}

static sac_status write_dict(json_writer *j, const sac_tmpl_dict *d, int level) {
    size_t *order;
    if (d->n == 0) return sac_tmpl_write_text(&j->w, "{}");
    SAC_TRY(key_order(j, d, &order));
    for (size_t i = 0; i < d->n; i++) {
        SAC_TRY(i ? sac_tmpl_write(&j->w, j->between) : sac_tmpl_write_text(&j->w, "{"));
        SAC_TRY(new_line(j, level + 1));
        SAC_TRY(write_key(j, d->keys[order[i]]));
        SAC_TRY(sac_tmpl_write(&j->w, j->colon));
        SAC_TRY(write_value(j, d->values[order[i]], level + 1));
    }
    SAC_TRY(new_line(j, level));
    return sac_tmpl_write_text(&j->w, "}");
}

static sac_status write_float(json_writer *j, double v) {
    char text[32];
    sac_tmpl_write_float(v, text);
    return sac_tmpl_write_text(&j->w, isnan(v)   ? "NaN"
                                      : isinf(v) ? (v < 0 ? "-Infinity" : "Infinity")
                                                 : text);
}

static sac_status write_value(json_writer *j, sac_tmpl_value v, int level) {
    sac_status st;
    switch (v.kind) {
    case SAC_TMPL_NONE: return sac_tmpl_write_text(&j->w, "null");
    case SAC_TMPL_BOOL: return sac_tmpl_write_text(&j->w, v.truth ? "true" : "false");
    case SAC_TMPL_INT: return sac_tmpl_write_repr(&j->w, v);
    case SAC_TMPL_FLOAT: return write_float(j, v.real);
    case SAC_TMPL_STRING: return write_string(j, v.string);
    case SAC_TMPL_LIST:
    case SAC_TMPL_TUPLE:
    case SAC_TMPL_DICT:
        SAC_TRY(sac_tmpl_descend(j->w.run));
        st = v.kind == SAC_TMPL_DICT ? write_dict(j, v.dict, level) : write_list(j, v.list, level);
        j->w.run->depth--;
        return st;
    default: return sac_tmpl_fail_use(j->w.run, v, "written as JSON");
    }
}

static sac_tmpl_string text(const char *bytes) {
    return (sac_tmpl_string){.bytes = bytes, .n_bytes = strlen(bytes)};
}

static sac_status read_indent(json_writer *j, sac_tmpl_value v) {
    sac_tmpl_run *r = j->w.run;
    int64_t n;
    if (v.kind == SAC_TMPL_MISSING || v.kind == SAC_TMPL_NONE) return SAC_OK;
    j->has_indent = true;
    j->between = text(",");
    if (v.kind == SAC_TMPL_STRING) {
        j->indent = *v.string;
        return SAC_OK;
    }
    if (!sac_tmpl_is_int(v, &n)) return sac_tmpl_fail_use(r, v, "an indent of JSON");
    sac_tmpl_writer spaces = {.run = r};
    for (; n > 0; n--) SAC_TRY(sac_tmpl_write_text(&spaces, " "));
    j->indent = sac_tmpl_written(&spaces);
    return SAC_OK;
}

/* Two texts. As Python does it, a text alone (`unused`) is written before anybody looks at what they are. */
static sac_status read_separators(json_writer *j, sac_tmpl_value v, bool unused) {
    const sac_tmpl_list *s;
    if (v.kind == SAC_TMPL_MISSING || v.kind == SAC_TMPL_NONE) return SAC_OK;
    SAC_TRY(sac_tmpl_items(j->w.run, v, &s));
    bool are_texts = s->n == 2 && s->items[0].kind == SAC_TMPL_STRING && s->items[1].kind == SAC_TMPL_STRING;
    if (s->n != 2 || (!are_texts && !unused))
        return sac_tmpl_fail(j->w.run, "'tojson' takes two texts as separators");
    if (unused) return SAC_OK;
    j->between = *s->items[0].string;
    j->colon = *s->items[1].string;
    return SAC_OK;
}

sac_status sac_tmpl_tojson(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out) {
    json_writer j = {.w = {.run = r}, .between = text(", "), .colon = text(": ")};
    j.ascii = sac_tmpl_truth(a[0]);
    j.sort = sac_tmpl_truth(a[3]);
    if (self.kind != SAC_TMPL_STRING) SAC_TRY(read_indent(&j, a[1]));
    SAC_TRY(read_separators(&j, a[2], self.kind == SAC_TMPL_STRING));
    SAC_TRY(write_value(&j, self, 0));
    return sac_tmpl_written_value(&j.w, out);
}
