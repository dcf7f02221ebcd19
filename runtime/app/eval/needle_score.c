#include "needle_score.h"

#include <ctype.h>
#include <string.h>

const char *const needle_metric_names[NEEDLE_METRICS] = {"all", "part", "number", "word"};

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* ASCII's case only: other letters that differ in case do not match. */
static bool holds(const char *text, const char *part) {
    for (; *text; text++) {
        size_t n = 0;
        while (part[n] && same_letter(text[n], part[n]))
            n++; /* ends at text's end, too: 0 is no letter of part */
        if (!part[n]) return true;
    }
    return !*part;
}

static double share_held(const char *response, const json_t *outputs) {
    size_t i, n = 0;
    const json_t *v;
    json_array_foreach(outputs, i, v) n += holds(response, json_string_value(v));
    return (double)n / (double)json_array_size(outputs);
}

static bool is_first_number(const char *response, const char *right) {
    const char *p = response + strcspn(response, "0123456789");
    size_t n = strspn(p, "0123456789");
    return n > 0 && strlen(right) == n && !strncmp(p, right, n);
}

/* What separates words: white space, and the signs that the official rule turns into blanks. */
static bool is_among_words(const char *response, const char *right) {
    static const char between[] = " \t\r\n\v\f:\"'.,?!{}";
    for (const char *p = response; *p;) {
        p += strspn(p, between);
        size_t n = strcspn(p, between);
        if (n && strlen(right) == n && !strncmp(p, right, n)) return true;
        p += n;
    }
    return false;
}

double needle_score(needle_metric metric, const char *response, const json_t *outputs) {
    const char *first = json_string_value(json_array_get(outputs, 0));
    switch (metric) {
    case NEEDLE_NUMBER: return is_first_number(response, first);
    case NEEDLE_WORD: return is_among_words(response, first);
    case NEEDLE_PART: return share_held(response, outputs) > 0;
    default: return share_held(response, outputs);
    }
}
