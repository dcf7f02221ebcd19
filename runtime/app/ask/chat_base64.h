/* chat_base64.h - RFC 4648, with padding and without line ends. */
#ifndef APP_CHAT_BASE64_H
#define APP_CHAT_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* NUL-terminated; the caller's, NULL without memory. */
char *chat_base64_write(const uint8_t *bytes, size_t n_bytes);

/* The caller's; NULL without memory or when it is no base64. */
uint8_t *chat_base64_read(const char *text, size_t *n_bytes);

#endif
