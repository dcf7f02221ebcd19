/* msgpack.h - values in MessagePack's format (msgpack.org), into a buffer, each in its shortest form. */
#ifndef SERVE_MSGPACK_H
#define SERVE_MSGPACK_H

#include "byte_buffer.h"

#include <stdint.h>

void msgpack_array(serve_buffer *b, uint32_t n); /* n values follow */
void msgpack_map(serve_buffer *b, uint32_t n);   /* n times a key and a value */
void msgpack_text(serve_buffer *b, const char *text);
void msgpack_unsigned(serve_buffer *b, uint64_t n);
void msgpack_integer(serve_buffer *b, int64_t n);
void msgpack_real(serve_buffer *b, double x);
void msgpack_nil(serve_buffer *b);

#endif
