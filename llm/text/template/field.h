/* field.h - numbers and text in a field of a width, as Python's formats show them. */
#ifndef SAC_LLM_TEMPLATE_FIELD_H
#define SAC_LLM_TEMPLATE_FIELD_H

#include "tmpl_run.h"

enum { SAC_TMPL_MAX_WIDTH = 1000 };

typedef struct sac_tmpl_field {
    sac_tmpl_string fill; /* one character; empty: a space */
    char align;           /* < > ^ =, or 0: as the kind of value has it */
    char sign;            /* + or space before what is not negative, or 0 */
    bool alternate;       /* # */
    char grouping;        /* , or _ between digits, or 0 */
    int width, precision; /* at most SAC_TMPL_MAX_WIDTH; precision -1: none */
    char kind;            /* d x X o b of integers; e E f F g G % of floats, 0: as repr writes them */
} sac_tmpl_field;

sac_status sac_tmpl_put_text(sac_tmpl_writer *w, const sac_tmpl_field *d, sac_tmpl_string text);
/* precision: the least number of digits */
sac_status sac_tmpl_put_int(sac_tmpl_writer *w, const sac_tmpl_field *d, int64_t i);
sac_status sac_tmpl_put_float(sac_tmpl_writer *w, const sac_tmpl_field *d, double v);
/* ascii(v): repr with everything beyond ASCII escaped. */
sac_status sac_tmpl_write_ascii(sac_tmpl_writer *w, sac_tmpl_value v);

#endif
