#define _GNU_SOURCE
#include "byte_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void move_to_start(serve_buffer *b) {
    char *start = b->data - b->skipped;
    memmove(start, b->data, b->n);
    b->data = start;
    b->room += b->skipped;
    b->skipped = 0;
}

static bool reserve(serve_buffer *b, size_t n) {
    if (b->failed || n <= b->room - b->n) return !b->failed;
    if (b->skipped) move_to_start(b);
    if (n <= b->room - b->n) return true;
    size_t room = b->room ? b->room : 256;
    while (room - b->n < n && room < ((size_t)1 << 62)) room *= 2;
    char *data = realloc(b->data, room);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->room = room;
    return true;
}

void serve_buffer_add(serve_buffer *b, const void *data, size_t n) {
    if (n == 0 || !reserve(b, n)) return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void serve_buffer_text(serve_buffer *b, const char *text) {
    serve_buffer_add(b, text, strlen(text));
}

void serve_buffer_format(serve_buffer *b, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        b->failed = true;
    else
        serve_buffer_add(b, text, (size_t)n);
    if (n >= 0) free(text);
}

void serve_buffer_drop(serve_buffer *b, size_t n) {
    if (n == 0) return;
    b->data += n;
    b->n -= n;
    b->room -= n;
    b->skipped += n;
    if (b->skipped > b->n) move_to_start(b); /* what is moved was paid for by what is gone */
}

void serve_buffer_free(serve_buffer *b) {
    free(b->data ? b->data - b->skipped : NULL);
    *b = (serve_buffer){0};
}
