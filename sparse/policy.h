/* policy.h - attention as a choice: which queries meet which keys in prefill, which stored rows a decode step
 * reads.
 *
 * A policy chooses rows (choice.h); the shared attention op reads them. One file a method, one line in the
 * lists below; what methods share is in parts/. `dense` reads everything and is the oracle for the others:
 * every method's off-value takes its path and gives its bits.
 *
 * Rows and positions. A layer's keys and values lie in rows 0 .. n - 1 of its view, stored after rope. As
 * long as nothing was dropped, row and position are the same number; a method that needs keys without their
 * rotation, or at other positions, turns them back by their position (sac_rotation). After a method has
 * dropped rows (`settle`, `keep`) a layer holds fewer rows than the sequence has tokens, and heads may hold
 * different ones. Every row stored before a query is seen by it, so the order of earlier rows is immaterial;
 * a method that reorders them keeps their positions itself (H2O, ADORE).
 *
 * Memory. A method's state is a struct of state_bytes, zeroed, whose blocks `take` gets out of the session's
 * memory: host's, device's and buffers that both read (buffer.h). `take` runs twice, first with measuring
 * arenas (pointers are then NULL), so it must only take.
 *
 * Where it runs. A method is a program over ops and buffers and does not ask: on the CPU a buffer's two sides
 * are one. */
#ifndef SAC_POLICY_H
#define SAC_POLICY_H

#include "choice.h"
#include "method.h"

typedef struct sac_decode sac_decode;
typedef struct sac_window_sums sac_window_sums; /* window_sums.h */
typedef struct sac_mass sac_mass;               /* measure.h */

/* What a method may know of the model and the session when it is set up. */
typedef struct sac_attention_shape {
    int n_layers, n_heads, n_kv_heads, head_dim, hidden;
    int64_t n_ctx, chunk; /* tokens of the session; rows of a linear layer at a time */
    int64_t max_position; /* trained length */
    int64_t window;       /* the model's own sliding window, of all layers or of some; 0 = none */
    bool sees_spans;      /* the rows of a picture see one another (Gemma 3) */
    float softcap;        /* of scores, see sac_attention_args */
    bool measure_mass;    /* room to compare choices with dense attention */
    bool
        fixed_rotation; /* a key is turned by its row alone; false: frequencies change with the length, or rows
                             have numbers of their own, and no key can be turned back or moved */
    float rotation_factor; /* that the rotary table holds; 0: 1 */
    const struct sac_controller *controller; /* the model's for ADORE, or NULL */
    const float *head_losses; /* the model's for DuoAttention [n_layers][n_kv_heads], or NULL */
    const sac_device *device; /* where queries, keys and values are; NULL: the CPU */
    sac_dtype dtype;          /* of queries */
    sac_dtype hidden_dtype;   /* of hidden rows */
} sac_attention_shape;

/* What methods did, summed over calls, for a layer. "Dense" is what attention over everything would have
 * done. A pair is one query head meeting one key. */
typedef struct sac_layer_stats {
    double prefill_kept, prefill_tokens; /* tokens that took part in attention, of all */
    double prefill_pairs, prefill_pairs_dense;
    double decode_rows, decode_rows_dense; /* rows read, summed over key-value heads */
    double decode_budget;                  /* rows chosen, summed over query heads (before a union) */
    double prefill_mass, n_prefill_mass;   /* share of dense attention's weight that is left, where known: */
    double decode_mass, n_decode_mass;     /* of prompts, of steps; and how many shares were added */
    int64_t select_ns, attend_ns;          /* queries that a method picks are made within these */
    double n_steps;
    int64_t n_cache_hits, n_selections;
} sac_layer_stats;

/* A stretch of visual tokens of the prompt: positions [first, first + n). */
typedef sac_row_span sac_visual_span;

/* Who wants to see which tokens a layer kept (positions, ascending); NULL fn = nobody. */
typedef struct sac_kept_observer {
    void (*fn)(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);
    void *ctx;
    /* Of a step on the CPU, list by list: one for all heads, or one for each key-value or query head. tokens NULL: all. NULL =
     * nobody. */
    void (*read)(void *ctx, int layer, int list, int n_lists, const int32_t *tokens, int64_t n, int64_t n_tokens);
    void *read_ctx;
} sac_kept_observer;

/* Queries that are made when they are asked for. Of the tokens `rows` (counted from the first query,
 * ascending, where ops read them) to q's rows 0, 1 ..; rows NULL: of all tokens. */
typedef struct sac_query_maker {
    sac_status (*fn)(void *ctx, sac_mat q, const int32_t *rows);
    void *ctx;
} sac_query_maker;

/* The queries that attended, where others have no output: those of the tokens `rows` (as above), o.rows of
 * them. rows NULL: all, and their outputs are in q. */
typedef struct sac_attended {
    sac_mat o;
    const int32_t *rows;
} sac_attended;

/* One layer of a prefill or of a decode step, keys and values already stored. */
typedef struct sac_layer_attention {
    const sac_ops *ops;
    const sac_stream *stream;
    const sac_attention_shape *shape;
    int layer;
    sac_mat q; /* [n][n_heads * head_dim], rotated; the output replaces it */
    /* Only of methods that pick queries (picks_queries). fn not NULL: q is room for queries that have not
     * been made, and outputs go to attended. attended NULL: they go to q, zeros where there is none. */
    sac_query_maker make_queries;
    sac_attended *attended;
    int64_t n_unread; /* outputs of the first so many queries will not be read (a last layer): a method may
                         leave them out, and counts its work as if it had not */
    sac_kv_view kv;   /* past + n rows */
    int64_t past;     /* rows before those of the queries */
    const int32_t *position; /* [n] of the queries, ascending */
    int64_t n_before;        /* tokens of the sequence before this call's */
    int64_t n_seen;          /* tokens of the sequence, all of this call's included */
    float scale;
    int64_t window; /* of this layer; 0 = none */
    sac_rotation rotation;
    const sac_visual_span *visual;
    int n_visual;
    sac_window_sums *window_sums; /* of a prompt, shared by prefill and decode policy; or NULL */
    sac_kept_observer observer;
    sac_layer_stats *stats;
} sac_layer_attention;

/* The tokens of a layer that deserve more bits in a packed cache: one list for all heads or one for each
 * key-value head, equally long, ascending, counted from the first query. rows NULL: nobody has an opinion. */
typedef struct sac_important {
    const int32_t *rows; /* [n_lists][n] */
    int64_t n;
    int n_lists;
} sac_important;

typedef struct sac_prefill_policy {
    const char *name, *source;
    const sac_method_param *params;
    size_t state_bytes;
    /* Refuses settings that make no sense for this model. NULL: all are fine. */
    sac_status (*check)(const double *p, const sac_attention_shape *shape, sac_error *err);
    /* Whether these settings mean dense for every sequence that fits; the session then runs dense. */
    bool (*is_off)(const double *p, const sac_attention_shape *shape);
    void (*take)(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory);
    void (*begin)(void *state); /* a new sequence */
    sac_status (*attend)(void *state, const sac_layer_attention *a);
    /* Whether it chooses by a few queries and lets only those of chosen tokens attend, so that the others
     * need not be made and have no output (make_queries, attended). NULL: it reads all queries. */
    bool (*picks_queries)(const double *p);
    bool is_dense; /* every query meets every earlier key: sac_prefill_attend_rows may cut it */
    /* After attend. NULL: the method has no opinion. */
    sac_important (*important)(void *state);
    /* After a layer: the queries whose tokens later layers go on with, ascending, or NULL for all. The last
     * one is always among them. NULL: the method never drops tokens. */
    const int32_t *(*keep)(void *state, const sac_layer_attention *a, int64_t *n);
    /* Reads keys at other positions than they were stored for, and takes row numbers for positions: not with
     * a decode policy or a KV format that drops rows. */
    bool turns_keys;
    /* What it leaves of the first n tokens depends on these alone, so that another question may follow them.
     * False where it looked at a whole prompt before it chose. */
    bool keeps_prefix;
    /* The last queries of a prompt whose weights on every key it sums. NULL: none. */
    int64_t (*observes)(const double *p);
    bool observes_diagonals; /* and by distance */
    /* The length from which on it pays: sequences of fewer tokens are read densely. NULL: any. */
    int64_t (*break_even)(const double *p);
} sac_prefill_policy;

typedef struct sac_decode_policy {
    const char *name, *source;
    const sac_method_param *params;
    size_t state_bytes;
    sac_status (*check)(const double *p, const sac_attention_shape *shape, sac_error *err);
    bool (*is_off)(const double *p, const sac_attention_shape *shape);
    void (*take)(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory);
    void (*begin)(void *state);
    /* A layer of prefill, before its attention replaces the queries: learn from it. NULL: nothing to learn.
     */
    sac_status (*prompt)(void *state, const sac_layer_attention *a);
    bool prompt_without_queries;          /* and does so without reading them */
    int64_t (*observes)(const double *p); /* as of prefill policies */
    /* A step: which rows. The row of the step's own token is a->past, already stored. */
    sac_status (*select)(void *state, const sac_layer_attention *a, sac_choice *choice);
    /* In place of select and the shared attention, for methods with positions of their own (InfLLM,
     * SelfExtend, ADORE). */
    sac_status (*attend)(void *state, const sac_layer_attention *a);
    /* After the attention of a layer of prefill or of a step: may move rows of the view together; *n_left is
     * how many are left. NULL: rows are never dropped. */
    sac_status (*settle)(void *state, const sac_layer_attention *a, int64_t *n_left);
    /* Before a prefill or a step: the tokens' input embeddings, [n][hidden], for methods that look at tokens
     * and not at attention (ADORE). */
    sac_status (*inputs)(void *state, const sac_ops *ops, const sac_stream *stream, sac_mat x,
                         int64_t position);
    /* Before a step: tokens whose keys and values are to be computed again with it; their input embeddings go
     * to x [capacity][hidden], their positions, ascending, to position, their number to *n. Their rows are
     * stored after those of the cache, before the step's own; `settle` sees them and drops what it does not
     * keep. */
    sac_status (*rebuild)(void *state, const sac_ops *ops, const sac_stream *stream, sac_mat x,
                          int32_t *position, int64_t *n);
    int64_t (*max_rebuild)(const double *p); /* capacity of the above */
    /* Over another policy, its setting "base": the instance whose choices it refines. */
    void (*wrap)(void *state, sac_decode *base);
    /* And how many rows that one chooses where its line does not say; NULL: what it chooses alone. */
    int64_t (*base_budget)(const sac_attention_shape *shape);
    /* As a base: the setting that says how many rows it chooses, and the most that its others leave for it. NULL:
     * it has none; as many as there are. */
    const char *budget;
    int64_t (*most_budget)(const double *p, const sac_attention_shape *shape);
    /* As a base: whether a list may lack the step's own row, which is otherwise its last. */
    bool may_omit_own;
    /* Adds to the stats [n_layers] what ops have counted since it was last asked; waits for them. NULL: ops
     * count nothing. */
    sac_status (*counted)(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                          sac_layer_stats *stats);
    /* Reads keys at other positions than they were stored for, and takes row numbers for positions: not after
     * a prefill method that drops tokens. */
    bool turns_keys;
    /* As of prefill policies: it keeps a row of every token, and what else it keeps of the first n depends on
     * these alone. `cut` forgets all that came after; NULL: nothing to forget. own_stays: the token behind them stays in the sequence,
     * and so may what its step chose; its row is made again. */
    bool keeps_prefix;
    bool (*keeps_prefix_now)(const void *state); /* where that is a matter of settings; NULL: it is not */
    void (*cut)(void *state, int64_t n, bool own_stays);
    /* What each key-value head would lose if it read less, as the last prompt showed: [n_layers][n_kv_heads],
     * negative where it could not tell. NULL: the method does not measure that. */
    const double *(*head_losses)(const void *state);
} sac_decode_policy;

/* A policy with its settings and state, one for a session. */
typedef struct sac_prefill {
    const sac_prefill_policy *policy;
    double p[SAC_METHOD_MAX_PARAMS];
    void *state;
    bool is_short; /* the last prompt left the sequence below the policy's break-even length */
} sac_prefill;

struct sac_decode {
    const sac_decode_policy *policy;
    double p[SAC_METHOD_MAX_PARAMS];
    void *state;
    sac_decode *base; /* of a policy that wraps another, or NULL */
};

/* From a line "name:key=value,..."; an off-value gives dense. The states are the caller's, freed by _free;
 * their blocks come out of the memory given to _take (measuring arenas for the plan). */
sac_status sac_prefill_open(sac_prefill *m, const char *line, const sac_attention_shape *shape,
                            sac_error *err);
sac_status sac_decode_open(sac_decode *m, const char *line, const sac_attention_shape *shape, sac_error *err);
void sac_prefill_take(sac_prefill *m, const sac_attention_shape *shape, const sac_memory *memory);
void sac_decode_take(sac_decode *m, const sac_attention_shape *shape, const sac_memory *memory);
void sac_prefill_free(sac_prefill *m);
void sac_decode_free(sac_decode *m);
void sac_decode_begin(sac_decode *m);
bool sac_decode_keeps_prefix(const sac_decode *m); /* and its base */
void sac_decode_cut(sac_decode *m, int64_t n, bool own_stays);
/* Brings the stats [n_layers] up to date where steps are counted on a device. */
sac_status sac_decode_counted(const sac_decode *m, const sac_attention_shape *shape, const sac_stream *stream,
                              sac_layer_stats *stats);
/* The whole line, every setting of it and of its base written out. Cut at capacity. */
void sac_decode_print(const sac_decode *m, char *text, size_t capacity);

/* Every policy: one line each. */
#define SAC_PREFILL_POLICIES(X)                                                                              \
    X(dense)                                                                                                 \
    X(fastv)                                                                                                 \
    X(infllm)                                                                                                \
    X(minference)                                                                                            \
    X(selfextend)                                                                                            \
    X(streaming)                                                                                             \
    X(tokenselect)                                                                                           \
    X(xattn)                                                                                                 \
    X(zipcache)                                                                                              \
    X(zipvl)
#define SAC_DECODE_POLICIES(X)                                                                               \
    X(dense)                                                                                                 \
    X(adore)                                                                                                 \
    X(doublesparse)                                                                                          \
    X(duo)                                                                                                   \
    X(h2o)                                                                                                   \
    X(infllm)                                                                                                \
    X(pyramidkv)                                                                                             \
    X(quest)                                                                                                 \
    X(selfextend)                                                                                            \
    X(snapkv)                                                                                                \
    X(streaming)                                                                                             \
    X(tokenselect)                                                                                           \
    X(twilight)
/* Of these, those whose choices another may cut down. */
#define SAC_DECODE_BASES(X)                                                                                  \
    X(dense)                                                                                                 \
    X(quest)                                                                                                 \
    X(doublesparse)                                                                                          \
    X(tokenselect)                                                                                           \
    X(streaming)

#define X(name) extern const sac_prefill_policy sac_prefill_##name;
SAC_PREFILL_POLICIES(X)
#undef X
#define X(name) extern const sac_decode_policy sac_decode_##name;
SAC_DECODE_POLICIES(X)
#undef X

/* Their names for help texts, NULL-terminated. */
const char *const *sac_prefill_policy_names(void);
const char *const *sac_decode_policy_names(void);
extern const char *const sac_decode_base_names[];

/* Whether a prompt that makes the sequence n_seen tokens long is read densely, because it is short. */
bool sac_prefill_is_short(const sac_prefill *m, int64_t n_seen);

/* Runs a method on a layer, and counts. `mass` is read where mass is measured. */
sac_status sac_prefill_attend(sac_prefill *m, const sac_layer_attention *a);
/* The same in pieces, from the first query to the last, all of whose outputs are read (n_unread 0): with a dense policy, or one
 * that is dense for a sequence this short. Queries [first, first + n). */
bool sac_prefill_goes_by_rows(const sac_prefill *m, int64_t n_seen);
sac_status sac_prefill_attend_rows(sac_prefill *m, const sac_layer_attention *a, int64_t first, int64_t n);
sac_status sac_decode_attend(sac_decode *m, const sac_layer_attention *a, const sac_mass *mass);

/* Only what a step reads, of a policy with `select`: for those who attend for several sequences in one go. */
sac_status sac_decode_choose(sac_decode *m, const sac_layer_attention *a, sac_choice *choice);

/* After sac_prefill_attend: what the method says of the layer's tokens. */
sac_important sac_prefill_important(const sac_prefill *m);

#endif
