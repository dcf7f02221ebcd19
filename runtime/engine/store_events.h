/* store_events.h - tells whoever watches the store of beginnings which blocks of rows come into its memory and go. */
#ifndef SAC_ENGINE_STORE_EVENTS_H
#define SAC_ENGINE_STORE_EVENTS_H

#include "engine.h"

typedef struct sac_store_watch {
    void (*event)(void *ctx, const sac_block_event *e); /* NULL: nobody does */
    void *ctx;
} sac_store_watch;

/* The block of the session's rows from `first` on has come. Under the lock of the beginnings. */
void sac_store_tell_stored(const sac_store_watch *w, const sac_session *s, int64_t first, const sac_store_block *b);
/* It goes. */
void sac_store_tell_removed(const sac_store_watch *w, const sac_store_block *b);

#endif
