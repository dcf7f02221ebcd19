/* method_file.h - method lines in YAML, as method_list.h shows them. The file may come from a stranger: what
 * is not expected is refused, with file and line. */
#ifndef APP_METHOD_FILE_H
#define APP_METHOD_FILE_H

#include "method_list.h"

/* Adds the file's lines and sweeps to a list that begins with dense. `name` stands for the file in errors. */
sac_status method_file_parse(method_list *list, const char *text, size_t n_bytes, const char *name,
                             sac_error *err);

#endif
