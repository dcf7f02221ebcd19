/* intake_wire.h - what a child says by its socket: for every frame a head and its pixels, at the end a head
 * and an intake_info. Before them, where it may, a head that offers to share the work: it is answered with an int32_t, the number of
 * shares. Both sides are one program on one machine, so structs go as they lie in memory. */
#ifndef INTAKE_DECODER_WIRE_H
#define INTAKE_DECODER_WIRE_H

#include <stdint.h>

enum { INTAKE_SAYS_FRAME = 1, INTAKE_SAYS_END = 2, INTAKE_SAYS_SHARES = 3 };

typedef struct intake_head {
    int32_t says;
    int32_t width, height; /* of a frame: [height][width][3] bytes of RGB follow */
    int32_t n_chosen;      /* frames that come, this one among them; 0 = not known. Of an offer: into how many shares */
    double time_s;
} intake_head;

/* The descriptors that come with a task: the child's own end of the socket, the input, and the reading end of a pipe that
 * carries nothing: its other end is open for as long as somebody waits for the file. */
enum { INTAKE_TASK_SOCKET, INTAKE_TASK_INPUT, INTAKE_TASK_LIFELINE, INTAKE_TASK_FDS };

#endif
