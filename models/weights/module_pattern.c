#define PCRE2_CODE_UNIT_WIDTH 8
#include "module_pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_LIMIT    50000 /* names have at most 400 bytes */
#define HEAP_LIMIT_KIB 16384

static sac_status match_failed(const char *key, const char *pattern, int code, sac_error *err) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(code, text, sizeof text);
    return sac_fail(err, SAC_BAD_FILE, "\"%s\": pattern \"%.80s\": %s", key, pattern, (const char *)text);
}

sac_status sac_module_match(const char *key, const char *pattern, bool whole, const char *module, bool *found, long *captured,
                            sac_error *err) {
    int code;
    PCRE2_SIZE at;
    *found = false;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C | (whole ? PCRE2_ENDANCHORED : 0), &code,
                                   &at, NULL);
    if (!re) return match_failed(key, pattern, code, err);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    if (context && data) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
        code = pcre2_match(re, (PCRE2_SPTR)module, strlen(module), 0, 0, data, context);
    } else
        code = PCRE2_ERROR_NOMEMORY;
    *found = code > 0;
    if (*found && captured) {
        PCRE2_SIZE *span = pcre2_get_ovector_pointer(data) + 2 * (code - 1);
        char digits[20] = "";
        snprintf(digits, sizeof digits, "%.*s", (int)(span[1] - span[0] > 9 ? 9 : span[1] - span[0]),
                 module + span[0]);
        *captured = strtol(digits, NULL, 10);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_code_free(re);
    return code > 0 || code == PCRE2_ERROR_NOMATCH ? SAC_OK : match_failed(key, pattern, code, err);
}
