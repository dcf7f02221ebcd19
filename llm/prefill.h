/* prefill.h - a prompt on its way through the decoder, a piece at a time, so that other work can run between
 * the pieces: a chunk of a layer's linear parts, or a layer's attention over the whole prompt, or part of either.
 *
 *   sac_prefill_work w;
 *   SAC_TRY(sac_prefill_work_begin(&w, d, s, ops, stream, past, n, 1, err));
 *   while (!sac_prefill_work_is_done(&w)) SAC_TRY(sac_prefill_work_next(&w, err));
 *
 * Between the pieces other sequences may run on the same pool and device, this one may not. Nothing is
 * allocated, and whoever gives up in between calls sac_prefill_work_drop. */
#ifndef SAC_LLM_PREFILL_H
#define SAC_LLM_PREFILL_H

#include "decoder.h"

typedef enum sac_prefill_stage {
    SAC_PREFILL_IN,     /* norm, queries, keys and values of a chunk */
    SAC_PREFILL_ATTEND, /* attention of the layer, and what policies and cache make of it */
    SAC_PREFILL_ADD,    /* outputs of picked queries to their hidden states, a part of them */
    SAC_PREFILL_OUT,    /* the rest of the block of a chunk */
    SAC_PREFILL_DONE,
} sac_prefill_stage;

/* Points to itself while a layer is under way: not to be moved. */
typedef struct sac_prefill_work {
    const sac_decoder *d;
    sac_decoder_state *s;
    const sac_ops *ops;
    const sac_stream *stream;
    int64_t past, n; /* hidden rows [past, past + n) are on their way; policies may drop some on it, and passes with steps
                        (decoder_pass.h) take the first ones */
    int64_t began;   /* what `past` was at first */
    int64_t n_seen;  /* tokens of the sequence when the work is done */
    int64_t n_out;   /* rows of the last layer whose outputs are wanted */
    int layer;
    sac_prefill_stage stage; /* of the next piece */
    int64_t at;              /* rows of the stage that are done */
    double most;             /* the caller's: multiply-adds that the next piece may take, as far as it can be cut
                                (sac_prefill_work_next); 0 = any */
    int64_t save_at; /* of so many new rows the states of layers with linear attention are saved; 0: they are not */

    /* The layer under way. */
    sac_kv_view kv;
    int64_t kv_past;              /* row of kv that the first key goes to */
    bool picks, makes_no_queries; /* the policy picks its queries; and makes them itself */
    bool by_rows;                 /* attention goes some queries at a time */
    sac_layer_attention attention;
    sac_attended some; /* outputs of picked queries */
} sac_prefill_work;

/* n new tokens after `past` cached ones, as sac_decoder_prefill takes them. On failure nothing is under way
 * and the sequence is cut back to at most `past` tokens. */
sac_status sac_prefill_work_begin(sac_prefill_work *w, const sac_decoder *d, sac_decoder_state *s,
                                  const sac_ops *ops, const sac_stream *stream, int64_t past, int64_t n,
                                  int64_t n_out, sac_error *err);

/* The next piece. On failure the work is dropped. On the CPU one that would take more than w->most is cut to fewer rows, and
 * dense attention to fewer queries, SAC_PREFILL_LEAST_ROWS at least: of 64 rows each costs about 5 % more than of 256 (Q4_K, of a
 * layer of an 8B model), of 32 rows 20 %. No row's bits depend on it. On a device, where pieces are queued, any w->most > 0 cuts
 * dense attention to about half the work of a chunk's widest products, in steps of SAC_PREFILL_DEVICE_ROWS queries (by Hopper's kernel for heads of 128 the bits are those of the whole): else a layer's
 * attention over 128 K tokens holds up the steps of others for 200 ms (H200). */
enum { SAC_PREFILL_LEAST_ROWS = 64, SAC_PREFILL_DEVICE_ROWS = 1024 };
sac_status sac_prefill_work_next(sac_prefill_work *w, sac_error *err);

static inline bool sac_prefill_work_is_done(const sac_prefill_work *w) {
    return w->stage == SAC_PREFILL_DONE;
}

/* Whether the next piece is a layer's first: a point to report progress or to give up. */
static inline bool sac_prefill_work_begins_layer(const sac_prefill_work *w) {
    return w->stage == SAC_PREFILL_IN && w->at == 0;
}

/* About how many multiply-adds the next piece takes, as a dense policy would; 0 when all is done. */
double sac_prefill_work_cost(const sac_prefill_work *w);
/* Whether its time tells by the cost what others of its stage take: not of a few rows, for which weights are read all the
 * same, and not of a method's attention. */
bool sac_prefill_work_is_typical(const sac_prefill_work *w);

/* Rows on their way, less a share for every layer that is done. */
double sac_prefill_work_left(const sac_prefill_work *w);

/* Gives up: the sequence is cut back to at most the tokens before. Harmless when all is done. */
void sac_prefill_work_drop(sac_prefill_work *w);

#endif
