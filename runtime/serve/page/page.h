/* page.h - the page of "/", compiled in from page.html. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

extern const unsigned char serve_page[];
extern const size_t serve_page_bytes;

#endif
