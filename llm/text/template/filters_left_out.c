/* filters_left_out.c - filters of Jinja that no chat template needs. */
#include "names.h"

#include <string.h>

bool sac_tmpl_is_left_out(const char *name, size_t n_bytes) {
    static const char *const names[] = {"filesizeformat", "pprint", "random",    "striptags", "truncate",
                                        "urlencode",      "urlize", "wordcount", "wordwrap",  "xmlattr"};
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (strlen(names[i]) == n_bytes && memcmp(names[i], name, n_bytes) == 0) return true;
    return false;
}
