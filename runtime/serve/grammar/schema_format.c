/* schema_format.c - what "format" asks of a string, as patterns whose every match is one. */
#include "schema_parts.h"

#include <string.h>

#define DATE  "[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])" /* days that every month has */
#define TIME  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
#define ZONE  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE  "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define HEX   "[0-9a-f]"
#define LABEL "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?"

const char *schema_format_pattern(const char *format) {
    static const struct {
        const char *format, *pattern;
    } known[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME ZONE "$"},
        {"date-time", "^" DATE "T" TIME ZONE "$"},
        {"duration", "^P([0-9]{1,4}D(T[0-9]{1,4}S)?|T[0-9]{1,6}S)$"},
        {"uuid", "^" HEX "{8}-" HEX "{4}-[1-5]" HEX "{3}-[89ab]" HEX "{3}-" HEX "{12}$"},
        {"uuid4", "^" HEX "{8}-" HEX "{4}-4" HEX "{3}-[89ab]" HEX "{3}-" HEX "{12}$"},
        {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
        {"email", "^[a-zA-Z0-9_+-]{1,32}(\\.[a-zA-Z0-9_+-]{1,32}){0,3}@(" LABEL "\\.){1,3}[a-z]{2,12}$"},
        {"hostname", "^(" LABEL "\\.){0,4}" LABEL "$"},
        {"uri", "^https?://(" LABEL "\\.){0,3}" LABEL "(/[a-zA-Z0-9._~-]{0,40}){0,8}$"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(format, known[i].format)) return known[i].pattern;
    return NULL;
}
