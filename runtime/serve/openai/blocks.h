/* blocks.h - an answer as a list of reasoning, text and calls in the order in which they came, as the APIs have it whose
 * answers are lists. The last block is open until another kind of text, or another call, comes. */
#ifndef SERVE_BLOCKS_H
#define SERVE_BLOCKS_H

#include "byte_buffer.h"
#include "splitter.h"

#include <jansson.h>

typedef struct serve_blocks {
    json_t *list;       /* NULL = none so far; what a block is, the voice says */
    bool open;          /* the last one of the list */
    splitter_kind kind; /* of it: TEXT, REASONING or CALL */
    serve_buffer text;  /* of it: what it says, or a call's arguments */
} serve_blocks;

/* Whether a part goes on with the open block. */
static inline bool serve_blocks_goes_on(const serve_blocks *b, splitter_kind kind) {
    return b->open &&
           (kind == SPLITTER_ARGUMENTS ? b->kind == SPLITTER_CALL : b->kind == kind && kind != SPLITTER_CALL);
}

/* The open block's, or a new one's, place in the list. */
size_t serve_blocks_index(const serve_blocks *b);
/* Another block, which goes over, is the open one. The one before is closed. */
void serve_blocks_open(serve_blocks *b, splitter_kind kind, json_t *block);
json_t *serve_blocks_last(const serve_blocks *b); /* borrowed */
/* The text of the open block as JSON has it; what is not JSON, as a call's arguments that broke off may be, is NULL in
 * serve_blocks_value. */
json_t *serve_blocks_text(const serve_blocks *b);
json_t *serve_blocks_value(const serve_blocks *b);
void serve_blocks_close(serve_blocks *b);
void serve_blocks_free(serve_blocks *b);

#endif
