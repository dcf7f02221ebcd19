/* expert_tensors.h - the experts of a layer one by one, where a checkpoint has all of them in one tensor. */
#ifndef SAC_MODELS_EXPERT_TENSORS_H
#define SAC_MODELS_EXPERT_TENSORS_H

#include "checkpoint.h"
#include "decoder.h"

/* Lists each expert's matrices under names of their own, in the place of the tensors that they are parts of:
 *
 *   X.mlp.experts.gate_up_proj [experts][2 * intermediate][hidden]   X.mlp.experts.E.gate_proj.weight, .E.up_proj.weight
 *   X.mlp.experts.down_proj    [experts][hidden][intermediate]       X.mlp.experts.E.down_proj.weight
 *   X.block_sparse_moe.input_linear.weight, .output_linear.weight (GraniteMoE)    X.block_sparse_moe.E.gate_proj.weight and so on
 *   X.ffn_gate_exps.weight, X.ffn_up_exps.weight, X.ffn_down_exps.weight (GGUF)    X.ffn_gate_exps.E.weight and so on
 *
 * The first two may have their last two dimensions exchanged (Qwen3-VL-MoE's files; as in transformers, only where the
 * shape is not the one above): those matrices are copied, turned round. BAD_FILE, with its name, for another shape, and,
 * before anything is listed, for more tensors of a kind than the model has layers. */
sac_status sac_expert_tensors_list(sac_checkpoint *c, const sac_decoder_config *d, sac_error *err);

#endif
