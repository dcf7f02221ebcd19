#include "unicode.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool sac_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Alphabetic | M | Nd | Pc | Join_Control; of Other_Alphabetic, what is not a mark: letters in circles and
 * squares. */
bool sac_is_word(uint32_t c) {
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    }
}

const char *sac_skip_space(const char *p, const char *end) {
    while (p < end && sac_is_space(sac_utf8_decode(p))) p += sac_utf8_length(*p);
    return p;
}

const char *sac_skip_space_back(const char *p, const char *end) {
    while (end > p) {
        const char *last = end - 1;
        while (last > p && sac_utf8_continues(*last)) last--;
        if (!sac_is_space(sac_utf8_decode(last))) break;
        end = last;
    }
    return end;
}

sac_status sac_utf8_repair(sac_buffer *out, const char *text, size_t n_bytes, sac_error *err) {
    const char *end = text + n_bytes, *from = text;
    for (size_t n; text < end; text += n) {
        if (sac_utf8_next(text, end, &n, NULL)) continue;
        SAC_TRY(sac_buffer_add(out, from, (size_t)(text - from), err));
        SAC_TRY(sac_buffer_add(out, SAC_UTF8_REPLACEMENT, 3, err));
        from = text + n;
    }
    return sac_buffer_add(out, from, (size_t)(end - from), err);
}

static sac_status map_form(sac_buffer *out, sac_unicode_form form, const char *text, size_t n_bytes,
                           sac_error *err) {
    static const utf8proc_option_t options[] = {
        [SAC_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [SAC_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [SAC_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [SAC_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n_bytes, &mapped, options[form]);
    if (n < 0)
        return sac_fail(err, n == UTF8PROC_ERROR_NOMEM ? SAC_NO_MEMORY : SAC_INTERNAL,
                        "Unicode normalisation: %s", utf8proc_errmsg(n));
    sac_status st = sac_buffer_add(out, (const char *)mapped, (size_t)n, err);
    free(mapped);
    return st;
}

/* Characters below a limit are their own normal form and join with nothing before them: below U+0300 for NFC
 * (the first combining mark), ASCII for the others. So only the runs above it, each with the one character in
 * front that it may join, go through utf8proc. */
sac_status sac_unicode_normalize(sac_buffer *out, sac_unicode_form form, const char *text, size_t n_bytes,
                                 sac_error *err) {
    unsigned char limit = form == SAC_NFC ? 0xcc : 0xc2; /* first bytes of U+0300 and U+0080 */
    const char *end = text + n_bytes, *done = text, *last = text;
    for (const char *p = text; p < end;) {
        if ((unsigned char)*p <
            limit) { /* continuation bytes too are below it: they belong to the last character */
            if (!sac_utf8_continues(*p)) last = p;
            p++;
            continue;
        }
        const char *from = last > done ? last : done;
        while (p < end && ((unsigned char)*p >= limit || sac_utf8_continues(*p))) p++;
        SAC_TRY(sac_buffer_add(out, done, (size_t)(from - done), err));
        SAC_TRY(map_form(out, form, from, (size_t)(p - from), err));
        done = last = p;
    }
    return sac_buffer_add(out, done, (size_t)(end - done), err);
}
