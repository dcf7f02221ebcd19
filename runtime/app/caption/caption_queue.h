/* caption_queue.h - items read ahead of the model, in the order of the input, by a thread of its own. */
#ifndef APP_CAPTION_QUEUE_H
#define APP_CAPTION_QUEUE_H

#include "caption_request.h"

typedef struct caption_queue caption_queue;

/* due: asked by the reading thread which items are wanted. On failure *out is NULL. */
sac_status caption_queue_start(caption_queue **out, const caption_input *in, const caption_how *how,
                               bool (*due)(void *ctx, size_t source, size_t index), void *ctx,
                               sac_error *err);

/* Waits for the next item, which the caller then owns; false when there is none, or after a stop. */
bool caption_queue_take(caption_queue *q, caption_request *out);

/* No item is handed out any more. */
void caption_queue_stop(caption_queue *q);
void caption_queue_free(caption_queue *q); /* stops; NULL is fine */

#endif
