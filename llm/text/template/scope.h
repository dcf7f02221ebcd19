/* scope.h - what the search for places of names shares: scope.c, scope_declare.c, scope_place.c. */
#ifndef SAC_LLM_TEMPLATE_SCOPE_H
#define SAC_LLM_TEMPLATE_SCOPE_H

#include "syntax.h"

typedef struct sac_scope {
    struct sac_scope *outer;
    int level;
    sac_tmpl_scope *s;
} sac_scope;

typedef struct sac_scope_finder {
    sac_tmpl_source *source;
    sac_status status;
    int height;
    int branches; /* ifs around what is declared */
    bool soft;    /* within an if of the same scope: an unknown filter is an error only when it is run */
} sac_scope_finder;

/* ---- scope.c. The bools are false after a failure, which f->status holds ---- */
bool sac_scope_fail(sac_scope_finder *f, sac_status status);
bool sac_scope_full(sac_scope_finder *f);
/* One level down in the tree; the caller takes it back: height-- */
bool sac_scope_descend(sac_scope_finder *f, int line);
/* A scope within `outer`; of a function of its own (slots NULL) or of outer's. */
sac_tmpl_scope *sac_scope_new(sac_scope_finder *f, sac_scope *to, sac_scope *outer, sac_tmpl_slots *slots);
sac_tmpl_load *sac_scope_own(const sac_scope *s, const char *name);
bool sac_scope_find(const sac_scope *s, const char *name, sac_tmpl_place *place);
bool sac_scope_define(sac_scope_finder *f, sac_scope *to, const char *name, sac_load_kind kind,
                      sac_tmpl_place from);

/* ---- scope_declare.c: the names of a scope ---- */
bool sac_scope_declare_parameter(sac_scope_finder *f, sac_scope *s, const char *name);
bool sac_scope_declare_target(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n, bool as_parameter);
bool sac_scope_declare(sac_scope_finder *f, sac_scope *s, const sac_tmpl_node *n);
bool sac_scope_declare_all(sac_scope_finder *f, sac_scope *s, const sac_tmpl_nodes *list);

/* Whether a body reads a name that it is given: loop, caller, varargs, kwargs. */
typedef enum sac_scope_reading { SAC_NOT_SEEN, SAC_READ, SAC_SET } sac_scope_reading;
sac_scope_reading sac_scope_any_reads(const sac_tmpl_nodes *list, const char *name);

#endif
