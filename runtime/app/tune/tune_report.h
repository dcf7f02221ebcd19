/* tune_report.h - what a search found: a table, JSON, files that other commands take, and a drawing. All figures are of the
 * test part. */
#ifndef APP_TUNE_REPORT_H
#define APP_TUNE_REPORT_H

#include "tune_search.h"

/* A finalist on the test part. */
typedef struct tune_result {
    const compare_row *row;
    tune_point point;
    double cache_bytes; /* of a question, mean */
    bool front;         /* no other line, dense included, loses less for as little */
    bool safe;          /* nor has less risk for as little (tune_risk) */
    bool chosen;        /* by the tuning part */
} tune_result;

/* Of all rows of t->test, in their order; to free, NULL = out of memory. */
tune_result *tune_results(const tune_search *t);

/* In Markdown; to free, NULL = out of memory. */
char *tune_report_text(const tune_search *t, const tune_result *results);
json_t *tune_report_json(const tune_search *t, const tune_result *results);

/* Method lines of the front for `compare --methods`, the chosen first; and the chosen as settings for --config of any other
 * command. To free, NULL = out of memory. */
char *tune_report_methods(const tune_search *t, const tune_result *results);
char *tune_report_config(const tune_search *t, const tune_result *results);

/* Cost against accuracy, with the front as a line. */
sac_status tune_plot_write(const tune_search *t, const tune_result *results, const char *path,
                           sac_error *err);

#endif
