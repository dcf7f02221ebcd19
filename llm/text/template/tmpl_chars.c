#include "tmpl_chars.h"

#include "utf8.h"

#include <utf8proc.h>

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

bool sac_tmpl_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool sac_tmpl_is_printable(uint32_t c) {
    if (c < 0x80) return c >= 32 && c < 127;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

bool sac_tmpl_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool sac_tmpl_begins_name(uint32_t c) {
    return c == '_' || sac_tmpl_is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool sac_tmpl_continues_name(uint32_t c) {
    utf8proc_category_t k = category(c);
    return sac_tmpl_is_alpha(c) || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_MN ||
           k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_PC;
}

bool sac_tmpl_is_decimal(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_ND;
}

/* Unicode has the digits of a script in order, and runs of several such tens. */
int sac_tmpl_decimal(uint32_t c) {
    uint32_t first = c;
    while (sac_tmpl_is_decimal(first - 1)) first--;
    return (int)((c - first) % 10);
}

bool sac_tmpl_is_upper(uint32_t c) {
    return c < 0x80 ? c >= 'A' && c <= 'Z' : utf8proc_isupper((utf8proc_int32_t)c) != 0;
}
bool sac_tmpl_is_lower(uint32_t c) {
    return c < 0x80 ? c >= 'a' && c <= 'z' : utf8proc_islower((utf8proc_int32_t)c) != 0;
}
bool sac_tmpl_is_title(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LT;
}
bool sac_tmpl_ignores_case(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
           c == 0xb7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}
uint32_t sac_tmpl_upper(uint32_t c) {
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}
uint32_t sac_tmpl_lower(uint32_t c) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}
uint32_t sac_tmpl_title(uint32_t c) {
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
}

size_t sac_tmpl_fold(uint32_t c, int32_t letters[8]) {
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, letters, 8, UTF8PROC_CASEFOLD, &last);
    return n > 0 && n <= 8 ? (size_t)n : 0;
}

const char *sac_tmpl_skip_space(const char *p, const char *end) {
    while (p < end && sac_tmpl_is_space(sac_utf8_decode(p))) p += sac_utf8_length(*p);
    return p;
}

const char *sac_tmpl_skip_space_back(const char *p, const char *end) {
    while (end > p) {
        const char *last = end - 1;
        while (last > p && sac_utf8_continues(*last)) last--;
        if (!sac_tmpl_is_space(sac_utf8_decode(last))) break;
        end = last;
    }
    return end;
}

size_t sac_tmpl_char_bytes(const char *p, const char *end) {
    size_t n = sac_utf8_length(*p);
    return n < (size_t)(end - p) ? n : (size_t)(end - p);
}

size_t sac_tmpl_count_chars(const char *text, size_t n_bytes) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) n += !sac_utf8_continues(text[i]);
    return n;
}
