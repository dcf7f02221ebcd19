/* byte_buffer.h - bytes that grow. A buffer that ran out of memory stays `failed` and takes nothing more, so that
 * a writer may look once, at the end. */
#ifndef SERVE_BUFFER_H
#define SERVE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct serve_buffer {
    char *data; /* not NUL-terminated */
    size_t n, room; /* room: from data on */
    bool failed;
    size_t skipped; /* bytes of the block before data */
} serve_buffer;

void serve_buffer_add(serve_buffer *b, const void *data, size_t n);
void serve_buffer_text(serve_buffer *b, const char *text);
void serve_buffer_format(serve_buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void serve_buffer_drop(serve_buffer *b, size_t n); /* the first n bytes */
void serve_buffer_free(serve_buffer *b);

#endif
