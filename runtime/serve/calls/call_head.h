/* call_head.h - the beginning of a call's JSON object, up to its arguments. */
#ifndef SERVE_CALL_HEAD_H
#define SERVE_CALL_HEAD_H

#include <stdbool.h>
#include <stddef.h>

enum { CALL_NAME_ROOM = 256 };

typedef enum call_head_result {
    CALL_HEAD_MORE,  /* right so far */
    CALL_HEAD_READY, /* the name is known, and the arguments begin */
    CALL_HEAD_WHOLE, /* the object is at its end, which comes with arguments before the name, and without any */
    CALL_HEAD_BAD    /* no call */
} call_head_result;

typedef struct call_head {
    char name[CALL_NAME_ROOM]; /* UTF-8, NUL-terminated */
    size_t arguments; /* where they begin; of a whole object also how many bytes they are, 0 = it has none */
    size_t n_arguments;
} call_head;

/* Reads n bytes, the first of which is to be "{". */
call_head_result call_head_read(call_head *h, const char *text, size_t n);

#endif
