/* format.h - "..." % values and "...".format(values). */
#ifndef SAC_LLM_TEMPLATE_FORMAT_H
#define SAC_LLM_TEMPLATE_FORMAT_H

#include "tmpl_run.h"

/* %s %r %a %d %i %u %x %X %o %c %f %e %g %% with flags, width and precision, and %(name)s. */
sac_status sac_tmpl_format_percent(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value values,
                                   sac_tmpl_value *out);

/* {} {0} {name.x[key]}, !s !r !a and a format of the field (":>10"). */
sac_status sac_tmpl_format_braces(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_args *args,
                                  sac_tmpl_value *out);

#endif
