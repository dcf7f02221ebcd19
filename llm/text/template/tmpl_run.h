/* tmpl_run.h - what evaluation shares: limits, failures, text that knows whose it is, and Python's questions to values. */
#ifndef SAC_LLM_TEMPLATE_RUN_H
#define SAC_LLM_TEMPLATE_RUN_H

#include "status.h"
#include "value.h"

typedef struct sac_tmpl_spec sac_tmpl_spec;
struct sac_tmpl_nodes;

/* Names of a function that runs; macros and loops made in it keep it. */
typedef struct sac_tmpl_frame {
    struct sac_tmpl_frame *outer; /* of the function around it */
    sac_tmpl_value slots[];       /* MISSING: not set */
} sac_tmpl_frame;

struct sac_tmpl_run {
    const char *name;
    sac_tmpl_pool pool;
    sac_error *err;
    int line; /* of the node that is run */
    int depth;
    int64_t steps_left, steps;
    const sac_tmpl_dict *variables;
    sac_tmpl_frame *frame;
    struct sac_tmpl_writer *out; /* where statements write */
    enum { SAC_TMPL_GO_ON, SAC_TMPL_BREAK, SAC_TMPL_CONTINUE } jump;
    /* The statements of a body: exec.c's, here because loops and macros hold bodies. */
    sac_status (*exec_all)(sac_tmpl_run *r, const struct sac_tmpl_nodes *body);
    bool has_time;
    int64_t time; /* of strftime_now, when has_time */
    /* By name, or NULL; here because filters take filters and tests by name. */
    const sac_tmpl_spec *(*find_filter)(const char *name, size_t n_bytes);
    const sac_tmpl_spec *(*find_test)(const char *name, size_t n_bytes);
    /* Those of attributes.h; here because a string's format takes attributes, and strings have methods. */
    sac_status (*attribute)(sac_tmpl_run *r, sac_tmpl_value v, const char *name, size_t n_bytes,
                            sac_tmpl_value *out);
    sac_status (*item)(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value key, sac_tmpl_value *out);
};

/* "NAME line N: ...; what to do" */
sac_status sac_tmpl_fail(sac_tmpl_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
sac_status sac_tmpl_full(sac_tmpl_run *r); /* the pool has no more */
/* TypeError and UndefinedError of a value that cannot be used so: `use` is "added", "called" ... */
sac_status sac_tmpl_fail_use(sac_tmpl_run *r, sac_tmpl_value v, const char *use);

sac_status sac_tmpl_charge(sac_tmpl_run *r, size_t n_bytes); /* of work: a step, and one for each 32 bytes */
sac_status sac_tmpl_descend(sac_tmpl_run *r); /* one level deeper; the caller takes it back: depth-- */

/* FULL when `v` is MISSING; for what the calls of value.h return. */
static inline sac_status sac_tmpl_give(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value *out) {
    *out = v;
    return v.kind == SAC_TMPL_MISSING ? sac_tmpl_full(r) : SAC_OK;
}

/* A new list of a kind; one more item, which costs a step. */
static inline sac_status sac_tmpl_new_list(sac_tmpl_run *r, sac_tmpl_kind kind, size_t capacity,
                                           sac_tmpl_value *out) {
    return sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, kind, capacity), out);
}
static inline sac_status sac_tmpl_add(sac_tmpl_run *r, sac_tmpl_value list, sac_tmpl_value v) {
    SAC_TRY(sac_tmpl_charge(r, 0));
    return sac_tmpl_list_add(&r->pool, list.list, v) ? SAC_OK : sac_tmpl_full(r);
}

/* ---- text under construction ---- */
typedef struct sac_tmpl_writer {
    sac_tmpl_run *run;
    char *bytes;
    uint8_t *marks; /* NULL while all is as `is_user` says */
    size_t n, capacity;
    size_t limit; /* 0 = the pool's */
    bool is_user;
} sac_tmpl_writer;

sac_status sac_tmpl_write(sac_tmpl_writer *w, sac_tmpl_string s);
sac_status sac_tmpl_write_bytes(sac_tmpl_writer *w, const char *bytes, size_t n_bytes, bool is_user);
sac_status sac_tmpl_write_text(sac_tmpl_writer *w, const char *text); /* the template's */
sac_status sac_tmpl_write_str(sac_tmpl_writer *w, sac_tmpl_value v);  /* Python's str(v) */
sac_status sac_tmpl_write_repr(sac_tmpl_writer *w, sac_tmpl_value v); /* repr(v) */
sac_tmpl_string sac_tmpl_written(const sac_tmpl_writer *w);
sac_status sac_tmpl_written_value(const sac_tmpl_writer *w, sac_tmpl_value *out);

/* Bytes [from, to) of a string; nothing is copied. */
sac_tmpl_string sac_tmpl_part(const sac_tmpl_string *s, size_t from, size_t to);
sac_status sac_tmpl_part_value(sac_tmpl_run *r, const sac_tmpl_string *s, size_t from, size_t to,
                               sac_tmpl_value *out);
static inline bool sac_tmpl_mark(const sac_tmpl_string *s, size_t i) {
    return s->marks ? s->marks[i] != 0 : s->is_user;
}

/* str(v) as a string value. */
sac_status sac_tmpl_str(sac_tmpl_run *r, sac_tmpl_value v, sac_tmpl_value *out);

/* ---- questions ---- */
const char *sac_tmpl_type_name(sac_tmpl_value v); /* "str", "dict" */
bool sac_tmpl_truth(sac_tmpl_value v);
bool sac_tmpl_is_int(sac_tmpl_value v, int64_t *i); /* int or bool */
bool sac_tmpl_is_number(sac_tmpl_value v, double *f);
/* A whole number, or `otherwise` when it is MISSING (or, where Python takes it for that, none). */
sac_status sac_tmpl_optional_int(sac_tmpl_run *r, sac_tmpl_value v, int64_t otherwise, bool takes_none,
                                 int64_t *i);

/* *order below, at or above 0 as a <, ==, > b. Fails where Python has no order. */
sac_status sac_tmpl_order(sac_tmpl_run *r, sac_tmpl_value a, sac_tmpl_value b, int *order);

/* Fails for what Python cannot hash: lists, dicts and their views, also within tuples. */
sac_status sac_tmpl_need_key(sac_tmpl_run *r, sac_tmpl_value v);

sac_status sac_tmpl_call_value(sac_tmpl_run *r, sac_tmpl_value f, const sac_tmpl_args *args,
                               sac_tmpl_value *out);

static inline sac_tmpl_value sac_tmpl_absent(const sac_tmpl_absence *why) {
    return (sac_tmpl_value){.kind = SAC_TMPL_UNDEFINED, .absence = why};
}

/* ---- functions with named parameters: filters, tests, methods, globals ---- */
enum { SAC_TMPL_MAX_PARAMETERS = 6 };

typedef sac_status (*sac_tmpl_plain_fn)(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                                        sac_tmpl_value *out);
typedef sac_status (*sac_tmpl_raw_fn)(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                                      sac_tmpl_value *out);

struct sac_tmpl_spec {
    const char *name;
    sac_tmpl_plain_fn fn; /* a[i] is parameter i, MISSING when it was not given */
    int n_needed;
    const char *parameters[SAC_TMPL_MAX_PARAMETERS]; /* "/" behind those that cannot be given by name */
    sac_tmpl_raw_fn raw;                             /* instead of fn: takes arguments as they come */
};

const sac_tmpl_spec *sac_tmpl_find_spec(const sac_tmpl_spec *table, size_t n, const char *name,
                                        size_t n_bytes);
sac_status sac_tmpl_invoke(sac_tmpl_run *r, const sac_tmpl_spec *spec, sac_tmpl_value self,
                           const sac_tmpl_args *args, sac_tmpl_value *out);
/* The spec as a value that can be called: a method of `self`. */
sac_status sac_tmpl_method(sac_tmpl_run *r, const sac_tmpl_spec *spec, sac_tmpl_value self,
                           sac_tmpl_value *out);

#endif
