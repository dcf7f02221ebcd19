/* json_scan.h - whether a text is JSON (RFC 8259), byte by byte, without keeping any of it. */
#ifndef SERVE_JSON_SCAN_H
#define SERVE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum { JSON_SCAN_DEPTH = 256 };

typedef enum json_scan_result {
    JSON_SCAN_MORE, /* right so far */
    JSON_SCAN_DONE, /* this byte was the value's last; a number ends with the byte behind it: see json_scan_ends */
    JSON_SCAN_BAD
} json_scan_result;

typedef struct json_scan {
    uint8_t state, hex; /* hex: digits of \u that are still to come */
    const char *word;   /* the rest of true, false or null */
    int depth;
    uint64_t objects[JSON_SCAN_DEPTH / 64]; /* bit i: level i is an object */
} json_scan;

/* A zeroed one stands before a value. */
json_scan_result json_scan_byte(json_scan *s, char byte);
/* Whether it stands behind a number that nothing is around, which is whole unless digits follow. */
bool json_scan_ends(const json_scan *s);

#endif
