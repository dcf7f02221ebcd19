/* family_spec_embedded.c - the YAML inside the library. A file is parsed when it is first asked for, once in a process: opening
 * a model asks for its family, its tower, its text family and common.yaml dozens of times, and for no other. */
#include "family.h"
#include "family_spec.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 256 };

/* By their place in sac_family_yaml. Never freed: they are as constant as the text. */
static _Atomic(const sac_family_spec *) parsed[MOST_FILES];

static int place_of(const char *name) {
    for (int i = 0; i < sac_n_family_yaml && i < MOST_FILES; i++)
        if (strcmp(sac_family_yaml[i].name, name) == 0) return i;
    return -1;
}

static sac_status parse(const sac_family_spec **out, const sac_embedded_yaml *yaml, sac_error *err) {
    sac_family_spec *s = malloc(sizeof *s);
    if (!s) return sac_fail(err, SAC_NO_MEMORY, "no memory to read models/%s.yaml", yaml->name);
    sac_status st = sac_family_spec_parse(s, yaml->text, yaml->n_bytes, err);
    if (st != SAC_OK) {
        free(s);
        return sac_fail_prefix(err, st, "models/%s.yaml", yaml->name);
    }
    *out = s;
    return SAC_OK;
}

sac_status sac_family_spec_find(const sac_family_spec **out, const char *name, sac_error *err) {
    const int at = place_of(name);
    if (at < 0) return sac_fail(err, SAC_INTERNAL, "models/%s.yaml is not inside this library", name);
    *out = atomic_load_explicit(&parsed[at], memory_order_acquire);
    if (*out) return SAC_OK;
    const sac_family_spec *mine, *first = NULL;
    SAC_TRY(parse(&mine, &sac_family_yaml[at], err));
    *out = mine;
    if (atomic_compare_exchange_strong_explicit(&parsed[at], &first, mine, memory_order_acq_rel, memory_order_acquire)) return SAC_OK;
    sac_family_spec_free((sac_family_spec *)(uintptr_t)mine); /* another thread was here before */
    free((void *)(uintptr_t)mine);
    *out = first;
    return SAC_OK;
}

bool sac_family_spec_mentions(const char *name, const char *item) {
    const int at = place_of(name);
    return at >= 0 && strstr(sac_family_yaml[at].text, item) != NULL;
}
