/* compare_plot.h - a comparison as drawings. */
#ifndef APP_COMPARE_PLOT_H
#define APP_COMPARE_PLOT_H

#include "compare_report.h"

/* Writes folder/overview.svg (strict accuracy against attention FLOPs saved and against rows read) and a
 * curve for each sweep (accuracy, and what of kept ratio, rows read and KV factor differs from dense, against
 * the knob), folder/sweep1.svg ... */
sac_status compare_plot_write(const comparison *c, const char *folder, sac_error *err);

#endif
