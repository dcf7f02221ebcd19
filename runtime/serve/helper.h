/* helper.h - the server's side of the decoding processes of child.h. */
#ifndef SERVE_HELPER_H
#define SERVE_HELPER_H

#include "child.h"
#include "problem.h"

#include <stdatomic.h>

typedef struct serve_helper serve_helper;

sac_status serve_helper_open(serve_helper **out, sac_error *err);
void serve_helper_close(serve_helper *h); /* NULL is fine */

/* What was decoded: BMP files one behind the other, read-only. */
typedef struct serve_pixels {
    uint8_t *map;
    size_t n_bytes;
    serve_child_reply info;
    double *times; /* [info.n_frames] */
} serve_pixels;

void serve_pixels_free(serve_pixels *p);

/* Decodes what `input` holds, in a child. From any thread. False: *p says why; *crashed when the child died.
 */
bool serve_helper_decode(serve_helper *h, const serve_child_task *task, int input, const char *param,
                         const atomic_bool *cancelled, serve_pixels *out, bool *crashed, serve_problem *p);

#endif
