/* gathered.h - keys and values that are read at other positions than they were stored for: gathered side by
 * side, keys turned back by the difference; what is left is dense attention. */
#ifndef SAC_GATHERED_H
#define SAC_GATHERED_H

#include "policy.h"

/* Room for the rows of a list. */
typedef struct sac_gathered {
    void *k, *v;        /* [n_kv_heads][capacity][head_dim], where ops run; at most f32 */
    int32_t *turn_keys; /* [capacity] where ops run: how far each row of the list lies from its place, as the
                           op choice_rows writes it */
    sac_buffer turn;    /* int32_t [capacity]: how far queries are turned back */
    int64_t n_turned;   /* turns that the device has */
    int64_t capacity;
    sac_kv_view view; /* of what was gathered last */
} sac_gathered;

void sac_gathered_take(sac_gathered *s, const sac_attention_shape *shape, int64_t capacity,
                       const sac_memory *memory);

/* Room for n rows, as a view: in the cache's type, or in f32 where queries are. */
sac_kv_view sac_gathered_view(const sac_gathered *s, const sac_layer_attention *a, int64_t n);

/* The rows of a list, turned back by s->turn_keys, to s->view; the queries q, at `position`, turned to its
 * last places. The queries' own rows end the list. */
sac_status sac_gather_places(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                             const sac_choice_lists *list, sac_gathered *s);

/* The two halves of it. The queries turned; which view the rows will be in. */
sac_status sac_turn_to_places(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                              const sac_choice_lists *list, sac_gathered *s);
/* The rows; where `read` is given, at least those of its places (op_kv_gather.h). */
sac_status sac_gather_rows(const sac_layer_attention *a, const sac_choice_lists *list,
                           const sac_row_lists *read, sac_gathered *s);

/* Queries turned back by as many positions each as `back` says, where ops run. */
sac_status sac_turn_queries(const sac_layer_attention *a, sac_mat q, const int32_t *back);

#endif
