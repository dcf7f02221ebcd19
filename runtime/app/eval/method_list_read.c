#define _GNU_SOURCE
#include "method_list_read.h"
#include "input.h"
#include "method_file.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the command line */

static sac_status read_word(method_line *line, const char *word, size_t n, sac_error *err) {
    const char *equals = memchr(word, '=', n);
    int part = equals ? method_part_find(word, (size_t)(equals - word)) : -1;
    bool is_name = equals && equals - word == 4 && !strncmp(word, "name", 4);
    if (!is_name && part < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--method: expected prefill=, kv=, decode=, rope=, reduce= or name=, found '%.*s'",
                        (int)(n < 80 ? n : 80), word);
    char **field = is_name ? &line->name : &line->part[part];
    size_t n_value = n - (size_t)(equals + 1 - word);
    if (*field || !n_value)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--method: '%.*s' %s", (int)(equals - word), word,
                        *field ? "is given twice" : "has no value");
    *field = strndup(equals + 1, n_value);
    return *field ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status read_words(method_list *list, const char *text, sac_error *err) {
    method_line line = {0};
    size_t at;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " \t");
        sac_status st = n ? read_word(&line, p, n, err) : SAC_OK;
        if (st != SAC_OK) {
            method_line_free(&line);
            return st;
        }
        p += n + strspn(p + n, " \t");
    }
    if (method_list_add(list, &line, false, &at, err) == SAC_OK) return SAC_OK;
    if (err->status == SAC_NO_MEMORY) return err->status;
    err->status = SAC_BAD_ARGUMENT; /* of the command line, not of a file */
    return sac_fail_prefix(err, err->status, "--method");
}

/* ---------------------------------------------------------------- both */

sac_status method_list_parse(method_list *list, const char *text, size_t n_bytes, const char *name,
                             const text_list *words, sac_error *err) {
    *list = (method_list){0};
    method_line dense = {0};
    size_t at;
    SAC_TRY(method_list_add(list, &dense, false, &at, err));
    if (text) SAC_TRY(method_file_parse(list, text, n_bytes, name, err));
    for (size_t i = 0; i < words->n; i++) SAC_TRY(read_words(list, words->items[i], err));
    return SAC_OK;
}

sac_status method_list_read(method_list *list, const char *path, const text_list *words, sac_error *err) {
    *list = (method_list){0};
    if (!path) return method_list_parse(list, NULL, 0, "", words, err);
    FILE *f;
    SAC_TRY(input_open(&f, path, true, err));
    char *text = malloc(METHOD_LIST_MAX_BYTES + 1); /* one more than allowed tells a file that is too large */
    size_t n = text ? fread(text, 1, METHOD_LIST_MAX_BYTES + 1, f) : 0;
    sac_status st = !text       ? sac_fail_no_memory(err)
                    : ferror(f) ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                                : method_list_parse(list, text, n, path, words, err);
    free(text);
    fclose(f);
    return st;
}
