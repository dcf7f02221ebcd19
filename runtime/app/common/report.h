/* report.h - results for people (a few lines) and for programs (one JSON object). */
#ifndef APP_REPORT_H
#define APP_REPORT_H

#include "report_value.h"
#include "run.h"

#include <jansson.h>

/* The object of `ask --json`; NULL = out of memory. media: names of the files, in the order of result->media.
 */
json_t *report_answer(const run *r, const sac_result *result, const answer *a, const conversation *c);

/* Parts that several commands print. */
json_t *report_model(const run *r);
json_t *report_settings(const run *r);
json_t *report_memory(const sac_memory_report *m);

/* Writes the object to standard output with a line end and releases it; NULL is out of memory. */
sac_status report_print(json_t *object, sac_error *err);

void report_print_memory(const sac_memory_report *m);

/* On standard error: what was looked at, and how fast it went. */
void report_print_summary(const run *r, const sac_result *result);

#endif
