#define _GNU_SOURCE
#include "method_list.h"
#include "hash.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const method_part_names[METHOD_PARTS] = {"prefill", "kv", "decode", "rope", "reduce"};
const char *const method_part_defaults[METHOD_PARTS] = {"dense", "f16", "dense", "model", "none"};

int method_part_find(const char *name, size_t n) {
    for (int i = 0; i < METHOD_PARTS; i++)
        if (strlen(method_part_names[i]) == n && !strncmp(method_part_names[i], name, n)) return i;
    return -1;
}

/* ---------------------------------------------------------------- lines */

char *method_line_text(char *const part[METHOD_PARTS]) {
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    const char *between = "";
    for (int i = 0; i < METHOD_PARTS; i++) {
        if (!part[i]) continue;
        fprintf(f, "%s%s=%s", between, method_part_names[i], part[i]);
        between = " ";
    }
    if (!*between) fputs("dense", f);
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad) return text;
    free(text);
    return NULL;
}

char *method_line_file(const method_line *line) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-";
    char *text = method_line_text(line->part), *file = NULL;
    if (!text) return NULL;
    uint64_t hash = sac_hash_quick(0, text, strlen(text));
    for (char *p = text; *p; p++)
        if (!strchr(letters, *p)) *p = '_';
    if (asprintf(&file, "%.60s-%08" PRIx32, text, (uint32_t)(hash ^ hash >> 32)) < 0) file = NULL;
    free(text);
    return file;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_line(const method_line *a, const method_line *b) {
    bool same = true;
    for (int i = 0; i < METHOD_PARTS; i++) same = same && same_text(a->part[i], b->part[i]);
    return same;
}

void method_line_free(method_line *line) {
    free(line->name);
    for (int i = 0; i < METHOD_PARTS; i++) free(line->part[i]);
    *line = (method_line){0};
}

/* A line that says "dense" in words is the one that says nothing. */
static void drop_defaults(char *part[METHOD_PARTS]) {
    for (int i = 0; i < METHOD_PARTS; i++) {
        if (!part[i] || strcmp(part[i], method_part_defaults[i])) continue;
        free(part[i]);
        part[i] = NULL;
    }
}

static method_line *find_same(const method_list *list, const method_line *line) {
    for (size_t i = 0; i < list->n; i++)
        if (same_line(&list->lines[i], line)) return &list->lines[i];
    return NULL;
}

static bool is_taken(const method_list *list, const char *name, const method_line *but) {
    for (size_t i = 0; i < list->n; i++)
        if (&list->lines[i] != but && !strcmp(list->lines[i].name, name)) return true;
    return false;
}

static sac_status append(method_list *list, const method_line *line, sac_error *err) {
    if (list->n == METHOD_LIST_MAX_LINES)
        return sac_fail(err, SAC_BAD_CONFIG, "more than %d method lines", METHOD_LIST_MAX_LINES);
    method_line *more = realloc(list->lines, (list->n + 1) * sizeof *more);
    if (!more) return sac_fail_no_memory(err);
    list->lines = more;
    list->lines[list->n++] = *line;
    return SAC_OK;
}

/* Dense may be listed, by a name of its own. */
static sac_status merge(method_list *list, method_line *there, method_line *line, bool shared,
                        sac_error *err) {
    if (!shared && there != list->lines)
        return sac_fail(err, SAC_BAD_CONFIG, "'%.80s' is the same line as '%.80s'", line->name, there->name);
    if (!shared) {
        free(there->name);
        there->name = line->name;
        line->name = NULL;
    }
    method_line_free(line);
    return SAC_OK;
}

sac_status method_list_add(method_list *list, method_line *line, bool shared, size_t *at, sac_error *err) {
    drop_defaults(line->part);
    if (!line->name) line->name = method_line_text(line->part);
    method_line *there = find_same(list, line);
    *at = there ? (size_t)(there - list->lines) : list->n;
    sac_status st = !line->name ? sac_fail_no_memory(err) : SAC_OK;
    if (st == SAC_OK && !(there && shared) && is_taken(list, line->name, there))
        st = sac_fail(err, SAC_BAD_CONFIG, "another line is named '%.80s', too", line->name);
    if (st == SAC_OK) st = there ? merge(list, there, line, shared, err) : append(list, line, err);
    if (st != SAC_OK) method_line_free(line);
    return st;
}

void method_list_free(method_list *list) {
    for (size_t i = 0; i < list->n; i++) method_line_free(&list->lines[i]);
    for (size_t i = 0; i < list->n_sweeps; i++) {
        method_sweep *s = &list->sweeps[i];
        free(s->name);
        for (int k = 0; k < METHOD_PARTS; k++) free(s->part[k]);
        for (size_t k = 0; s->over && k < s->n; k++) free(s->over[k]);
        free(s->over);
        free(s->lines);
    }
    free(list->lines);
    free(list->sweeps);
    *list = (method_list){0};
}
