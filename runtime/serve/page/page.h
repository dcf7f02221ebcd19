/* page.h - the page of "/" and what it is made of, compiled in. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

typedef struct serve_page_file {
    const char *path; /* that it is asked for by; NULL behind the last */
    const char *name; /* in the tree; its end tells the type */
    const unsigned char *data;
    size_t n_bytes;
    const unsigned char *packed; /* the same as gzip has it; NULL = there is none */
    size_t n_packed;
} serve_page_file;

extern const serve_page_file serve_page_files[];

/* NULL: the page has no such file. */
const serve_page_file *serve_page_find(const char *path);
/* Content-Type of a file. */
const char *serve_page_type(const serve_page_file *f);

#endif
