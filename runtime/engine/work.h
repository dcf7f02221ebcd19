/* work.h - a prompt from what is asked to the logits of its last token, a piece at a time, so that a scheduler
 * can be a loop over the work of many sessions. Pieces are: opening the media and placing the tokens, with a batch of a
 * video through the tower at a time in between where a reducer has to see it first; some of the
 * rows that the store of beginnings has; looking up the text; opening a picture or video, or finding its rows in the cache; a batch of it through the tower; a
 * piece of the prefill (prefill.h); the logits. From the
 * second of these on it has one of the model's workspaces (workspace.h). Tokens that are appended to a sequence (append.h) are such
 * work, too: their embeddings, pieces of the prefill, and logits of some rows at a time where all are wanted. */
#ifndef SAC_ENGINE_WORK_H
#define SAC_ENGINE_WORK_H

#include "media_encode.h"
#include "pace.h"
#include "prefill.h"
#include "prompt.h"
#include "store.h"

typedef enum sac_work_stage {
    SAC_WORK_DONE, /* or nothing has begun */
    SAC_WORK_PLACE,
    SAC_WORK_CHOOSE, /* videos of which a reducer must see all before the prompt can be placed */
    SAC_WORK_ROOM, /* memory for its rows, where these are in pages */
    SAC_WORK_FIND, /* rows in the store of beginnings */
    SAC_WORK_TEXT,
    SAC_WORK_MEDIA,
    SAC_WORK_PREFILL,
    SAC_WORK_LOGITS,
    SAC_WORK_APPEND, /* tokens behind what the session holds, in place of a prompt's first stages */
    SAC_WORK_ALL_LOGITS, /* of such */
} sac_work_stage;

/* A session's own; not to be moved while under way. */
typedef struct sac_work {
    sac_session *s;
    sac_input input; /* what it points to is the caller's until the work is done */
    sac_work_stage stage;
    bool inside; /* a piece is running, or all of them */
    bool is_whole; /* all of them: nobody tries a piece again */
    bool is_placed; /* the prompt's tokens are where the session's were, and may wait there for memory */
    sac_prompt prompt;
    sac_store_walk walk;
    size_t medium; /* the next for the tower, or at it */
    sac_media_work encoding;
    sac_prefill_work prefill;
    int n_pieces; /* of the prefill, so far */
    int64_t start_ns, prefill_ns;
    sac_result result;
    sac_pace pace; /* of all prompts of the session so far */
    bool appends;      /* no answer follows; prompt.n_reused and n_tokens are the rows before and after */
    float *all_logits; /* [n][vocab] of what is appended, the caller's; NULL = of the last token alone */
    int64_t n_logits;  /* rows of them that are made */
    double most_head;  /* multiply-adds that the next piece of them may take; 0 = any */
} sac_work;

/* Nothing is run yet; the session counts as at work from here on. What it was at before is dropped. */
void sac_work_begin(sac_work *w, sac_session *s, const sac_input *in, const sac_events *events);

/* The same for tokens that are appended: rows [past, n_tokens) of the session's ids. */
void sac_work_begin_append(sac_work *w, sac_session *s, int64_t past, int64_t n_tokens, float *all_logits, const sac_events *events);

/* BAD_ARGUMENT within a call that has the session's work in it: a callback asks, who may ask other sessions only; and within a mask
 * callback of a session of the model (mask_call.h). */
sac_status sac_work_check_outside(const sac_session *s, sac_error *err);

/* The next piece. On failure the work is dropped. A device gets a piece of a prefill when it is through with all but
 * the last before: what others ask of it between two pieces waits for no more than these. */
sac_status sac_work_next(sac_work *w, sac_error *err);

/* The same, on the CPU cut to take about so many seconds at most, as pieces before it tell: fewer rows (prefill.h), fewer
 * tiles for the tower. Fewer pictures go through the tower together, on a device too. 0: no limit. */
sac_status sac_work_next_within(sac_work *w, double seconds, sac_error *err);

static inline bool sac_work_is_done(const sac_work *w) {
    return w->stage == SAC_WORK_DONE;
}

/* Every piece. */
sac_status sac_work_run(sac_work *w, sac_error *err);

/* Of its next rows, at most `most`, those that may go into a pass with steps of other sessions (decoder_pass.h). */
int64_t sac_work_pass_rows(const sac_work *w, int64_t most);
/* Around that pass, in whose stream it runs: reports and looks whether it was cancelled, and says how it went. On a device the
 * stream goes on after what the prompt has in flight. On failure the work is dropped. */
sac_status sac_work_enter_pass(sac_work *w, const sac_stream *stream, sac_error *err);
sac_status sac_work_leave_pass(sac_work *w, sac_status st);

/* About how many multiply-adds of the decoder the next piece takes; 0 where it is no piece of a prefill. */
double sac_work_cost(const sac_work *w);

/* About how many tokens are still to be run: those that were not in the cache, less a share for every layer that is
 * done. Below 0 before the first piece, which counts them; 0 when nothing is under way. */
double sac_work_left(const sac_work *w);

/* Gives up: what is still valid in the cache stays. Harmless when nothing is under way. */
void sac_work_drop(sac_work *w);

#endif
