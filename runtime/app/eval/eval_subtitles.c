#define _GNU_SOURCE
#include "eval_subtitles.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUBTITLE_MAX_BYTES = 1 << 16 };

/* ---------------------------------------------------------------- reading */

/* "00:01:02,345" and what follows it. */
static const char *parse_time(const char *p, int64_t *ms) {
    int h, m, s, f, n = 0;
    if (sscanf(p, "%5d:%2d:%2d%*1[,.]%3d%n", &h, &m, &s, &f, &n) != 4 || !n) return NULL;
    if (h < 0 || m < 0 || s < 0 || f < 0) return NULL;
    *ms = 1000 * (3600 * (int64_t)h + 60 * m + s) + f;
    return p + n;
}

static bool parse_times(const char *line, int64_t *start, int64_t *end) {
    const char *p = parse_time(line, start);
    if (!p) return false;
    p += strspn(p, " \t");
    if (strncmp(p, "-->", 3)) return false;
    p += 3;
    return parse_time(p + strspn(p, " \t"), end) != NULL;
}

static sac_status add_item(eval_subtitles *list, int64_t start, int64_t end, sac_error *err) {
    if ((list->n & (list->n - 1)) == 0) { /* a power of two is full */
        eval_subtitle *more = realloc(list->items, (list->n ? 2 * list->n : 1) * sizeof *more);
        if (!more) return sac_fail_no_memory(err);
        list->items = more;
    }
    char *text = strdup("");
    if (!text) return sac_fail_no_memory(err);
    list->items[list->n++] = (eval_subtitle){start, end, text};
    return SAC_OK;
}

static sac_status append_line(eval_subtitle *item, const char *line, const char *name, sac_error *err) {
    char *text;
    if (strlen(item->text) + strlen(line) > SUBTITLE_MAX_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%s: a subtitle of more than %d bytes", name, SUBTITLE_MAX_BYTES);
    if (asprintf(&text, "%s%s%s", item->text, *item->text ? " " : "", line) < 0)
        return sac_fail_no_memory(err);
    free(item->text);
    item->text = text;
    return SAC_OK;
}

/* Blocks parted by empty lines: a number (not needed), a line of times, lines of text. */
static sac_status read_lines(eval_subtitles *list, char *text, const char *name, sac_error *err) {
    enum { BETWEEN, NUMBERED, INSIDE } state = BETWEEN;
    size_t number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = 0;
        number++;
        int64_t start, end;
        if (!line[strspn(line, " \t")]) {
            state = BETWEEN;
        } else if (state == INSIDE) {
            SAC_TRY(append_line(&list->items[list->n - 1], line, name, err));
        } else if (parse_times(line, &start, &end)) {
            SAC_TRY(add_item(list, start, end, err));
            state = INSIDE;
        } else if (state == BETWEEN && strspn(line, "0123456789 \t") == strlen(line)) {
            state = NUMBERED;
        } else {
            return sac_fail(err, SAC_BAD_FILE,
                            "%s:%zu: expected times as 00:00:01,000 --> 00:00:02,500, found '%.40s'", name,
                            number, line);
        }
    }
    return SAC_OK;
}

sac_status eval_subtitles_parse(eval_subtitles *list, const char *text, size_t n_bytes, const char *name,
                                sac_error *err) {
    *list = (eval_subtitles){0};
    if (memchr(text, 0, n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "%s: not a text, it holds a zero byte", name);
    if (n_bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n_bytes -= 3;
    char *copy = strndup(text, n_bytes);
    if (!copy) return sac_fail_no_memory(err);
    sac_status st = read_lines(list, copy, name, err);
    free(copy);
    return st;
}

sac_status eval_subtitles_read(eval_subtitles *list, const char *path, sac_error *err) {
    *list = (eval_subtitles){0};
    FILE *f = fopen(path, "rb");
    if (!f) return sac_fail(err, errno == ENOENT ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path, strerror(errno));
    char *text =
        malloc(EVAL_SUBTITLES_MAX_BYTES + 1); /* one more than allowed tells a file that is too large */
    size_t n = text ? fread(text, 1, EVAL_SUBTITLES_MAX_BYTES + 1, f) : 0;
    sac_status st = !text                          ? sac_fail_no_memory(err)
                    : ferror(f)                    ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                    : n > EVAL_SUBTITLES_MAX_BYTES ? sac_fail(err, SAC_BAD_FILE, "%s: more than %zu bytes",
                                                              path, EVAL_SUBTITLES_MAX_BYTES)
                                                   : eval_subtitles_parse(list, text, n, path, err);
    free(text);
    fclose(f);
    return st;
}

void eval_subtitles_free(eval_subtitles *list) {
    for (size_t i = 0; i < list->n; i++) free(list->items[i].text);
    free(list->items);
    *list = (eval_subtitles){0};
}

/* ---------------------------------------------------------------- choosing */

typedef struct lines {
    FILE *f;
    char *text;
    size_t n_bytes, n;
} lines;

static bool begin(lines *l) {
    *l = (lines){0};
    l->f = open_memstream(&l->text, &l->n_bytes);
    return l->f != NULL;
}

static void put_line(lines *l, const char *p, size_t n) {
    if (l->n++) fputc('\n', l->f);
    fwrite(p, 1, n, l->f);
}

static char *end(lines *l, size_t *n_lines) {
    bool failed = ferror(l->f);
    if (fclose(l->f) || failed) {
        free(l->text);
        return NULL;
    }
    *n_lines = l->n;
    return l->text;
}

/* A copy without <marks> and {\marks}; to free. */
static char *without_marks(const char *text) {
    char *copy = malloc(strlen(text) + 1), *to = copy;
    for (const char *p = text; copy && *p;) {
        const char *close = *p == '<' ? strchr(p, '>') : *p == '{' && p[1] == '\\' ? strchr(p, '}') : NULL;
        if (close)
            p = close + 1;
        else
            *to++ = *p++;
    }
    if (copy) *to = 0;
    return copy;
}

char *eval_subtitles_official(const eval_subtitles *list, const double *time_s, size_t n, size_t *n_lines) {
    lines l;
    if (!begin(&l)) return NULL;
    bool failed = false;
    for (size_t k = 0; k < n && !failed; k++) {
        int64_t t = llround(1000 * time_s[k]);
        size_t i = 0;
        while (i < list->n && !(list->items[i].start_ms < t && list->items[i].end_ms > t)) i++;
        if (i == list->n) continue;
        char *text = without_marks(list->items[i].text);
        failed = !text;
        if (text && text[strspn(text, " \t")]) put_line(&l, text, strlen(text));
        free(text);
    }
    char *text = end(&l, n_lines);
    if (!failed) return text;
    free(text);
    return NULL;
}

static bool covers_a_frame(const eval_subtitle *s, const double *time_s, size_t n, double fps) {
    int64_t first = (int64_t)((double)s->start_ms / 1000 * fps),
            last = (int64_t)((double)s->end_ms / 1000 * fps);
    for (size_t k = 0; k < n; k++) {
        int64_t frame = llround(time_s[k] * fps);
        if (frame >= first && frame < last) return true;
    }
    return false;
}

char *eval_subtitles_lmms(const eval_subtitles *list, const double *time_s, size_t n, double fps,
                          size_t *n_lines) {
    static const char open[] = "<font color=\"white\" size=\".72c\">", close[] = "</font>";
    lines l;
    if (!begin(&l)) return NULL;
    for (size_t i = 0; i < list->n; i++) {
        const char *text = strstr(list->items[i].text, open), *after = text ? strstr(text, close) : NULL;
        if (!after || !covers_a_frame(&list->items[i], time_s, n, fps)) continue;
        text += sizeof open - 1;
        put_line(&l, text, (size_t)(after - text));
    }
    return end(&l, n_lines);
}
