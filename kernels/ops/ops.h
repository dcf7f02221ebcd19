/* ops.h - the op table: every computation on tensors, one args struct an op (op_<name>.h holds it
 * and its contract), one table a backend.
 *
 * kernels/ref holds the contract in plain C: double accumulation, asserts for preconditions, written to be
 * read. kernels/cpu fills in what it does better for the processor at hand, weakest instruction set first.
 * tests/checkkernels runs every variant against the reference. Ops never allocate: scratch comes with the
 * stream. Unless an op says so, outputs may not alias inputs. Activations are sac_mat (F32 on the CPU; F32,
 * F16 or BF16 on a CUDA device), weights sac_weight in the format they are stored in, norms and biases f32
 * vectors.
 *
 * On a device every pointer to numbers points to its memory, row lists and their starts included; the structs
 * themselves are on the host. An op that has no kernel for its arguments' types answers UNSUPPORTED.
 *
 * An op with `skip` does nothing where the number that this points to (in the device's memory) is not 0 by
 * the time that its turn comes: so a device decides what the host has asked for already. */
#ifndef SAC_OPS_H
#define SAC_OPS_H

#include "op_antidiagonal_sums.h"
#include "op_attention.h"
#include "op_attention_many.h"
#include "op_attention_sums.h"
#include "op_blend_rows.h"
#include "op_block_attention.h"
#include "op_causal_conv.h"
#include "op_channel_sums.h"
#include "op_choice_attend.h"
#include "op_choice_reuse.h"
#include "op_choice_rows.h"
#include "op_choice_step.h"
#include "op_convert_rows.h"
#include "op_cover_blocks.h"
#include "op_delta_rule.h"
#include "op_edit_scores.h"
#include "op_embed.h"
#include "op_even_factors.h"
#include "op_even_step.h"
#include "op_evict_row.h"
#include "op_expert_linear.h"
#include "op_gate_up_step.h"
#include "op_gather_rows.h"
#include "op_join_attention.h"
#include "op_keep_rows.h"
#include "op_kept_rows.h"
#include "op_key_scores.h"
#include "op_kv_gather.h"
#include "op_kv_store.h"
#include "op_largest.h"
#include "op_layernorm.h"
#include "op_linear.h"
#include "op_linear_group.h"
#include "op_mask_scores.h"
#include "op_mean_rows.h"
#include "op_mix_rows.h"
#include "op_out_step.h"
#include "op_pack_channels.h"
#include "op_pack_even.h"
#include "op_pack_rows.h"
#include "op_packed_attention.h"
#include "op_packed_scores.h"
#include "op_packed_step.h"
#include "op_packed_step_many.h"
#include "op_packed_vote.h"
#include "op_page_bounds.h"
#include "op_page_scores.h"
#include "op_patchify.h"
#include "op_pattern_rows.h"
#include "op_pick_channels.h"
#include "op_pool_tokens.h"
#include "op_qkv_step.h"
#include "op_rmsnorm.h"
#include "op_rope.h"
#include "op_route.h"
#include "op_scale_add.h"
#include "op_scatter_rows.h"
#include "op_soft_vote.h"
#include "op_softmax.h"
#include "op_store_many.h"
#include "op_swiglu.h"
#include "op_top_k.h"
#include "op_top_p.h"
#include "op_unpack_even.h"
#include "op_unpack_rows.h"
#include "op_weigh_scores.h"
#include "skip.h"

/* Name of every op: the table, its names and the checker come from this list. */
#define SAC_OPS(X)                                                                                           \
    X(linear)                                                                                                \
    X(embed)                                                                                                 \
    X(rmsnorm)                                                                                               \
    X(layernorm)                                                                                             \
    X(rope)                                                                                                  \
    X(swiglu)                                                                                                \
    X(kv_store)                                                                                              \
    X(attention)                                                                                             \
    X(key_scores)                                                                                            \
    X(attention_sums)                                                                                        \
    X(kv_gather)                                                                                             \
    X(top_k)                                                                                                 \
    X(top_p)                                                                                                 \
    X(patchify)                                                                                              \
    X(pool_tokens)                                                                                           \
    X(blend_rows)                                                                                            \
    X(scale_add)                                                                                             \
    X(gather_rows)                                                                                           \
    X(scatter_rows)                                                                                          \
    X(convert_rows)                                                                                          \
    X(packed_attention)                                                                                      \
    X(pack_channels)                                                                                         \
    X(pack_rows)                                                                                             \
    X(packed_step)                                                                                           \
    X(store_many)                                                                                            \
    X(attention_many)                                                                                        \
    X(packed_step_many)                                                                                      \
    X(packed_scores)                                                                                         \
    X(packed_vote)                                                                                           \
    X(mask_scores)                                                                                           \
    X(kept_rows)                                                                                             \
    X(softmax)                                                                                               \
    X(soft_vote)                                                                                             \
    X(mean_rows)                                                                                             \
    X(choice_rows)                                                                                           \
    X(choice_reuse)                                                                                          \
    X(choice_step)                                                                                           \
    X(choice_attend)                                                                                         \
    X(keep_rows)                                                                                             \
    X(evict_row)                                                                                             \
    X(pattern_rows)                                                                                          \
    X(antidiagonal_sums)                                                                                     \
    X(block_attention)                                                                                       \
    X(cover_blocks)                                                                                          \
    X(page_bounds)                                                                                           \
    X(page_scores)                                                                                           \
    X(channel_sums)                                                                                          \
    X(pick_channels)                                                                                         \
    X(join_attention)                                                                                        \
    X(qkv_step)                                                                                              \
    X(gate_up_step)                                                                                          \
    X(linear_group)                                                                                          \
    X(route)                                                                                                 \
    X(expert_linear)                                                                                         \
    X(mix_rows)                                                                                              \
    X(unpack_rows)                                                                                           \
    X(causal_conv)                                                                                           \
    X(delta_rule)                                                                                            \
    X(largest)                                                                                               \
    X(edit_scores)                                                                                           \
    X(weigh_scores)                                                                                          \
    X(out_step)                                                                                              \
    X(even_factors)                                                                                          \
    X(pack_even)                                                                                             \
    X(unpack_even)                                                                                           \
    X(even_step)

typedef struct sac_ops {
    const char *backend; /* "ref", "cpu", "cuda" */
#define X(op) sac_status (*op)(const sac_stream *s, const sac_##op##_args *a);
    SAC_OPS(X)
#undef X
    bool fuses; /* qkv_step, gate_up_step, out_step, store_many, packed_step and even_step gain over what they join; else
                   they are only the contract, with other roundings than those ops */
    /* Shared scratch that linear needs for up to m rows of k elements; attention's need is part of the thread
     * scratch. */
    size_t (*linear_scratch_bytes)(int64_t m, int64_t k);
} sac_ops;

/* What a program over ops may ask of a device's ops before it plans its memory. */
typedef struct sac_ops_traits {
    int64_t queries_at_once;  /* of a prompt: as many keep them busy */
    int64_t chunks_at_once;   /* of a prompt's queries, each with keys of its own: 1 keeps them busy */
    int64_t query_step;       /* attention plans for every number of queries anew, which takes long: numbers
                                 that may be rounded up should be multiples of this */
    int64_t pattern_rows_max; /* most n_rows of pattern_rows */
    bool shares_lists;        /* attention of many queries gains by one list for all heads */
    bool reads_blocks;        /* block_attention gains over attention with row lists, where it takes the call */
    bool reads_apart;         /* choice_attend gains over one view of all */
    bool shares_sums; /* to pass attention_sums on between methods takes less than to find them again */
} sac_ops_traits;

/* d NULL: the CPU's. */
const sac_ops_traits *sac_ops_traits_of(const sac_device *d);

void sac_ops_init_ref(sac_ops *t); /* fills every slot */
void sac_ops_init_cpu(sac_ops *t,
                      unsigned cpu_flags);       /* ref first, then weakest to strongest instruction set */
void sac_ops_init_cuda(sac_ops *t, int compute); /* builds with SAC_CUDA only; `compute` as in sac_device */

/* Scratch that a device's stream should have for its ops. */
size_t sac_ops_scratch_bytes(const sac_device *d);

/* UNSUPPORTED, with what to install, where ops of this device lack a library. */
sac_status sac_ops_check(const sac_device *d, sac_error *err);

/* The table for a stream's device, and what its ops keep beside the stream. Close before the stream. */
sac_status sac_ops_open(sac_ops *t, sac_stream *s, sac_error *err);
void sac_ops_close(sac_stream *s);

#endif
