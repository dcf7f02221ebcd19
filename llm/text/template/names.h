/* names.h - tests (`is`), filters (`|`) and globals by name. */
#ifndef SAC_LLM_TEMPLATE_NAMES_H
#define SAC_LLM_TEMPLATE_NAMES_H

#include "tmpl_run.h"

const sac_tmpl_spec *sac_tmpl_find_test(const char *name, size_t n_bytes); /* or NULL */
const sac_tmpl_spec *sac_tmpl_find_filter(const char *name, size_t n_bytes);
const sac_tmpl_spec *sac_tmpl_find_list_filter(const char *name, size_t n_bytes);   /* filters_list.c */
const sac_tmpl_spec *sac_tmpl_find_select_filter(const char *name, size_t n_bytes); /* filters_select.c */
const sac_tmpl_spec *sac_tmpl_find_sort_filter(const char *name, size_t n_bytes);   /* filters_sort.c */
/* Filters of Jinja that no chat template needs: refused by name. */
bool sac_tmpl_is_left_out(const char *name, size_t n_bytes);
const sac_tmpl_spec *sac_tmpl_find_global(const char *name, size_t n_bytes);
bool sac_tmpl_is_global_left_out(const char *name);
/* fromkeys: of a dict, and of the global dict; or NULL */
const sac_tmpl_spec *sac_tmpl_dict_class_method(const char *name, size_t n_bytes);
const sac_tmpl_spec *sac_tmpl_function_method(const sac_tmpl_function *f, const char *name, size_t n_bytes);

/* Jinja's pass_context (filters_select.c): such a filter has no value before the template runs. */
bool sac_tmpl_takes_context(const sac_tmpl_spec *filter);

#endif
