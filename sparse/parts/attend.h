/* attend.h - what every method shares: dense attention, attention over a choice of rows, and the counting of
 * both. */
#ifndef SAC_ATTEND_H
#define SAC_ATTEND_H

#include "policy.h"

/* A buffer's n_bytes to the device after the host, or to the host after ops: the second waits for these. */
static inline sac_status sac_send(const sac_layer_attention *a, sac_buffer b, size_t n_bytes) {
    return sac_buffer_send(a->shape->device, a->stream, b, n_bytes);
}
static inline sac_status sac_fetch(const sac_layer_attention *a, sac_buffer b, size_t n_bytes) {
    return sac_buffer_fetch(a->shape->device, a->stream, b, n_bytes);
}

/* The same for two addresses that are one on the CPU. */
static inline sac_status sac_to_device(const sac_layer_attention *a, void *device, const void *host,
                                       size_t n_bytes) {
    return !a->shape->device || device == host ? SAC_OK
                                               : a->shape->device->upload(a->stream, device, host, n_bytes);
}
static inline sac_status sac_to_host(const sac_layer_attention *a, void *host, const void *device,
                                     size_t n_bytes) {
    if (!a->shape->device) return SAC_OK;
    return sac_fetch(a, (sac_buffer){host, (void *)(uintptr_t)device}, n_bytes);
}

/* Causal attention of queries [first, first + n) over all rows up to theirs. */
sac_status sac_attend_dense(const sac_layer_attention *a, int64_t first, int64_t n);

/* Queries of a prompt that a method does at a time. */
static inline int64_t sac_queries_at_once(const sac_attention_shape *shape) {
    int64_t n = sac_ops_traits_of(shape->device)->queries_at_once;
    return n < shape->n_ctx ? n : shape->n_ctx;
}

/* Queries [first, first + n) as a prompt of their own, after all that precedes them. */
sac_layer_attention sac_prompt_chunk(const sac_layer_attention *a, int64_t first, int64_t n);

/* A prefill that is dense after all, counted as such; queries that have not been made are. */
sac_status sac_attend_prompt_dense(const sac_layer_attention *a);

/* The same of queries [first, first + n) alone, where all outputs are read (n_unread 0): on the CPU with the same bits,
 * however the queries are cut. Counted with the first of them. */
sac_status sac_attend_prompt_rows(const sac_layer_attention *a, int64_t first, int64_t n);

/* What a prefill method did instead of dense attention: n_kept tokens took part, n_pairs query heads met
 * keys. */
void sac_count_prefill(const sac_layer_attention *a, double n_kept, double n_pairs);

/* A step of a method with an attention of its own, which read n_rows rows for each head. */
void sac_count_step(const sac_layer_attention *a, double n_rows);

/* A decode step over a choice as one call of the attention op, whose args may point to `lists`: what has to
 * lie elsewhere is gathered first, and queries are turned. args->n_q 0: another op has attended already. */
sac_status sac_choice_call(const sac_layer_attention *a, const sac_choice *choice, sac_row_lists *lists,
                           sac_attention_args *args);

/* The same, done. */
sac_status sac_attend_choice(const sac_layer_attention *a, const sac_choice *choice);

#endif
