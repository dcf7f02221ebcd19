#define _GNU_SOURCE
#include "inspect_tokens.h"
#include "output.h"
#include "status.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_BYTES ((size_t)64 << 20)

static sac_status count_line(const run *r, const char *line, size_t n_bytes, size_t number, sac_error *err) {
    json_error_t e;
    size_t n = 0;
    int32_t none;
    json_t *text = json_loadb(line, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    sac_status st =
        json_is_string(text)
            ? SAC_OK
            : sac_fail(err, SAC_BAD_FILE, "standard input:%zu: a text as JSON has it is expected", number);
    if (st == SAC_OK)
        st = sac_tokenize_text(r->model, json_string_value(text), json_string_length(text), false, false,
                               &none, 0, &n, err);
    json_decref(text);
    if (st != SAC_OK) return st;
    printf("%zu\n", n);
    return output_finish(err);
}

sac_status inspect_tokens(const run *r, sac_error *err) {
    char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    sac_status st = SAC_OK;
    while (st == SAC_OK && (n = getline(&line, &room, stdin)) > 0) {
        st = (size_t)n > LINE_MAX_BYTES ? sac_fail(err, SAC_BAD_FILE, "standard input:%zu: more than %zu MB",
                                                   number + 1, LINE_MAX_BYTES >> 20)
                                        : count_line(r, line, (size_t)n, ++number, err);
    }
    free(line);
    if (st == SAC_OK && ferror(stdin)) return sac_fail(err, SAC_IO, "standard input cannot be read");
    return st;
}
