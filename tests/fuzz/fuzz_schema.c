#define _GNU_SOURCE
/* A JSON schema, a regular expression ("/..." or, within a JSON string, "\"...") or GBNF (":..."), compiled, and a walk through answers that
 * match it: in every state another byte is allowed or the answer may end, or a model would be left with no token at all.
 * The input is the text, a NUL byte, and what chooses among allowed bytes. And the size of the tree, told before it is
 * built, counts every value that jansson makes of it. */
#include "fuzz.h"

#include "gbnf.h"
#include "json_size.h"
#include "machine.h"
#include "regex.h"
#include "schema.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 400 };

/* The first byte from `from` on, going round, that may come; -1 = none may. */
static int find_byte(machine *m, unsigned from) {
    for (unsigned i = 0; i < 256; i++)
        if (machine_try(m, 0, (unsigned char)(from + i))) return (int)((from + i) & 255);
    return -1;
}

static void walk(const grammar *g, const uint8_t *choices, size_t n) {
    machine *m = machine_open(g);
    if (!m) return;
    for (size_t i = 0; i < MAX_STEPS && !machine_is_done(m, 0); i++) {
        int byte = find_byte(m, i < n ? choices[i] : '"');
        if (byte < 0 && machine_may_end(m, 0)) break;
        if (byte < 0 || !machine_step(m, (unsigned char)byte)) abort();
    }
    machine_close(m);
}

static size_t count_values(const json_t *v) {
    size_t n = 1, i;
    const char *key;
    json_t *item;
    json_array_foreach(v, i, item) n += count_values(item);
    json_object_foreach((json_t *)(uintptr_t)v, key, item) n += count_values(item);
    return n;
}

static int compile_schema(grammar *g, const char *text, size_t n, serve_problem *p) {
    size_t n_bytes = serve_json_tree_bytes(text, n);
    json_t *schema = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    if (schema && n_bytes < count_values(schema) * 64) abort(); /* at least what an item takes */
    int root = schema ? schema_compile(g, schema, "x", p) : -1;
    json_decref(schema);
    return root;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *wrong = NULL;
    size_t n = size ? strnlen(text, size) : 0;
    char why[200] = "";
    grammar g;
    serve_problem p = {0};
    bool regex = n && (*text == '/' || *text == '"'), rules = n && *text == ':';
    grammar_init(&g, regex || rules ? GRAMMAR_RULES_DEPTH : GRAMMAR_JSON_DEPTH);
    int root = regex   ? regex_compile(&g, text + 1, n - 1, *text == '/', *text == '"', &wrong)
               : rules ? gbnf_compile(&g, text + 1, n - 1, why, sizeof why)
               : n     ? compile_schema(&g, text, n, &p)
                       : -1;
    if (root >= 0 && p.status == 0 && grammar_finish(&g, root, "it", "x", &p)) walk(&g, data + n, size - n);
    grammar_free(&g);
    return 0;
}
