/* tmpl_chars.h - characters as Python's str sees them. All text is valid UTF-8. */
#ifndef SAC_LLM_TEMPLATE_CHARS_H
#define SAC_LLM_TEMPLATE_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sac_tmpl_is_space(uint32_t c); /* what str.strip takes away */
bool sac_tmpl_is_printable(uint32_t c);
bool sac_tmpl_is_alpha(uint32_t c);
bool sac_tmpl_is_digit(uint32_t c);
bool sac_tmpl_begins_name(uint32_t c); /* of Python's identifiers */
bool sac_tmpl_continues_name(uint32_t c);
bool sac_tmpl_is_decimal(uint32_t c);
bool sac_tmpl_is_numeric(uint32_t c); /* with fractions, and ideographs that are numbers */
int sac_tmpl_decimal(uint32_t c);     /* 0 to 9, of a decimal */
bool sac_tmpl_is_upper(uint32_t c);
bool sac_tmpl_is_lower(uint32_t c);
bool sac_tmpl_is_title(uint32_t c);
bool sac_tmpl_ignores_case(uint32_t c); /* stands within words: marks, apostrophes ... */
uint32_t sac_tmpl_upper(uint32_t c);    /* one character for one; of U+00DF the caller makes two */
uint32_t sac_tmpl_lower(uint32_t c);
uint32_t sac_tmpl_title(uint32_t c);
/* The letters that a letter is compared as without case; returns how many. */
size_t sac_tmpl_fold(uint32_t c, int32_t letters[8]);
enum { SAC_TMPL_MAX_CASE = 4 };
/* The upper or title case of a letter that has more than one letter there, ended by 0; otherwise NULL. */
const uint16_t *sac_tmpl_special_case(uint32_t c, bool title);

/* Where white space at the start of [p, end) stops / at its end starts. */
const char *sac_tmpl_skip_space(const char *p, const char *end);
const char *sac_tmpl_skip_space_back(const char *p, const char *end);

size_t sac_tmpl_char_bytes(const char *p, const char *end); /* of the character at p; never beyond `end` */
size_t sac_tmpl_count_chars(const char *text, size_t n_bytes);

#endif
