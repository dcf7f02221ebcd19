/* sparse.h - attention as a choice: which queries meet which keys in prefill, which stored rows a decode step
 * reads.
 *
 * A policy chooses rows; the shared attention op reads them. One file a method, one line in policies.c.
 * `dense` reads everything and is the oracle for the others: every method's off-value takes its path and
 * gives its bits.
 *
 * Rows and positions. A layer's keys and values lie in rows 0 .. n - 1 of its view, stored after rope. As
 * long as nothing was dropped, row and position are the same number; a method that needs keys without their
 * rotation, or at other positions, turns them back by their position (sac_rotation). After a method has
 * dropped rows (`settle`, `keep`) a layer holds fewer rows than the sequence has tokens, and heads may hold
 * different ones. Every row stored before a query is seen by it, so the order of earlier rows is immaterial;
 * a method that reorders them keeps their positions itself (H2O, ADORE).
 *
 * Memory. A method's state is a struct of state_bytes, zeroed, whose blocks `take` gets out of the session's
 * arena. `take` runs twice, first with a measuring arena (pointers are then NULL), so it must only take.
 *
 * Devices. A method with `take_device` runs on a device too: what ops read and write comes from the arena
 * given there, what the method itself looks at stays on the host, and sac_to_device and sac_to_host carry it
 * over. */
#ifndef SAC_SPARSE_H
#define SAC_SPARSE_H

#include "method.h"
#include "ops.h"

typedef struct sac_decode sac_decode;
typedef struct sac_window_sums sac_window_sums; /* window_sums.h */

/* What a method may know of the model and the session when it is set up. */
typedef struct sac_attention_shape {
    int n_layers, n_heads, n_kv_heads, head_dim, hidden;
    int64_t n_ctx, chunk; /* tokens of the session; rows of a linear layer at a time */
    int64_t max_position; /* trained length */
    int64_t window;       /* the model's own sliding window, 0 = none */
    bool measure_mass;    /* room to compare choices with dense attention */
    bool
        fixed_rotation; /* a key is turned by its row alone; false: frequencies change with the length, or rows
                             have numbers of their own, and no key can be turned back or moved */
    const struct sac_controller *controller; /* the model's for ADORE, or NULL */
    const sac_device *device;                /* where queries, keys and values are; NULL: the CPU */
    sac_dtype dtype;                         /* of queries */
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
typedef struct sac_visual_span {
    int64_t first, n;
} sac_visual_span;

/* Who wants to see which tokens a layer kept (positions, ascending); NULL fn = nobody. */
typedef struct sac_kept_observer {
    void (*fn)(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens);
    void *ctx;
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
    void (*take)(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena);
    void (*take_device)(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena);
    void (*begin)(void *state); /* a new sequence */
    sac_status (*attend)(void *state, const sac_layer_attention *a);
    /* Whether it chooses by a few queries and lets only those of chosen tokens attend, so that the others
     * need not be made and have no output (make_queries, attended). NULL: it reads all queries. */
    bool (*picks_queries)(const double *p);
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

/* Room for keys and values that are read at other positions than they were stored for. */
typedef struct sac_choice_scratch {
    float *k, *v;       /* [n_kv_heads][capacity][head_dim]; on a device in the cache's type, there */
    int32_t *turn_back; /* [capacity] on the host */
    int64_t capacity;
    int32_t *device_turn, *device_turn_keys; /* [capacity]; of keys as choice_rows gives it */
    int64_t *device_start;                   /* [2] */
    int64_t sent, n_turn_sent;               /* what device_start[1] is; turns of device_turn */
    sac_kv_view view;                        /* of what was gathered on a device */
} sac_choice_scratch;

/* The rows that a step reads. */
typedef struct sac_choice {
    bool all;
    sac_row_lists lists;         /* when not all; on a device its rows are there, its start is on the host */
    const int64_t *device_start; /* and there, when not compact */
    double n_chosen; /* rows chosen, summed over query heads, where heads read what others chose; 0 = those
                        of the lists */
    bool compact;    /* keys are read at positions 0, 1 .. of their list, the query at its last: n_lists is 1,
                        and the query's own row is the last */
    sac_choice_scratch *scratch; /* when compact: the method's, of the list's length or more */
    /* A part of a compact list that is read where it stood in the whole one: the places of its rows there,
     * the query's, and which of these rows (numbers in the part) each head reads. NULL: the whole list. */
    const int32_t *place;
    int64_t query_place;
    sac_row_lists within;
    /* On a device: the rows as `compact` would read them, keys turned to their places, and the query turned
     * to its own already. NULL: not gathered yet. */
    const sac_kv_view *gathered;
    /* What `gathered` lacks: the last rows of a choice that was kept, and the query is not turned. NULL:
     * nothing. */
    const sac_choice_step_args *rest;
    /* Asked for by whoever cuts the choice down: the rows themselves in lists, and, when compact on a device,
     * their turns in scratch->device_turn_keys. */
    bool wants_rows;
    /* Only the device knows how long the lists are: lists.start is NULL, rows are counted there (`counted`),
     * and when gathered they are places. */
    bool counted_there;
} sac_choice;

typedef struct sac_decode_policy {
    const char *name, *source;
    const sac_method_param *params;
    size_t state_bytes;
    sac_status (*check)(const double *p, const sac_attention_shape *shape, sac_error *err);
    bool (*is_off)(const double *p, const sac_attention_shape *shape);
    void (*take)(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena);
    void (*take_device)(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena);
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
    /* Over another policy, its setting "base": the instance whose choices it refines; and whether it can. */
    void (*wrap)(void *state, sac_decode *base);
    sac_status (*check_base)(const double *p, const sac_decode *base, const sac_attention_shape *shape,
                             sac_error *err);
    /* Adds to the stats [n_layers] what steps counted on a device since it was last asked; waits for it.
     * NULL: all is counted here. */
    sac_status (*counted)(void *state, const sac_attention_shape *shape, const sac_stream *stream,
                          sac_layer_stats *stats);
    /* Reads keys at other positions than they were stored for, and takes row numbers for positions: not after
     * a prefill method that drops tokens. */
    bool turns_keys;
    /* As of prefill policies: it keeps a row of every token, and what else it keeps of the first n depends on
     * these alone. `cut` forgets all that came after; NULL: nothing to forget. */
    bool keeps_prefix;
    void (*cut)(void *state, int64_t n);
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
 * their blocks come out of the arenas given to _take (measuring ones for the plan). */
sac_status sac_prefill_open(sac_prefill *m, const char *line, const sac_attention_shape *shape,
                            sac_error *err);
sac_status sac_decode_open(sac_decode *m, const char *line, const sac_attention_shape *shape, sac_error *err);
void sac_prefill_take(sac_prefill *m, const sac_attention_shape *shape, sac_arena *arena, sac_arena *device);
void sac_decode_take(sac_decode *m, const sac_attention_shape *shape, sac_arena *arena, sac_arena *device);
void sac_prefill_free(sac_prefill *m);
void sac_decode_free(sac_decode *m);
void sac_decode_begin(sac_decode *m);
bool sac_decode_keeps_prefix(const sac_decode *m); /* and its base */
void sac_decode_cut(sac_decode *m, int64_t n);
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
    X(zipcache)                                                                                              \
    X(zipvl)
#define SAC_DECODE_POLICIES(X)                                                                               \
    X(dense)                                                                                                 \
    X(adore)                                                                                                 \
    X(doublesparse)                                                                                          \
    X(h2o)                                                                                                   \
    X(infllm)                                                                                                \
    X(quest)                                                                                                 \
    X(selfextend)                                                                                            \
    X(snapkv)                                                                                                \
    X(streaming)                                                                                             \
    X(tokenselect)                                                                                           \
    X(twilight)

#define X(name) extern const sac_prefill_policy sac_prefill_##name;
SAC_PREFILL_POLICIES(X)
#undef X
#define X(name) extern const sac_decode_policy sac_decode_##name;
SAC_DECODE_POLICIES(X)
#undef X

/* Their names for help texts, NULL-terminated. */
const char *const *sac_prefill_policy_names(void);
const char *const *sac_decode_policy_names(void);

/* ---------------------------------------------------------------- shared parts of methods */

/* Causal attention of queries [first, first + n) over all rows up to theirs. */
sac_status sac_attend_dense(const sac_layer_attention *a, int64_t first, int64_t n);

/* What a step of the policy `dense` asks of the attention op, counted as if it were done: for those who do
 * the steps of several sequences in one go. */
sac_attention_args sac_dense_step(const sac_layer_attention *a);

/* Queries [first, first + n) as a prompt of their own, after all that precedes them. */
sac_layer_attention sac_prompt_chunk(const sac_layer_attention *a, int64_t first, int64_t n);

/* A prefill that is dense after all, counted as such; queries that have not been made are. */
sac_status sac_attend_prompt_dense(const sac_layer_attention *a);

/* What a prefill method did instead of dense attention: n_kept tokens took part, n_pairs query heads met
 * keys. */
void sac_count_prefill(const sac_layer_attention *a, double n_kept, double n_pairs);

/* A step of a method with an attention of its own, which read n_rows rows for each head. */
void sac_count_step(const sac_layer_attention *a, double n_rows);

void sac_choice_scratch_take(sac_choice_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                             sac_arena *arena);

/* The part of it on a device; keys there are at most f32. */
void sac_choice_scratch_take_device(sac_choice_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                                    sac_arena *arena);

/* Between what a method keeps on the host and its copy on the device; nothing where they are one. The second
 * waits for the device. */
sac_status sac_to_device(const sac_layer_attention *a, void *device, const void *host, size_t n_bytes);
sac_status sac_to_host(const sac_layer_attention *a, void *host, const void *device, size_t n_bytes);

/* Queries q, at `position`, over a list of rows as if these tokens were all there ever was: token i of the
 * list stands at position i, the queries at the last positions. The queries' own rows end the list. On a
 * device the list's rows are there and s->device_turn_keys has how far each lies from its place; its start is
 * on the host. */
sac_status sac_attend_compact(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                              const sac_row_lists *list, sac_choice_scratch *s);

/* On a device: the rows of a compact choice to their places, keys turned back and the query too, as
 * `gathered` says. Nothing when they are there. */
sac_status sac_gather_choice(const sac_layer_attention *a, sac_choice *choice);

/* A decode step over a choice. */
sac_status sac_attend_choice(const sac_layer_attention *a, const sac_choice *choice);

/* Whether a prompt that makes the sequence n_seen tokens long is read densely, because it is short. */
bool sac_prefill_is_short(const sac_prefill *m, int64_t n_seen);

/* Runs a method on a layer, and counts. */
sac_status sac_prefill_attend(sac_prefill *m, const sac_layer_attention *a);
/* After that: what the method says of the layer's tokens. */
sac_important sac_prefill_important(const sac_prefill *m);
sac_status sac_decode_attend(sac_decode *m, const sac_layer_attention *a, float *mass_scratch);

/* Share of dense attention's weight that a step's choice holds, added to the stats: mean over query heads.
 * Nothing where rows were dropped: what these would weigh is not known. scratch: [n_heads][n_ctx]. */
void sac_count_prefill_mass(const sac_layer_attention *a, double share);
void sac_count_decode_mass(const sac_layer_attention *a, double share);
sac_status sac_measure_mass(const sac_layer_attention *a, const sac_choice *choice, float *scratch);

/* Room for a part of a prompt. */
typedef struct sac_part_scratch {
    void *q;                  /* [n_ctx][n_heads * head_dim], where ops run, as are k, v and zeros */
    void *k, *v;              /* [n_kv_heads][n_ctx][head_dim], in the queries' type as they are */
    float *zeros;             /* [n_heads * head_dim] */
    int32_t *rows;            /* [n_ctx] on the host */
    struct {                  /* where ops run */
        int32_t *part, *rows; /* [n_ctx] */
        int64_t *start;       /* [2] */
    } there;
} sac_part_scratch;

void sac_part_scratch_take(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena);
void sac_part_scratch_take_device(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena);

/* Two-sided sparse prefill: the queries of the part (ascending, counted from the first query) meet the rows
 * before the prompt and each other's, in order; the outputs of all other queries are zeros. Not with a
 * sliding window. */
sac_status sac_attend_part(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                           sac_part_scratch *s);

/* One head's row to another place of the same view. */
void sac_move_row(const sac_kv_view *kv, int head, int64_t from, int64_t to);

/* Moves the rows of the lists (one for all heads or one a head, ascending, equally long) together to the
 * front of the view, for `settle`; how many they are. For methods of the CPU: others have the op. */
int64_t sac_keep_rows(const sac_kv_view *kv, const sac_row_lists *lists);

/* Random number i of a stream that seed, layer and request name: counter-based, so order of use is
 * immaterial. */
uint32_t sac_random_u32(uint64_t seed, uint64_t stream, uint64_t i);

#endif
