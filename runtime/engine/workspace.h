/* workspace.h - memory that is needed only while something runs, and what runs it: scratch of ops, streams, library
 * handles, a prompt's hidden states, a chunk's activations, the tower's buffers. It belongs to the model. A call
 * borrows a workspace while it runs the model, a prompt that is begun in pieces from its first tokens to its logits;
 * so a session between two calls is keys, values and what its methods have learned.
 *
 * There are as many workspaces as calls and prompts were ever at it at once, one at least while there are sessions:
 * each is large enough for any of them. What needs another finds it made, or makes it; nobody waits for one. */
#ifndef SAC_ENGINE_WORKSPACE_H
#define SAC_ENGINE_WORKSPACE_H

#include "engine.h"

enum {
    SAC_N_USES = SAC_FOR_STEP + 1,
    SAC_PIECES_AHEAD = 2 /* pieces of a prefill that a device may have before it */
};

/* What a session asks of a workspace for one use. */
typedef struct sac_workspace_need {
    size_t rows_bytes, device_rows_bytes; /* laid out anew for every loan */
    size_t scratch_bytes;                 /* one block for the host's op in flight */
    size_t spare_bytes;                   /* of it, what only a batch of tiles needs that the device refuses */
    bool vision, device_vision;           /* the tower's buffers on the host; on the device */
} sac_workspace_need;

typedef struct sac_workspace {
    struct sac_workspace *next;
    sac_workspace_need has;
    sac_decoder_use made_for;
    bool is_lent;
    sac_arena fixed, rows; /* scratch and the tower's buffers; what is laid out anew */
    sac_stream stream;     /* of the host */
    sac_vision_state vision;
    /* On a device, where the model runs on one. */
    sac_stream device_stream;
    sac_ops device_ops;
    void *device_memory;
    sac_arena device_fixed, device_rows; /* over device_memory */
    sac_device_vision device_vision;
    sac_event passed[SAC_PIECES_AHEAD]; /* behind the last pieces of a prefill, in turn */
} sac_workspace;

/* The workspaces of one model. */
typedef struct sac_workspaces sac_workspaces;
sac_status sac_workspaces_create(sac_workspaces **out, sac_error *err);
void sac_workspaces_free(sac_workspaces *w, const sac_model *m); /* nothing is lent; NULL is fine */

/* A session comes, and will ask for no more than `need`, one for each use: there is a workspace for it from here on,
 * beside n_bytes of the device's memory that are still to be taken for the session itself. */
sac_status sac_workspaces_enter(const sac_model *m, const sac_workspace_need need[SAC_N_USES], size_t n_bytes,
                                sac_error *err);
/* A session that has entered goes. */
void sac_workspaces_leave(const sac_model *m);

/* The pool that sessions' keys and values are in, or NULL (sac_model_page_kv). */
sac_page_pool *sac_workspaces_pages(const sac_model *m);
/* Rows of its sessions outside of them, on the host (parked.h). */
struct sac_parked_list *sac_workspaces_parked(const sac_model *m);

/* The block of a device's memory that a session lives in. What a session gives back is kept while others are there, and
 * taken by the next that it is about right for: freeing and taking memory stops the device, and with it the steps of all
 * others. One block is kept, and goes where its memory is needed. */
sac_status sac_session_block_take(const sac_model *m, size_t n_bytes, sac_session_block *out, sac_error *err);
void sac_session_block_give_back(const sac_model *m, sac_session_block *b); /* one without memory is fine */

/* One of them, until it is given back. The stream of a device has then nothing in flight. */
sac_status sac_workspace_borrow(const sac_model *m, const sac_workspace_need *need, sac_decoder_use use,
                                sac_workspace **out, sac_error *err);
void sac_workspace_give_back(const sac_model *m, sac_workspace *w);

/* ---- made of (workspace_open.c) */

size_t sac_workspace_device_bytes(const sac_model *m, const sac_workspace_need *need);
/* What the tower may have of the host's pages, pinned ones among them, and of the device's memory. */
size_t sac_workspace_vision_bytes(const sac_model *m, const sac_workspace_need *need);
size_t sac_workspace_device_vision_bytes(const sac_model *m, const sac_workspace_need *need);
size_t sac_workspace_pinned_bytes(const sac_model *m, const sac_workspace_need *need); /* of the host's */

sac_status sac_workspace_open(sac_workspace *w, const sac_model *m, const sac_workspace_need *need,
                              sac_error *err);
void sac_workspace_close(sac_workspace *w, const sac_model *m); /* also after a failure */

/* ---- a session's (loan.c) */

sac_workspace_need sac_session_need(const sac_model *m, const sac_decoder_state *decoder,
                                    const sac_reduce *reduce, sac_decoder_use use);
/* The session's stream, rows and buffers, until they are given back. Harmless when nothing was borrowed. */
sac_status sac_session_borrow(sac_session *s, sac_decoder_use use, sac_error *err);
void sac_session_give_back(sac_session *s);

/* Calls fn with a stream for the decoder's copies: the session's while it runs, or one for the moment. */
sac_status sac_session_with_stream(const sac_session *s,
                                   sac_status (*fn)(const sac_session *s, const sac_stream *stream));

#endif
