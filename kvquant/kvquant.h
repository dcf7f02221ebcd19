/* kvquant.h - how keys and values are stored. One file a format, one line in formats.c.
 *
 * A plain format rounds every element to a float type, and attention reads its rows where they lie. A packed
 * format keeps rows of finished prompts and old answers in few bits. The layer that a prefill works on is
 * then held in a staging area of plain rows, shared by all layers: earlier rows are unpacked into it, the
 * prompt's own are added, and once the layer's attention is done they are packed (`seal`). New tokens of an
 * answer go to a plain tail of each layer; a step attends over packed rows and tail (`attend`), and the
 * format seals the tail when it is full. */
#ifndef SAC_KVQUANT_H
#define SAC_KVQUANT_H

#include "page_pool.h"
#include "policy.h"

/* Of packed rows in pages: those of a layer lie from the beginning of a plane on, one behind another, and what the host keeps of them
 * says where. */
typedef struct sac_kv_in_planes {
    void (*use)(void *state, const sac_page_planes *planes); /* before `take`, which takes no memory for rows then */
    size_t (*most)(const void *state);                       /* bytes that a layer ever takes; once `take` has measured */
    size_t (*used)(const void *state, int layer);            /* by packed rows, from the plane's beginning on */
    /* Bytes that n more rows of a layer take at most, those of the tail among them, be they a prompt's or steps'; layer -1: of one that has
     * none. */
    size_t (*room)(const void *state, int layer, int64_t n);
    bool by_layer; /* whether room depends on the layer */
} sac_kv_in_planes;

typedef struct sac_kv_packing {
    size_t state_bytes;
    sac_status (*check)(const double *p, const sac_attention_shape *shape, sac_error *err);
    /* Whether these settings mean that nothing is ever packed; the session then stores f16. */
    bool (*is_off)(const double *p, const sac_attention_shape *shape);
    /* Whether rows are dropped, so that later ones no longer lie at their positions. NULL: never. */
    bool (*drops_rows)(const double *p);
    /* Whether keys are turned by their rows' numbers, which must be their positions. NULL: never. */
    bool (*turns_keys)(const double *p);
    /* Its blocks, as of policies (policy.h). */
    void (*take)(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory);
    void (*begin)(void *state); /* nothing is stored any more */
    /* After a layer of prefill: packs rows [first, first + n_old + n_new) of the staging area a->kv, of which
     * n_old were the tail; all earlier ones are packed already. The last *n_left of them, fewer than
     * n_tail_max, stay plain and become the tail (the format may round them in the staging area). `important`
     * is counted from the first new row. */
    sac_status (*seal)(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left);
    /* All packed rows of a layer back to rows 0 .. of a->kv, in order; their number to *n. Of a, the layer,
     * the view, the shape and what ops run with are filled in. */
    sac_status (*unpack)(void *state, const sac_layer_attention *a, int64_t *n);
    /* A step: a->kv is the tail (its last row the step's own), a->q is replaced by the output over packed
     * rows and tail. Says in *n_tail how many tail rows are left, its first ones. */
    sac_status (*attend)(void *state, const sac_layer_attention *a, int64_t *n_tail);
    /* On a device: a step of which `attend` would be no more than the op packed_step, and which leaves all of
     * the tail: its arguments, counted as if it were done. False: attend has more to do. NULL: always. */
    bool (*step)(void *state, const sac_layer_attention *a, sac_packed_step_args *args);
    int64_t (*n_tail_max)(const double *p); /* rows of a tail */
    /* Bytes of a layer's packed rows, metadata counted. */
    size_t (*bytes)(const void *state, int layer);
    const sac_kv_in_planes *in_planes; /* without pages packed rows are in memory that `take` takes */
} sac_kv_packing;

typedef struct sac_kv_format {
    const char *name;   /* "f16" */
    const char *source; /* paper, or what it is */
    sac_dtype dtype;    /* of plain rows: of the cache, or of staging area and tail */
    const sac_method_param *params;
    const sac_kv_packing *packing; /* NULL: plain */
} sac_kv_format;

/* Every format: one line each. */
#define SAC_KV_FORMATS(X)                                                                                    \
    X(f32)                                                                                                   \
    X(f16)                                                                                                   \
    X(bf16)                                                                                                  \
    X(mixed)                                                                                                 \
    X(zipcache)                                                                                              \
    X(kivi)                                                                                                  \
    X(kvarn)                                                                                                 \
    X(int4)

#define X(name) extern const sac_kv_format sac_kv_##name;
SAC_KV_FORMATS(X)
#undef X

/* A format with its settings, from a line "name:key=value,...". */
typedef struct sac_kv_choice {
    const sac_kv_format *format;
    double p[SAC_METHOD_MAX_PARAMS];
} sac_kv_choice;

sac_status sac_kv_choice_parse(sac_kv_choice *c, const char *line, const sac_attention_shape *shape,
                               sac_error *err);

/* Names for help texts, NULL-terminated. */
const char *const *sac_kv_format_names(void);

#endif
