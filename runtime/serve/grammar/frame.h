/* frame.h - a node that is being read. Frames never change: reading a byte makes new ones, which point at the frame that goes
 * on when they end. So readings share their stacks. */
#ifndef SERVE_FRAME_H
#define SERVE_FRAME_H

#include "machine.h"

enum { FRAME_NONE = -1 }; /* in place of a frame: the text is whole */

enum frame_phase {
    ENTRY,      /* before the node */
    ENTRY_JSON, /* the same, where JSON may have white space */
    OBJECT_FIRST,
    OBJECT_KEY,
    OBJECT_KEY_ESCAPE,
    OBJECT_COLON,
    OBJECT_AFTER,
    OBJECT_NEXT,
    ARRAY_FIRST,
    ARRAY_AFTER,
    STRING_BODY,
    STRING_ESCAPE,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_WHOLE,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_SIGN,
    NUMBER_EXPONENT,
    CLASS_TAIL,   /* within a character */
    CLASS_ESCAPE, /* behind a backslash */
    WITHIN,       /* of all other nodes: `at` says where */
};

/* Without gaps: frames are compared as bytes. */
typedef struct machine_frame {
    int32_t parent; /* the frame that goes on behind this node, or FRAME_NONE */
    int32_t node;
    int32_t child; /* of an object: node of the value behind the key */
    uint32_t at;   /* characters, digits, items, times, or place in a text */
    uint64_t
        mask; /* properties that are still possible; choices; digits of a bounded number; part of a character */
    uint64_t seen;   /* of an object: properties that it has; of a bounded number: digits behind the point */
    uint16_t depth;  /* frames below it, this one counted */
    uint8_t phase;   /* enum frame_phase */
    uint8_t n_space; /* white space in a row */
    uint8_t hex, utf8; /* of a string: digits of \u, and bytes of a character, that are still to come */
    uint8_t low, high; /* bounds of the character's next byte */
} machine_frame;

_Static_assert(sizeof(machine_frame) == 40, "no gaps");

typedef struct machine_level {
    int begin, n; /* its readings: tops[begin...] */
    int n_frames; /* in use up to this level */
} machine_level;

enum { MACHINE_KNOWN_FRAMES = 1024 };

struct machine {
    const grammar *g;
    int32_t known[MACHINE_KNOWN_FRAMES]; /* frames by their hash; may be of other contents, or no more */
    machine_frame *frames;
    uint32_t *advanced; /* [room] the byte that a frame was read with last, by number */
    uint32_t n_bytes;   /* numbers given */
    int n_frames, room;
    uint64_t work;
    int n_kept; /* frames that were left when level 0 was tidied last */
    int32_t *tops;
    int tops_room;
    machine_level levels[MACHINE_MAX_LEVELS + 1];
};

/* What a byte does to one level, on its way. */
typedef struct machine_try_state {
    machine *m;
    int begin; /* its readings: tops[begin...] */
    int n;
    int work; /* nodes and frames looked at */
} machine_try_state;

/* Room for more frames; false without memory. */
bool machine_grow(machine *m);
const grammar_node *machine_node(const machine_try_state *t, int32_t node);
/* Depth of the frame; 0 of FRAME_NONE. */
int machine_depth(const machine_try_state *t, int32_t frame);
/* Whether a node can come to its end on top of `depth` frames. */
bool machine_has_room(const machine_try_state *t, int depth, int32_t node);

/* The reading goes on with this frame on top: one that is there, or a new one. */
void machine_go_on(machine_try_state *t, int32_t frame);
void machine_put(machine_try_state *t, const machine_frame *f);
/* A new frame as a parent of others; FRAME_NONE - 1 = no room. */
int32_t machine_push(machine_try_state *t, const machine_frame *f);
enum { FRAME_NO_ROOM = -2 };

/* leaves.c, json_leaves.c: nodes without others to begin with. begin: the first byte, which node->first has. */
void leaf_begin(machine_try_state *t, int32_t node, int32_t parent, unsigned char c);
void leaf_advance(machine_try_state *t, machine_frame f, unsigned char c);
bool leaf_may_end(const grammar_node *n, const machine_frame *f);
void json_begin(machine_try_state *t, int32_t node, int32_t parent, unsigned char c);
/* What is given is a frame that is to read the byte, too: an array's first item. FRAME_NONE = none. */
int32_t json_advance(machine_try_state *t, machine_frame f, unsigned char c);
bool json_may_end(const grammar_node *n, const machine_frame *f);
/* White space before a value. *takes: the byte was some; false: it may not come. */
bool json_entry_space(machine_frame *f, unsigned char c, bool *takes);

#endif
