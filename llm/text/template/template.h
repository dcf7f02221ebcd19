/* template.h - chat templates: the part of Jinja that published chat templates use, run as transformers runs it.
 *
 * Equal to jinja2 3.1 in transformers' ImmutableSandboxedEnvironment: trim_blocks, lstrip_blocks, no trailing
 * newline, autoescape off, the loopcontrols and generation extensions, tojson as json.dumps, raise_exception,
 * strftime_now. Not there, and refused by name when the template is opened: include, import, extends, block,
 * autoescape, and filters that no chat template needs (filters_left_out.c). Refused by name when they are met: cycler,
 * lipsum, self, sets, complex numbers, and attributes such as str.encode (attributes.c). Integers are of 64 bits: an
 * overflow is an error, as is the text of what Python shows by its address (generators, functions). Fields of formats
 * are at most 1000 wide. A slice of a constant that cannot be cut (1.5[1:]) is an error where Jinja's optimizer may
 * make it undefined. The test sameas takes equal numbers for one object, and a constant may be infinite (1e999), where
 * Jinja's own code ends in a NameError.
 *
 * Every byte of a value knows whether it is the user's or the template's, through all operations; so control
 * tokens count in the rendered text only where the template wrote them.
 *
 * A template is read-only once open and may be shared by threads. It is a stranger's program: steps, memory,
 * depth and output are bounded, and every failure is one line "NAME line N: what; what to do". */
#ifndef SAC_LLM_TEMPLATE_H
#define SAC_LLM_TEMPLATE_H

#include "status.h"
#include "value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAC_TEMPLATE_MAX_BYTES ((size_t)1 << 20)

typedef struct sac_template sac_template;

/* `name` is what errors call it (a path); both are copied. BAD_FILE when it is not a template that can be run. */
sac_status sac_template_open(sac_template **out, const char *name, const char *text, size_t n_bytes,
                             sac_error *err);
void sac_template_free(sac_template *t); /* NULL is fine */

const char *sac_template_name(const sac_template *t);

/* One rendering: its values live in it. Values that a template is given are made with the calls of value.h on
 * sac_rendering_values. */
typedef struct sac_rendering sac_rendering;

typedef struct sac_template_limits {
    size_t memory_bytes; /* of all values */
    size_t output_bytes;
    int64_t steps; /* nodes run, and a step for every 32 bytes looked at */
} sac_template_limits;

/* Limits that a conversation of so many bytes cannot reach with any published template. */
sac_template_limits sac_template_limits_for(size_t n_input_bytes);

sac_status sac_rendering_open(sac_rendering **out, const sac_template *t, sac_template_limits limits,
                              sac_error *err);
void sac_rendering_free(sac_rendering *r); /* NULL is fine */

sac_tmpl_pool *sac_rendering_values(sac_rendering *r);

/* Seconds since 1970 that strftime_now shows, for tests; otherwise the clock's. */
void sac_rendering_set_time(sac_rendering *r, int64_t seconds);

/* Variables of the template: `variables` is a dict. *text lives as long as the rendering. BAD_ARGUMENT when the
 * template itself refuses the conversation (raise_exception), BAD_FILE when it fails. */
sac_status sac_rendering_run(sac_rendering *r, sac_tmpl_value variables, sac_tmpl_string *text,
                             sac_error *err);

#endif
