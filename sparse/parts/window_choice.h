/* window_choice.h - the rows of a prompt that its last queries look at: what SnapKV keeps, and by layer
 * PyramidKV.
 *
 * The last `window` queries of a prompt observe it: the softmax weights that they give to the keys before the
 * window are summed over these queries, smoothed over `kernel` neighbouring keys, and the best rows stay
 * together with the window's own. The methods differ in how many rows a layer keeps.
 *
 * Weights of a group are summed before pooling and a key-value head keeps one set. With per_head each query
 * head has its own: rows are then read by query head and none is dropped. */
#ifndef SAC_WINDOW_CHOICE_H
#define SAC_WINDOW_CHOICE_H

#include "starts.h"

/* The settings that these methods share, in this order; a method's own follow. */
enum {
    SAC_WINDOW_CAP,
    SAC_WINDOW_QUERIES,
    SAC_WINDOW_KERNEL,
    SAC_WINDOW_POOL,
    SAC_WINDOW_PER_HEAD,
    SAC_WINDOW_N_PARAMS
};

/* Values of SAC_WINDOW_POOL, and their names. */
enum { SAC_WINDOW_AVERAGE, SAC_WINDOW_MAX };
extern const char *const sac_window_pools[];

typedef struct sac_window_choice {
    int64_t window, kernel, n_ctx;
    int64_t max_kept; /* rows that any layer keeps, the window's counted */
    int pool, n_sets;
    bool per_head;
    sac_buffer sums, pooled; /* float [n_sets][rows], room for n_ctx */
    int64_t n_kept;          /* rows that the layer at hand keeps; 0: all */
    int32_t *chosen;         /* [n_sets][n_kept - window] as top_k writes it, where ops run; per head: of each
                                layer, max_kept apart */
    int32_t *rows; /* [n_sets][n_kept] of the layer at hand, where ops run; per head: [n_sets][n_ctx] of a
                      step */
    /* Per head only. */
    int64_t *n_prompt; /* [n_layers] rows that the layer held when it chose; 0 = all are read */
    int64_t *n_chosen; /* [n_layers] of these, without the observers' */
    int64_t *n_window; /* [n_layers] queries that observed */
    sac_starts starts; /* of rows */
} sac_window_choice;

/* Refuses a window that leaves no row to choose and an even kernel, in the name of the method. */
sac_status sac_window_choice_check(const char *method, const double *p, sac_error *err);

/* The policy's `is_off` (a layer keeps as many rows as a context has) and `observes`. */
bool sac_window_choice_is_off(const double *p, const sac_attention_shape *shape);
int64_t sac_window_choice_observes(const double *p);

/* The settings p, and blocks for layers that keep up to max_kept rows. */
void sac_window_choice_take(sac_window_choice *s, const double *p, int64_t max_kept,
                            const sac_attention_shape *shape, const sac_memory *memory);

/* The policy's `prompt`: chooses n_kept rows, the window's counted, for a layer that has more. */
sac_status sac_window_choice_prompt(sac_window_choice *s, const sac_layer_attention *a, int64_t n_kept);

/* Its `select`: all rows, or per head those that each head chose and all later ones. */
sac_status sac_window_choice_select(sac_window_choice *s, const sac_layer_attention *a, sac_choice *choice);

/* Its `settle`: moves the rows that were chosen together. */
sac_status sac_window_choice_settle(sac_window_choice *s, const sac_layer_attention *a, int64_t *n_left);

#endif
