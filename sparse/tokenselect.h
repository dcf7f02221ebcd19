/* tokenselect.h - the state of TokenSelect, between its vote (tokenselect_vote.c), the copy of keys that it
 * may read (tokenselect_keys.c), its steps with the Selection Cache (tokenselect_step.c) and its settings and
 * prompts (tokenselect.c). What ops and the host both read is a buffer; of the rest a comment says whose it is. */
#ifndef SAC_TOKENSELECT_H
#define SAC_TOKENSELECT_H

#include "gathered.h"
#include "key_copy.h"
#include "starts.h"
#include "vote_chunks.h"

#include <math.h>

enum {
    TS_INIT,
    TS_K,
    TS_LOCAL,
    TS_CHUNK,
    TS_THETA,
    TS_SCALE,
    TS_SELECT,
    TS_GQA,
    TS_POS,
    TS_MAX_HITS,
    TS_P,
    TS_KMIN,
    TS_KMAX,
    TS_KEYS,
    TS_VOTE,
    TS_MEANS
};
enum { TS_SOFT, TS_HEAD, TS_TOPK };

typedef struct sac_tokenselect {
    double p[SAC_METHOD_MAX_PARAMS];
    int64_t capacity; /* rows of a choice */
    /* Where ops run: */
    float *scores;          /* [means][n_heads][n_ctx] */
    float *votes;           /* [n_ctx] */
    float *lse;             /* [means][n_heads] */
    float *paired;          /* [means][n_heads * head_dim], queries as the vote pairs their heads; for gqa=mod */
    int32_t *head_best;     /* [n_heads][k], for select=head; with it: */
    int32_t *none;          /* [n_ctx] zeros, where votes are cleared */
    sac_buffer one;         /* float [k] ones: the vote of each of a head's best */
    bool has_one;           /* the device has them */
    int32_t *chosen;        /* [capacity], counted from the first candidate */
    sac_buffer query;       /* float [means][n_heads * head_dim] that vote */
    int n_means;            /* of them, in the vote at hand */
    sac_buffer rows;        /* int32_t [capacity], all that are read */
    sac_starts starts;      /* of rows */
    sac_buffer pairing;     /* int32_t [means][n_heads] which head comes where in `paired` */
    bool has_pairing;       /* the device has it */
    sac_buffer turn;        /* int32_t [means] what the queries are turned by */
    int32_t turn_sent;      /* and 1 */
    sac_buffer found;       /* with p: a threshold, then how many pass it as int64_t */
    sac_gathered gathered;  /* for pos=compact */
    sac_vote_chunks chunks; /* of a prompt, together */
    /* Selection Cache, a slot a layer; a prefill policy has none. Ops compare queries, and count; the host
     * knows only that something is cached. */
    int n_layers;
    float *cached_query; /* [n_layers][n_heads * head_dim] where ops run */
    int32_t *cached;     /* [n_layers][capacity] where ops run */
    int64_t *n_cached;   /* [n_layers] on the host; -1: empty */
    int64_t *cached_at;  /* [n_layers] on the host: rows that there were when a choice was made last, or may have been */
    sac_buffer skip;     /* int32_t [1] for the ops that choose: the choice stays */
    sac_buffer hits;     /* int64_t [n_layers][2]: since the choice, since the session began */
    int64_t *known_hits; /* [n_layers] on the host: what is in the stats */
    int64_t *n_decided;  /* [n_layers] on the host: steps that were decided since the counts were asked for */
    bool is_ahead;       /* there is more in hits than is known */
    /* What the cached choice reads, where ops run, side by side: a hit reads the last tokens where they lie. */
    uint8_t *gathered_k, *gathered_v; /* [n_gathered][n_kv_heads][capacity][head_dim] in the queries' type */
    int n_gathered; /* n_layers, or 1 where that would take too much: then nothing is kept; 0 for pos=orig */
    bool *is_gathered; /* [n_layers] on the host */
    /* With keys=4, for the vote: keys as before rope, or with vote=true as stored, a range a row and head; n counts
     * the rows packed.
     * NULL: the vote reads the keys as they are stored. */
    sac_packed_rows *copy; /* [n_layers] */
    float *unturned;       /* [n_kv_heads][rows at once][head_dim], where ops run */
    int32_t *pack_rows;    /* [rows at once] where ops run */
    int64_t *pack_start;   /* [2] where ops run */
} sac_tokenselect;

/* Tokens that the vote may choose at least and at most. */
static inline int64_t sac_tokenselect_min_chosen(const double *p) {
    return (int64_t)(p[TS_P] > 0 ? p[TS_KMIN] : p[TS_K]);
}
static inline int64_t sac_tokenselect_max_chosen(const double *p, const sac_attention_shape *shape) {
    if (p[TS_P] <= 0) return (int64_t)p[TS_K];
    return p[TS_KMAX] > 0 ? (int64_t)fmax(p[TS_KMIN], p[TS_KMAX]) : shape->n_ctx;
}

/* Sequences up to here are attended to whole. */
static inline int64_t sac_tokenselect_dense_up_to(const double *p) {
    return (int64_t)(p[TS_INIT] + p[TS_LOCAL]) + sac_tokenselect_min_chosen(p);
}

/* Of both policies. */
void sac_tokenselect_take(void *state, const double *p, const sac_attention_shape *shape,
                          const sac_memory *memory);

/* Whether the vote is at the tokens' own positions: keys as they are stored, queries as they come. */
static inline bool sac_tokenselect_votes_true(const double *p) {
    return p[TS_VOTE] != 0;
}

/* The mean queries of the layer's tokens in s->query, at positions local, local + 1 .. or at their own. */
sac_status sac_tokenselect_query(sac_tokenselect *s, const sac_layer_attention *a);

/* Candidates [init, init + n): the chosen ones' numbers, counted from init, ascending; how many. */
sac_status sac_tokenselect_choose(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                  int32_t *chosen, int64_t *n_chosen);

/* The copy of keys; none with keys=16. */
void sac_tokenselect_take_copy(sac_tokenselect *s, const sac_attention_shape *shape,
                               const sac_memory *memory);

/* Packs rows of the layer that the copy lacks, if it lacks one of the first n_rows. */
sac_status sac_tokenselect_pack(sac_tokenselect *s, const sac_layer_attention *a, int64_t n_rows);

/* scores[h][i] of candidate i < n of the copy, for the query heads q, at s->scores, a head every n_ctx. */
sac_status sac_tokenselect_copy_scores(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                       const float *q);

/* Their soft vote, at s->votes; UNSUPPORTED where the op does not know heads such as these. */
sac_status sac_tokenselect_copy_vote(sac_tokenselect *s, const sac_layer_attention *a, int64_t n,
                                     const float *q);

/* First tokens, chosen ones, last tokens of the rows. */
sac_status sac_tokenselect_list(sac_tokenselect *s, const sac_layer_attention *a, const int32_t *chosen,
                                int64_t n_chosen, sac_choice *choice);

/* The decode policy's. */
void sac_tokenselect_take_steps(void *state, const double *p, const sac_attention_shape *shape,
                                const sac_memory *memory);
void sac_tokenselect_begin(void *state);
void sac_tokenselect_cut(void *state, int64_t n, bool own_stays);
sac_status sac_tokenselect_forget(void *state, const sac_layer_attention *a);
sac_status sac_tokenselect_select(void *state, const sac_layer_attention *a, sac_choice *choice);
sac_status sac_tokenselect_counted(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                                   sac_layer_stats *stats);

#endif
