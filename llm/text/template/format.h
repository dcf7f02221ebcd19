/* format.h - "..." % values and "...".format(values). */
#ifndef SAC_LLM_TEMPLATE_FORMAT_H
#define SAC_LLM_TEMPLATE_FORMAT_H

#include "tmpl_run.h"

/* %s %r %d %i %x %X %o %c %f %e %g %% with flags, width and precision, and %(name)s. */
sac_status sac_tmpl_format_percent(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value values,
                                   sac_tmpl_value *out);

/* {} {0} {name} and !s !r; a field's own format (":>10") is refused. */
sac_status sac_tmpl_format_braces(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_args *args,
                                  sac_tmpl_value *out);

#endif
