/* scope.c - where names live, by Jinja's own rules (jinja2/idtracking.py, compiler.py): a name that a scope sets
 * anywhere is the scope's from its start on; what it then holds depends on where it is set and who reads it. */
#include "scope.h"

enum { MAX_HEIGHT = 400 };

typedef struct sac_tmpl_slot {
    int level;
    const char *name;
} slot_name;

bool sac_scope_fail(sac_scope_finder *f, sac_status status) {
    if (f->status == SAC_OK) f->status = status;
    return false;
}
bool sac_scope_full(sac_scope_finder *f) {
    return sac_scope_fail(f, sac_tmpl_source_full(f->source));
}

bool sac_scope_descend(sac_scope_finder *f, int line) {
    if (f->height++ < MAX_HEIGHT) return true;
    return sac_scope_fail(f, sac_tmpl_source_fail(f->source, line, "nested more than %d deep", MAX_HEIGHT));
}

/* ---- scopes ---- */

/* Names of equal level in one function share a slot, as they share a Python variable in Jinja. */
static int slot_of(sac_scope_finder *f, sac_tmpl_slots *slots, int level, const char *name) {
    for (int i = 0; i < slots->n; i++)
        if (slots->names[i].name == name && slots->names[i].level == level) return i;
    if (slots->n == slots->capacity) {
        size_t n = (size_t)slots->n, more = n ? 2 * n : 8;
        slot_name *names =
            sac_tmpl_grow(f->source->pool, slots->names, n * sizeof *names, more * sizeof *names);
        if (!names) return sac_scope_full(f) - 1;
        slots->names = names;
        slots->capacity = (int)more;
    }
    ((slot_name *)(uintptr_t)slots->names)[slots->n] = (slot_name){level, name};
    return slots->n++;
}

sac_tmpl_scope *sac_scope_new(sac_scope_finder *f, sac_scope *to, sac_scope *outer, sac_tmpl_slots *slots) {
    *to = (sac_scope){.outer = outer, .level = outer ? outer->level + 1 : 0};
    to->s = sac_tmpl_take_zeroed(f->source->pool, sizeof *to->s);
    if (to->s && !slots) slots = sac_tmpl_take_zeroed(f->source->pool, sizeof *slots);
    if (!to->s || !slots) return sac_scope_full(f), NULL;
    to->s->slots = slots;
    return to->s;
}

sac_tmpl_load *sac_scope_own(const sac_scope *s, const char *name) {
    for (size_t i = 0; i < s->s->n; i++)
        if (s->s->loads[i].name == name) return &s->s->loads[i];
    return NULL;
}

bool sac_scope_find(const sac_scope *s, const char *name, sac_tmpl_place *place) {
    *place = (sac_tmpl_place){.slot = -1};
    for (; s; s = s->outer) {
        const sac_tmpl_load *load = sac_scope_own(s, name);
        if (load) {
            place->slot = load->slot;
            place->is_given = place->hops > 0 && load->kind == SAC_LOAD_NOTHING;
            return true;
        }
        place->hops += s->outer && s->outer->s->slots != s->s->slots;
    }
    return false;
}

bool sac_scope_define(sac_scope_finder *f, sac_scope *to, const char *name, sac_load_kind kind,
                      sac_tmpl_place from) {
    sac_tmpl_scope *s = to->s;
    sac_tmpl_load *load = sac_scope_own(to, name);
    if (!load) {
        if (s->n == s->capacity) {
            size_t more = s->n ? 2 * s->n : 4;
            sac_tmpl_load *loads =
                sac_tmpl_grow(f->source->pool, s->loads, s->n * sizeof *loads, more * sizeof *loads);
            if (!loads) return sac_scope_full(f);
            s->loads = loads;
            s->capacity = more;
        }
        load = &s->loads[s->n++];
    }
    *load = (sac_tmpl_load){.name = name, .kind = kind, .from = from};
    load->slot = slot_of(f, s->slots, to->level, name);
    return load->slot >= 0;
}
