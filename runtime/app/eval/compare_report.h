/* compare_report.h - a finished comparison as one table and as JSON. */
#ifndef APP_COMPARE_REPORT_H
#define APP_COMPARE_REPORT_H

#include "comparison.h"

/* The table in Markdown, with columns of even width, and below it what the columns mean, the methods as they
 * ran, and what was refused. To free; NULL = out of memory. */
char *compare_report_table(const comparison *c);

/* {"saccade_compare": 1, "header", "rows": [...], "sweeps": [...]}; NULL = out of memory. */
json_t *compare_report_json(const comparison *c);

#endif
