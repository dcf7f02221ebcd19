/* cuda_ops.h - the slots of the CUDA backend and what stands beside its streams. Plain C.
 *
 * Matrices are in F32, F16 or BF16; sums are in f32. An op that has no kernel for its arguments answers
 * UNSUPPORTED before it starts anything. Every argument that points to numbers points to the device; the args
 * structs themselves (and the row lists and rotations that they point to) are on the host. */
#ifndef SAC_KERNELS_CUDA_OPS_H
#define SAC_KERNELS_CUDA_OPS_H

/* Scratch that a CUDA stream should have: library workspace, partial results of split work. Zeroed once, when
 * the stream is made; kernels that count their blocks leave their counters at zero. */
#define SAC_CUDA_SCRATCH_BYTES ((size_t)128 << 20)

#ifdef __cplusplus
extern "C" {
#endif
#include "ops.h"

#define X(op) sac_status sac_cuda_##op(const sac_stream *s, const sac_##op##_args *a);
SAC_OPS(X)
#undef X

/* The parts between which linear, attention, packed_step and even_step choose; each answers UNSUPPORTED where it does
 * not fit. */
sac_status sac_cuda_linear_any(const sac_stream *s, const sac_linear_args *a);
sac_status sac_cuda_linear_lt(const sac_stream *s, const sac_linear_args *a);
sac_status sac_cuda_linear_gemv(const sac_stream *s, const sac_linear_args *a);
sac_status sac_cuda_linear_blocks(const sac_stream *s, const sac_linear_args *a);
sac_status sac_cuda_linear_unpacked(const sac_stream *s, const sac_linear_args *a);
sac_status sac_cuda_attention_any(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_decode(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_hopper(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_hopper_long(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_spread(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_lists(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_uneven(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_attention_flash(const sac_stream *s, const sac_attention_args *a);
sac_status sac_cuda_packed_step_any(const sac_stream *s, const sac_packed_step_args *a);
sac_status sac_cuda_packed_step_mma(const sac_stream *s, const sac_packed_step_args *a);
sac_status sac_cuda_even_step_any(const sac_stream *s, const sac_even_step_args *a);
sac_status sac_cuda_even_step_mma(const sac_stream *s, const sac_even_step_args *a);
sac_status sac_cuda_attention_cudnn(const sac_stream *s, const sac_attention_args *a);

/* Weights in GGUF's blocks, as sac_place_weight lays them out (blocks/). A group's products with an activation or a sum
 * are one part alone. */
sac_status sac_cuda_gate_up_blocks(const sac_stream *s, const sac_gate_up_step_args *a);
sac_status sac_cuda_out_blocks(const sac_stream *s, const sac_out_step_args *a);
sac_status sac_cuda_qkv_blocks(const sac_stream *s, const sac_qkv_step_args *a);
sac_status sac_cuda_linear_group_blocks(const sac_stream *s, const sac_linear_group_args *a,
                                        sac_activation act, bool accumulate);
sac_status sac_cuda_embed_blocks(const sac_stream *s, const sac_embed_args *a);

/* UNSUPPORTED, with what to install, where a library that products need is missing. */
sac_status sac_cuda_ops_check(sac_error *err);

/* Libraries' handles and plans of one stream. A missing cuDNN is no failure: `line` says what there is. */
sac_status sac_cuda_ops_open(sac_stream *s, sac_error *err);
void sac_cuda_ops_close(sac_stream *s);
const char *sac_cuda_ops_line(const sac_stream *s);      /* "cuBLASLt 13.1.0, cuDNN 9.14.0" */
const char *sac_cuda_cudnn_refusal(const sac_stream *s); /* why cuDNN last refused a shape, or "" */

#ifdef __cplusplus
}
#endif
#endif
