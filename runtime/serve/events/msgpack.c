#include "msgpack.h"

#include <string.h>

/* A tag, and the lower n bytes of a number behind it, highest first. */
static void put(serve_buffer *b, unsigned tag, uint64_t value, int n) {
    unsigned char bytes[9] = {(unsigned char)tag};
    for (int i = 0; i < n; i++) bytes[1 + i] = (unsigned char)(value >> 8 * (n - 1 - i));
    serve_buffer_add(b, bytes, 1 + (size_t)n);
}

/* A length: within the tag where it is small. */
static void put_length(serve_buffer *b, uint32_t n, unsigned small, uint32_t small_room, unsigned tag16) {
    if (n < small_room)
        put(b, small | n, 0, 0);
    else if (n <= UINT16_MAX)
        put(b, tag16, n, 2);
    else
        put(b, tag16 + 1, n, 4);
}

void msgpack_array(serve_buffer *b, uint32_t n) {
    put_length(b, n, 0x90, 16, 0xdc);
}

void msgpack_map(serve_buffer *b, uint32_t n) {
    put_length(b, n, 0x80, 16, 0xde);
}

void msgpack_text(serve_buffer *b, const char *text) {
    const uint32_t n = (uint32_t)strlen(text);
    if (n >= 32 && n <= UINT8_MAX)
        put(b, 0xd9, n, 1);
    else
        put_length(b, n, 0xa0, 32, 0xda);
    serve_buffer_add(b, text, n);
}

void msgpack_unsigned(serve_buffer *b, uint64_t n) {
    if (n < 0x80)
        put(b, (unsigned)n, 0, 0);
    else if (n <= UINT8_MAX)
        put(b, 0xcc, n, 1);
    else if (n <= UINT16_MAX)
        put(b, 0xcd, n, 2);
    else if (n <= UINT32_MAX)
        put(b, 0xce, n, 4);
    else
        put(b, 0xcf, n, 8);
}

void msgpack_integer(serve_buffer *b, int64_t n) {
    if (n >= 0)
        msgpack_unsigned(b, (uint64_t)n);
    else if (n >= -32)
        put(b, 0xe0 | (unsigned)(n & 0x1f), 0, 0);
    else
        put(b, 0xd3, (uint64_t)n, 8);
}

void msgpack_real(serve_buffer *b, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(b, 0xcb, bits, 8);
}

void msgpack_nil(serve_buffer *b) {
    put(b, 0xc0, 0, 0);
}
