/* caption_decode.h - an item's pictures and videos, decoded by a locked-in child process (intake_decoder.h) and put
 * in the place of the files, so that a file that is made to break a decoder breaks nothing but its own
 * record. */
#ifndef APP_CAPTION_DECODE_H
#define APP_CAPTION_DECODE_H

#include "caption_request.h"

#include <stdatomic.h>

typedef struct caption_decoder caption_decoder;

/* For sessions of n_ctx tokens and this reducer (as in sac_session_config, borrowed). Tries whether children can be
 * locked in on this machine at all; the error says what to do when they cannot. */
sac_status caption_decoder_open(caption_decoder **out, const sac_model *m, int64_t n_ctx, const char *reduce,
                                sac_error *err);
void caption_decoder_close(caption_decoder *d); /* NULL is fine */

/* From any thread. What is decoded lives until caption_decoded_free, which a failure, too, is followed by. */
sac_status caption_decode(caption_decoder *d, caption_request *q, const atomic_bool *cancelled,
                          sac_error *err);
void caption_decoded_free(caption_request *q);

#endif
