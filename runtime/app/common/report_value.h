/* report_value.h - single values as results show them: numbers for people, and JSON values for programs. */
#ifndef APP_REPORT_VALUE_H
#define APP_REPORT_VALUE_H

#include <jansson.h>
#include <stdint.h>

/* A text that may hold any bytes (a file's name); what is not UTF-8 becomes '?'. */
json_t *report_text(const char *text);
/* JSON has no infinity: null. */
json_t *report_real(double v);
/* Rounded: more would be the noise of a mean. */
json_t *report_nine_digits(double v);

/* "12.3 MB" in one of six buffers that take turns. */
const char *report_bytes(double n_bytes);
/* "16,640" likewise */
const char *report_count(int64_t n);
/* "1 item", "16,640 items" likewise; noun: "item" */
const char *report_counted(int64_t n, const char *noun);

/* "37.5 tokens/s" likewise */
const char *report_rate(double per_second);

#endif
