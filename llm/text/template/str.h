/* str.h - methods of str, and what filters share with them. */
#ifndef SAC_LLM_TEMPLATE_STR_H
#define SAC_LLM_TEMPLATE_STR_H

#include "tmpl_run.h"

const sac_tmpl_spec *sac_tmpl_string_method(const char *name, size_t n_bytes); /* or NULL */
const sac_tmpl_spec *sac_tmpl_string_split_method(const char *name, size_t n_bytes);
const sac_tmpl_spec *sac_tmpl_string_find_method(const char *name, size_t n_bytes);
const sac_tmpl_spec *sac_tmpl_string_kind_method(const char *name, size_t n_bytes);

sac_status sac_tmpl_need_string(sac_tmpl_run *r, sac_tmpl_value v);
/* The first or last place of `what` in n bytes, or NULL. All that is compared is paid for. */
sac_status sac_tmpl_find_text(sac_tmpl_run *r, const char *text, size_t n, const sac_tmpl_string *what,
                              bool last, const char **found);

typedef enum sac_tmpl_case {
    SAC_TMPL_UPPER,
    SAC_TMPL_LOWER,
    SAC_TMPL_TITLE,
    SAC_TMPL_CAPITALIZE,
    SAC_TMPL_SWAP,
    SAC_TMPL_FOLD,
} sac_tmpl_case;
sac_status sac_tmpl_change_case(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_case how,
                                sac_tmpl_value *out);

/* `out` is markup as `like` is. */
sac_status sac_tmpl_keep_markup(sac_tmpl_run *r, const sac_tmpl_string *like, sac_tmpl_value *out);
/* & < > " ' as HTML has them; markup stays as it is, unless `again`. *out is markup. */
sac_status sac_tmpl_escape(sac_tmpl_run *r, const sac_tmpl_string *s, bool again, sac_tmpl_value *out);

/* strip(chars): chars MISSING or none = white space. */
sac_status sac_tmpl_strip(sac_tmpl_run *r, const sac_tmpl_string *s, sac_tmpl_value chars, bool left,
                          bool right, sac_tmpl_value *out);
/* count below 0 = all */
sac_status sac_tmpl_replace(sac_tmpl_run *r, const sac_tmpl_string *s, const sac_tmpl_string *old,
                            const sac_tmpl_string *new_text, int64_t count, sac_tmpl_value *out);
sac_status sac_tmpl_split_lines(sac_tmpl_run *r, const sac_tmpl_string *s, bool keep_ends,
                                sac_tmpl_value *out);
sac_status sac_tmpl_join(sac_tmpl_run *r, const sac_tmpl_list *items, const sac_tmpl_string *between,
                         bool needs_text, sac_tmpl_value *out);
/* Spaces (or `fill`) on both sides, or one, up to `width` characters. side: -1 text left, 0 centred, 1 right. */
sac_status sac_tmpl_pad(sac_tmpl_run *r, const sac_tmpl_string *s, int64_t width, sac_tmpl_string fill,
                        int side, sac_tmpl_value *out);

#endif
