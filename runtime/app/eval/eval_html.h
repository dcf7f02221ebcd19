/* eval_html.h - a page to look through a run's answers: one file without scripts and without anything from elsewhere (its
 * Content-Security-Policy says so), pictures and frames as small thumbnails in it, filters by right and wrong and by
 * category, readable on a telephone (390 px). All texts come from strangers and are escaped. */
#ifndef APP_EVAL_HTML_H
#define APP_EVAL_HTML_H

#include "eval_marks.h"
#include "eval_report.h"

/* folder: of the media. The file is there whole or not at all. */
sac_status eval_html_marks(const eval_marks *m, const char *folder, const char *path, sac_error *err);
sac_status eval_html_videomme(const eval_outcome *o, const char *folder, const char *path, sac_error *err);

#endif
