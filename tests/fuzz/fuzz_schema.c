#define _GNU_SOURCE
/* A JSON schema, compiled, and a walk through answers that match it: in every state another byte is allowed or the answer may
 * end, or a model would be left with no token at all. The input is the schema's text, a NUL byte, and what chooses among
 * allowed bytes. And the size of the tree, told before it is built, counts every value that jansson makes of it. */
#include "fuzz.h"

#include "json_machine.h"
#include "json_size.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 400 };

/* The first byte from `from` on, going round, that may come; -1 = none may. */
static int find_byte(const json_machine *m, unsigned from) {
    for (unsigned i = 0; i < 256; i++) {
        json_machine copy = *m;
        if (json_machine_step(&copy, (unsigned char)(from + i))) return (int)((from + i) & 255);
    }
    return -1;
}

static void walk(const schema *s, const uint8_t *choices, size_t n) {
    json_machine m;
    json_machine_start(&m, s);
    for (size_t i = 0; i < MAX_STEPS && m.depth; i++) {
        int byte = find_byte(&m, i < n ? choices[i] : '"');
        if (byte < 0 && json_machine_may_end(&m)) return;
        if (byte < 0 || !json_machine_step(&m, (unsigned char)byte)) abort();
    }
}

static size_t count_values(const json_t *v) {
    size_t n = 1, i;
    const char *key;
    json_t *item;
    json_array_foreach(v, i, item) n += count_values(item);
    json_object_foreach((json_t *)(uintptr_t)v, key, item) n += count_values(item);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t n = size ? strnlen((const char *)data, size) : 0;
    size_t n_bytes = serve_json_tree_bytes((const char *)data, n);
    json_t *text = n ? json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    schema s;
    serve_problem p = {0};
    if (text && n_bytes < count_values(text) * 64) abort(); /* at least what an item takes */
    if (text && schema_compile(&s, text, &p)) walk(&s, data + n, size - n);
    if (text) schema_free(&s);
    json_decref(text);
    return 0;
}
