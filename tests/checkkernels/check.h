/* check.h - the checker's parts: a case (arguments of one op over guarded buffers), how its outputs are
 * compared with the reference, and the list of ops. */
#ifndef SAC_CHECK_H
#define SAC_CHECK_H

#include "block_numbers.h"
#include "ops.h"

#include <stdio.h>

#define CHECK_BLOCK_TYPES N_BLOCK_DTYPES

#define CHECK_MAX_BUFFERS 24
#define CHECK_MAX_PARTS   72
#define CHECK_MAX_MANY    40

#ifdef __SANITIZE_ADDRESS__
#define CHECK_IS_SANITIZED 1 /* each touch of memory is looked at, and costs: what touches nothing else is left to other builds */
#else
#define CHECK_IS_SANITIZED 0
#endif

enum { CHECK_MAX_SEGMENTS = 40, CHECK_MAX_EXPERTS = 128 };

typedef enum check_op {
#define X(op) CHECK_##op,
    SAC_OPS(X)
#undef X
        CHECK_N_OPS
} check_op;

/* What a fill looks like. */
typedef enum check_values {
    CHECK_UNIFORM,  /* [-1, 1) */
    CHECK_OUTLIERS, /* one in fifty is a hundred times larger */
    CHECK_TINY,     /* times 1e-18: squares are subnormal */
    CHECK_TIES,     /* -1, 0 or 1 */
    CHECK_LARGE,    /* times 30 */
    CHECK_N_VALUES
} check_values;

/* Rows of bytes in memory with canaries before and after. Outputs are compared, everything else (inputs, the
 * gaps between rows, canaries) must stay as it was. */
typedef struct check_buffer {
    uint8_t *block, *data;
    size_t block_bytes;
    int64_t rows;
    size_t row_bytes, stride_bytes;
    bool sparse;           /* mapped and mostly untouched: only the rows are looked at */
    bool output, integers; /* int32 in place of F32 */
    sac_dtype dtype;       /* of the elements */
    int64_t allowed_at;    /* of an output: where its tolerances begin, in order of the buffers */
    uint8_t *start;        /* contents before a run, rows one after another */
    uint8_t *want, *got;
} check_buffer;

typedef struct check_case {
    check_op op;
    uint64_t rng;
    char text[200];
    int n_buffers;
    check_buffer buffer[CHECK_MAX_BUFFERS];
    union {
#define X(op) sac_##op##_args op;
        SAC_OPS(X)
#undef X
    };
    sac_row_lists lists; /* what args point to */
    sac_row_lists many_lists[CHECK_MAX_MANY];
    int32_t segment_start[CHECK_MAX_SEGMENTS + 1];
    sac_rotation rotation;
    sac_packed_rows parts[CHECK_MAX_PARTS];
    union {
        sac_token_store store[CHECK_MAX_MANY];
        sac_attention_args attention[CHECK_MAX_MANY];
        sac_packed_step_args packed_step[CHECK_MAX_MANY];
        sac_weight experts[CHECK_MAX_EXPERTS];
        sac_state_rows states[CHECK_MAX_MANY];
    } many;
    bool exact;      /* no tolerance: moves, conversions, table look-ups */
    bool same_bits;  /* results must not depend on the number of threads */
    bool f32_result; /* of linear, whatever the type of x: logits */
    bool exact_x;    /* of linear with quantised weights: x is multiplied as it is, not rounded to 8 bits */
    double *allowed; /* [elements of all outputs], when not exact: absolute part, from the inputs */
    double relative; /* plus this times the reference */
    sac_status reference_status;
} check_case;

uint64_t check_rand(uint64_t *state);
int64_t check_rand_int(check_case *c, int64_t min, int64_t max);
double check_rand_unit(check_case *c); /* [0, 1) */

/* A buffer of zeros; its data begin `misalign` bytes off a 64-byte line. */
void *check_buffer_add(check_case *c, bool output, sac_dtype t, int64_t rows, int64_t cols, int64_t stride,
                       size_t misalign);
/* The same over an address range of rows * stride elements, far beyond 2^31 bytes. NULL when refused. */
void *check_buffer_add_sparse(check_case *c, bool output, sac_dtype t, int64_t rows, int64_t cols,
                              int64_t stride);
void check_case_free(check_case *c);
double *check_allow(check_case *c, int64_t n); /* c->allowed, zeroed */

void check_fill(check_case *c, float *x, int64_t n, check_values v);
sac_mat check_mat(check_case *c, bool output, int64_t rows, int64_t cols, int64_t gap, size_t misalign,
                  check_values v);
/* Random stored weights of any type, sane scales. */
sac_weight check_weights(check_case *c, sac_dtype t, int64_t n, int64_t k, size_t misalign, check_values v);
/* int8 with scales of one type or another, for each row or for all, in groups that divide k and that do not, with
 * zeros or without. */
sac_weight check_int8_weights(check_case *c, int64_t n, int64_t k);
/* Of the format whose numbers are of this type, behind I8. n and k are multiples of 8. */
sac_weight check_packed_weights(check_case *c, sac_dtype t, int64_t n, int64_t k);
/* Keys and values of n_rows rows and some more, in either order of rows and heads, misaligned. Rows from
 * n_valid on are NaN, so that a look at them shows. k_norm: largest length of a key, v_max: largest value;
 * either may be NULL. */
typedef struct check_kv_shape {
    sac_dtype dtype;
    int n_heads, head_dim;
    int64_t n_rows, n_valid;
    bool output;
    check_values k, v;
    int64_t far; /* rows this many elements apart, in memory mostly untouched; 0 = next to each other */
} check_kv_shape;
sac_kv_view check_kv(check_case *c, const check_kv_shape *shape, double *k_norm, double *v_max);
/* The same keys and values in pages of so many rows, in no order and with some between them that no row is in; what
 * belongs to no row is NaN. */
sac_kv_view check_kv_pages(check_case *c, const sac_kv_view *kv, int page_rows);
/* Lists over rows [0, n_rows): every `every`-th row on average, of other lengths from list to list (one is
 * empty) when there are several. Kept in c->lists. */
const sac_row_lists *check_row_lists(check_case *c, int n_lists, int64_t n_rows, int every);
/* A table of angles for n positions, kept in c->rotation. */
const sac_rotation *check_rotation(check_case *c, int64_t n, int rot_dim, bool interleaved, float factor);
/* What `skip` of a case points to: some cases have a 0 there, some a 1. */
const int32_t *check_skip(check_case *c, int i);
double check_norm(const float *x, int64_t n); /* length of a vector that may be misaligned */
const char *check_values_name(check_values v);
const char *check_op_name(check_op op);

/* Builds case i of an op; false when there is no such case. `quick` leaves out the long ones. */
bool check_make_linear(check_case *c, int i, bool quick);
bool check_make_linear_group(check_case *c, int i, sac_dtype t); /* weights in t */
int check_n_linear_groups(void);
bool check_make_attention(check_case *c, int i, bool quick);
bool check_make_packed(check_case *c, int i, bool quick);
bool check_make_pack(check_case *c, int i, bool quick); /* pack_channels, pack_rows */
bool check_make_unpack(check_case *c, int i);           /* unpack_rows; pack_rows behind other rows */
bool check_make_even(check_case *c, int i); /* even_factors, pack_even, unpack_even */
/* even_step, the tail in t. */
bool check_make_even_step(check_case *c, int i, sac_dtype t);
int check_n_even_steps(void);
bool check_make_packed_scores(check_case *c, int i);
bool check_make_packed_vote(check_case *c, int i, bool quick);
/* packed_step, the tail in t. */
bool check_make_packed_step(check_case *c, int i, sac_dtype t);
int check_n_packed_steps(void);
/* store_many, attention_many; packed_step_many. */
bool check_make_many(check_case *c, int i);
bool check_make_many_of(check_case *c, int i, sac_dtype t);
int check_n_many(void);
bool check_make_packed_many(check_case *c, int i, sac_dtype t);
int check_n_packed_many(void);
void check_allow_scores(check_case *c, int64_t n_rows, double k_norm); /* of key_scores */
bool check_make_keys(check_case *c, int i, bool quick);    /* key_scores, attention_sums, kv_gather */
bool check_make_select(check_case *c, int i, bool quick);  /* those of cases_select.c */
bool check_make_softmax(check_case *c, int i, bool quick); /* softmax, soft_vote */
bool check_make_step(check_case *c, int i, bool quick);    /* those of cases_step.c */
bool check_make_reuse(check_case *c, int i);               /* choice_reuse */
bool check_make_keep(check_case *c, int i);                /* those of cases_keep.c */
bool check_make_pattern(check_case *c, int i);             /* pattern_rows */
bool check_make_blocks(check_case *c, int i, bool quick);  /* those of cases_blocks.c */
bool check_make_experts(check_case *c, int i);             /* route, expert_linear, mix_rows */
bool check_make_states(check_case *c, int i);              /* causal_conv, delta_rule */
bool check_make_scores(check_case *c, int i, bool quick);  /* edit_scores, weigh_scores */
/* expert_linear on 16-byte lines, weights in t. */
bool check_make_expert_product(check_case *c, int i, sac_dtype t);
int check_n_expert_products(void);
bool check_make_pages(check_case *c, int i, bool quick);   /* those of cases_pages.c */
bool check_make_rows(check_case *c, int i, bool quick);    /* every other op, by c->op */

typedef struct check_attention_shape {
    int64_t n_batch, n_q, n_kv, first; /* first -1: the queries are the last keys */
    int n_heads, n_kv_heads, head_dim;
    bool causal, slow;
    int64_t window;
    int list; /* keys by a list: every list-th row on average */
} check_attention_shape;
typedef struct check_attention_extra {
    int n_lists; /* 0 = 1 */
    bool lse;
    bool wide;          /* rows of q and o on 16-byte lines */
    int64_t far;        /* keys and values this many elements apart, 0 = next to each other */
    bool own;           /* batches of n_q queries, each with n_kv keys of its own */
    int64_t list_block; /* queries that share n_lists lists; 0 = all */
    bool uneven;        /* lists are so */
    const sac_row_span *spans; /* n_spans of them */
    int64_t n_spans;
    float softcap;
    int page_rows;      /* keys and values in pages of so many rows; 0 = not */
    const int
        *segments; /* lengths of problems of their own, up to a -1; the shape's n_batch is 1, and its n_q
                            and n_kv are the longest */
} check_attention_extra;
bool check_make_attention_of(check_case *c, const check_attention_shape *sh, sac_dtype t,
                             const check_attention_extra *x);
enum { CHECK_STEP_SHAPES = 13, CHECK_FEW_STEPS = 10 /* of gate_up_step, after those */ };
/* Case i with weights and rows in t. */
bool check_make_step_of(check_case *c, int i, sac_dtype t);
/* gate_up_step of so many tokens: n channels of k. */
void check_make_gates(check_case *c, int64_t rows, int64_t n, int64_t k, sac_dtype t);
/* What out_step has beside its weights, of o so many columns; results in order: x, wide. */
void check_make_out_rows(check_case *c, int64_t rows, int64_t hidden, int64_t k, int64_t wide, bool bias);
bool check_make_linear_of(check_case *c, int64_t m, int64_t n, int64_t k, sac_dtype t);

/* Calls the op of the case out of a table. */
sac_status check_call(const sac_ops *t, const sac_stream *s, check_case *c);

/* The contents before a run; the reference keeps them, too. */
void check_keep_start(check_case *c);

/* Runs the reference: fills want and allowed. */
void check_reference(check_case *c, const sac_stream *s);

typedef struct check_result {
    double worst;   /* largest difference / allowed */
    int64_t n_bad;  /* elements out of tolerance */
    int64_t n_nan;  /* NaN or Inf where the reference is finite */
    char text[160]; /* the first thing wrong, or "" */
} check_result;

/* Runs the op from the starting contents and compares everything. got keeps the bits. */
void check_run(check_case *c, const sac_ops *t, const sac_stream *s, check_result *r);
/* The same for the reference, of what check_reference has just left. */
void check_reference_run(check_case *c, check_result *r);
bool check_same_bits(check_case *c, const sac_ops *t, const sac_stream *s); /* as the last check_run */

bool check_is_wanted(const check_case *c); /* the last check_run had the reference's bits */

/* What must hold of an op's results whatever the reference says; returns how often it does not, with the
 * first of these in text. */
int check_properties(check_op op, const sac_ops *t, const sac_stream *s, uint64_t seed, char text[160]);

double check_element(sac_dtype t, const uint8_t *p, int64_t i);
/* The same of a buffer's own type, integers included. */
double check_number(const check_buffer *b, const uint8_t *p, int64_t i);
uint8_t check_canary(size_t i);
size_t check_extent(const check_buffer *b); /* bytes from the first row to the end of the last */

/* Planted faults: wrong on purpose, must be caught. */
typedef struct check_fault {
    const char *name;
    check_op op;
    void (*plant)(sac_ops *t);
} check_fault;
typedef struct check_fault_list {
    const check_fault *all;
    int n;
} check_fault_list;
extern const check_fault_list check_faults_layers, check_faults_packed, check_faults_choices,
    check_faults_skip, check_faults_experts, check_faults_states, check_faults_scores;

/* Speed: the rows of the table. */
int check_bench(const char *op, const char *variant, bool csv, int n_threads);

/* The same for a CUDA device (built with SAC_CUDA): compare or, with `bench`, time. */
typedef struct check_options {
    const char *op, *variant;
    const char *weights; /* on a card: cases of weights of this type whose scales lie apart, and no planted faults; NULL: all */
    uint64_t seed;
    bool quick, small, racecheck, races, bench, csv, verbose;
    int n_threads;
    int part, n_parts; /* on a card and for races: every n_parts-th case, from this one on */
} check_options;
int check_cuda(const check_options *o);

/* Case i of an op, on a fresh seed; false when there is no such case, no buffers when it is left out. */
bool check_make(check_case *c, check_op op, int i, const check_options *o);

/* A stream with its own pool. */
typedef struct check_stream {
    sac_arena arena;
    sac_stream s;
} check_stream;
bool check_stream_open(check_stream *cs, int n_threads);
void check_stream_free(check_stream *cs);

typedef struct check_variant {
    const char *name;
    unsigned flags;
} check_variant;
/* Levels of this machine, "ref" first; returns their number. */
int check_variants(check_variant v[8]);

#endif
