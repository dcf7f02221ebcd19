/* method_list_read.h - the method lines of a comparison out of what the user gave: a file, and words. */
#ifndef APP_METHOD_LIST_READ_H
#define APP_METHOD_LIST_READ_H

#include "method_list.h"
#include "settings.h"

/* Of --methods FILE (NULL = none) and then --method. A line that is there twice, under two names or one, is
 * refused, and so are two of one name; a sweep takes lines that are there already as its own. On failure,
 * too, method_list_free frees what there is. */
sac_status method_list_read(method_list *list, const char *path, const text_list *words, sac_error *err);

/* The same with the file's text in memory; `name` stands for the file in errors. */
sac_status method_list_parse(method_list *list, const char *text, size_t n_bytes, const char *name,
                             const text_list *words, sac_error *err);
#endif
