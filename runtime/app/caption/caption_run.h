/* caption_run.h - the items of a shard through the model: read ahead by one thread, answered by several
 * sessions at a time, recorded as they are done. */
#ifndef APP_CAPTION_RUN_H
#define APP_CAPTION_RUN_H

#include "caption_records.h"
#include "caption_request.h"
#include "run.h"

/* What this process did. */
typedef struct caption_stats {
    int64_t n_items, n_before; /* of the shard; done when this process began */
    int64_t n_captions, n_errors;
    int64_t prompt_tokens, visual_tokens, tokens, frames;
    double seconds, media_s, vision_s, prefill_s, decode_s; /* the parts are summed over sessions */
} caption_stats;

/* r: an open model; sessions are made here. SAC_OK when every item of the shard has its record. */
sac_status caption_run(run *r, const caption_input *in, const caption_shard *shard, const caption_how *how,
                       caption_records *records, caption_stats *stats, sac_error *err);

#endif
