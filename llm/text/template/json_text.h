/* json_text.h - values as json.dumps writes them. */
#ifndef SAC_LLM_TEMPLATE_JSON_TEXT_H
#define SAC_LLM_TEMPLATE_JSON_TEXT_H

#include "tmpl_run.h"

/* The filter tojson: ensure_ascii, indent, separators, sort_keys. */
sac_status sac_tmpl_tojson(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_value *a,
                           sac_tmpl_value *out);

#endif
