/* number.h - numbers and strings of templates as Python writes and reads them. */
#ifndef SAC_LLM_TEMPLATE_NUMBER_H
#define SAC_LLM_TEMPLATE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sac_tmpl_number {
    bool is_float, is_valid; /* not valid: an integer beyond 64 bits */
    int64_t integer;
    double real;
} sac_tmpl_number;

/* The literal at p, a digit; returns its end. after_dot: it cannot be a float ("a.0.1"). */
const char *sac_tmpl_read_number(const char *p, const char *end, bool after_dot, sac_tmpl_number *number);

/* repr of a float: "1.0", "1e+16", "inf". Needs 32 bytes. */
size_t sac_tmpl_write_float(double v, char text[32]);

/* What int("...") and float("...") take: the number with white space around; false = none. Base 0: as a prefix says. */
bool sac_tmpl_parse_int(const char *text, size_t n_bytes, int base, int64_t *value);
bool sac_tmpl_parse_float(const char *text, size_t n_bytes, double *value);

/* The value of a string literal between its quotes; `to` holds n_bytes. False: a broken escape. */
bool sac_tmpl_unescape(const char *text, size_t n_bytes, char *to, size_t *n_out);

#endif
