/* quantization.h - what readers of quantised checkpoints share: the keys of a "quantization_config", the modules that
 * it leaves alone, and the tensors that a matrix consists of. */
#ifndef SAC_MODELS_QUANTIZATION_H
#define SAC_MODELS_QUANTIZATION_H

#include "weight_reader.h"

/* Whether `key` is this text. */
bool sac_quant_is(const json_t *object, const char *key, const char *text);

/* hf_quant_config.json's "quantization", in the place of a "quantization_config", has this "quant_method"; its keys are its own. */
#define SAC_QUANT_OF_FILE "hf_quant_config"

/* Where it stands, for messages. */
const char *sac_quant_place(const json_t *quantization);

/* UNSUPPORTED, with its name, for a key that is in neither list, unless it is null. Both end with NULL. */
sac_status sac_quant_check_keys(const json_t *quantization, const char *const *honoured,
                                const char *const *without_effect, sac_error *err);

/* What `key` says of a cache's numbers: nothing, or floats of 8 bits, which no cache format here has ("FP8", or a scheme). Other
 * kinds are UNSUPPORTED. */
sac_status sac_quant_check_cache(const json_t *quantization, const char *key, sac_error *err);

/* Whether activations would be in 4 bits by the configuration, without a word there that they are not to be ("dequantize"); weights
 * are read alone. */
bool sac_quant_leaves_fp4_inputs(const json_t *quantization);

/* Whether a list of names has the module: one of them is it, stands for a module around it, or is the end of its name.
 * Files and configurations differ in a leading "model.", which does not count. */
bool sac_quant_lists(const json_t *names, const char *module);

/* "<module>.<suffix>" for `module`, of which n bytes count; NULL when the checkpoint has none. */
const sac_checkpoint_tensor *sac_quant_part(const sac_checkpoint *c, const char *module, int n,
                                            const char *suffix);

/* The same, beside t, whose module has n bytes; BAD_FILE when it is missing. */
sac_status sac_quant_need(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n, const char *suffix,
                          const sac_checkpoint_tensor **part, sac_error *err);

/* Elements of a row that share a scale, 128 without the key; -1: the whole row. */
sac_status sac_quant_group_size(const json_t *object, const char *key, int64_t *group, sac_error *err);

/* Floats beside a matrix as [rows][groups]; a lone one is [1][1]. */
sac_tensor sac_quant_scales(const sac_checkpoint_tensor *t);

bool sac_quant_is_float(const sac_checkpoint_tensor *t); /* F32, F16 or BF16 */

/* Bytes of a tensor's module in its name, when that ends in ".<suffix>"; 0 when not. */
int sac_quant_module(const sac_checkpoint_tensor *t, const char *suffix);

/* BAD_FILE with the part's name and shape, beside which the matrix's numbers are. */
sac_status sac_quant_misshapen(const sac_checkpoint_tensor *part, const sac_checkpoint_tensor *numbers,
                               sac_error *err);

/* Whether a tensor is of this type and shape. */
bool sac_quant_has_shape(const sac_checkpoint_tensor *t, const char *dtype_name, int64_t rows, int64_t cols);

/* BAD_FILE, with its name, for a tensor of F32, F16 or BF16 in which a value is not finite. */
sac_status sac_quant_check_finite(const sac_checkpoint_tensor *t, sac_error *err);

/* UNSUPPORTED, with its name, for a `pre_quant_scale`, by which ModelOpt's AWQ has activations multiplied. */
sac_status sac_quant_check_pre_scales(const sac_checkpoint *c, sac_error *err);

/* The one scale that a checkpoint has for activations that meet t, where their rounding is static: `input_scale` or
 * `activation_scale`. BAD_FILE when it is missing, there twice, or not one finite number above 0. UNSUPPORTED where there is one
 * and activations are rounded as they come, and beside an `input_zero_point` that is not 0. Otherwise *scale is 0. */
sac_status sac_quant_input_scale(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module,
                                 sac_x_rounding rounding, float *scale, sac_error *err);

/* Checks one matrix, whose numbers are t, "<module>.<suffix>", and describes it in *out as "<module>.weight". */
typedef sac_status (*sac_quant_name_fn)(const sac_checkpoint *c, const json_t *quantization,
                                        const sac_checkpoint_tensor *t, int n_module,
                                        sac_checkpoint_tensor *out, sac_error *err);

/* Lists every "<module>.<suffix>" of the checkpoint, of this type if one is named, as "<module>.weight" from now on.
 * BAD_FILE for a module that the names under the configuration's key `skipped` say is left alone. */
sac_status sac_quant_name_all(sac_checkpoint *c, const json_t *quantization, const char *suffix,
                              const char *dtype_name, const char *skipped, sac_quant_name_fn name,
                              sac_error *err);

/* Makes t, a copy of an entry, "<module>.weight", [n][k] of this type. */
sac_status sac_quant_rename(sac_checkpoint_tensor *t, int n_module, sac_dtype dtype, int64_t n, int64_t k,
                            sac_error *err);

#endif
