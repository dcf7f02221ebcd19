/* json_machine.h - JSON that matches a schema, read byte by byte: a stack machine that is copied to try what
 * a token would do. */
#ifndef SERVE_JSON_MACHINE_H
#define SERVE_JSON_MACHINE_H

#include "schema.h"

enum { MACHINE_DEPTH = SCHEMA_MAX_DEPTH + 2 };

typedef struct machine_frame {
    int16_t node;
    uint8_t phase;
    uint8_t n_space;   /* white space in a row */
    uint8_t hex, utf8; /* of a string: digits of \u, and bytes of a character, that are still to come */
    uint8_t low, high; /* bounds of the character's next byte */
    int16_t child;     /* of an object: node of the value behind the key */
    uint32_t at;       /* characters, digits, items, or place in a choice */
    uint64_t mask;     /* choices, or properties, that are still possible */
    uint64_t seen;     /* of an object: properties that it has */
} machine_frame;

typedef struct json_machine {
    const schema *schema;
    int depth; /* frames in use; 0 = the value is whole */
    machine_frame frame[MACHINE_DEPTH];
} json_machine;

void json_machine_start(json_machine *m, const schema *s);
/* False: this byte may not come here (the machine is then of no more use). */
bool json_machine_step(json_machine *m, unsigned char byte);
/* May the text end here? */
bool json_machine_may_end(const json_machine *m);

#endif
