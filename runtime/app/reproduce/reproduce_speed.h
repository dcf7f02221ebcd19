/* reproduce_speed.h - tables of time and memory: what is measured of method lines at lengths, with the tokens of a sentence in any order.
 */
#ifndef APP_REPRODUCE_SPEED_H
#define APP_REPRODUCE_SPEED_H

#include "reproduce_file.h"
#include "run.h"

typedef struct speed_line {
    sac_status refused; /* of the first figure that could not be measured */
    sac_error why;
} speed_line;

/* Measures all rows of the table into ours[list->n][n_figures] and lines[list->n]. r: an open model. A length beyond --ctx,
 * where it is given, is left out: NAN. With --out what is measured is kept in DIR/speed.jsonl, and a job cut short goes on there. */
sac_status reproduce_speed(run *r, const settings *s, const reproduce_table *t, const method_list *list,
                           double *ours, speed_line *lines, sac_error *err);

#endif
