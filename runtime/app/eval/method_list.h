/* method_list.h - the method lines of a comparison, from the command line and from a YAML file.
 *
 *   --method "prefill=zipvl:tau=0.975 kv=mixed"
 *
 *   - {name: ZipVL, prefill: "zipvl:tau=0.975", kv: mixed}
 *   - {decode: quest}
 *   - sweep: {name: tau, prefill: "zipvl:tau=*", over: [0.9, 0.95, 0.975]}
 *
 * What a line does not name is dense: prefill dense, kv f16, decode dense, rope model,
 * reduce none. The dense line is
 * always there and always first. A sweep is a line for each of its values, which stand for its '*'. */
#ifndef APP_METHOD_LIST_H
#define APP_METHOD_LIST_H

#include "settings.h"

#define METHOD_LIST_MAX_BYTES ((size_t)64 << 10)
#define METHOD_LIST_MAX_LINES 500

enum { METHOD_PREFILL, METHOD_KV, METHOD_DECODE, METHOD_ROPE, METHOD_REDUCE, METHOD_PARTS };
extern const char *const method_part_names[METHOD_PARTS];
extern const char *const method_part_defaults[METHOD_PARTS];

typedef struct method_line {
    char *name;
    char *part[METHOD_PARTS]; /* as given; NULL = the default */
} method_line;

typedef struct method_sweep {
    char *name;
    char *part[METHOD_PARTS]; /* one of them with a '*' */
    int knob;                 /* which one */
    char **over;              /* [n] */
    size_t *lines;            /* [n], indices of the list's lines; two sweeps may share one */
    size_t n;
} method_sweep;

typedef struct method_list {
    method_line *lines;
    size_t n;
    method_sweep *sweeps;
    size_t n_sweeps;
} method_list;

void method_list_free(method_list *list); /* also of a list that reading has left half filled */

/* Takes the line over, in any case. *at: its place. `shared`: if the same is there already, that is the
 * place; otherwise only dense may be. */
sac_status method_list_add(method_list *list, method_line *line, bool shared, size_t *at, sac_error *err);
void method_line_free(method_line *line);

/* METHOD_PREFILL... of the n bytes of a name, or -1. */
int method_part_find(const char *name, size_t n);

/* "prefill=zipvl:tau=0.975 kv=mixed", or "dense"; to free, NULL = out of memory. */
char *method_line_text(char *const part[METHOD_PARTS]);

/* A name for the line's files: letters, digits and "._=-" of its text and a hash of it, so that it does not
 * change when other lines come or go; to free, NULL = out of memory. */
char *method_line_file(const method_line *line);

#endif
