/* code_layout.h - how a GPU holds weights whose scales lie apart in files (AWQ, GPTQ, compressed-tensors, FP8, NF4, FP4, HQQ): all as codes
 * in block_layout.h's order, in tiles of 16 rows and stretches of 256 elements, and among the scales a word for each row and
 * 16, 32, 64 or 128 elements, the number in the type's name. A group of a file is one or several of these: what fits into neither
 * (a group of 8, say) is not held.
 *
 *   c4   w = scale (code - zero), codes of four bits as q4_0's; the word: the highest 24 bits of the scale in f32, to the
 *        nearest, which has all of a f16 or bf16, and the zero in the lowest 8
 *   c8   the same with codes of a byte, signed, as q8_0's, and a signed zero: both 128 below what files have without a sign
 *   e4m3 w = scale code, bytes of e4m3 as q8_0's; the word: the scale in f32; NaN where a code is NaN
 *   e4m3_rows  FP8 of checkpoints that have x rounded to FP8 for each row, or for each 128 elements beside blocks of 128 x 128, as plain
 *        rows: [n][a row's stretches of 256] bytes, zeros as in tiles; in place of words scales in f32, [n], or, of blocks, [n / 128][L], L being
 *        the number of blocks of a row, up to a multiple of 4
 *   nf4  w = scale level, places among the levels as c4's codes; the word: the scale in f32
 *   e2m1 w = scale code, floats of 4 bits as c4's codes; the word: the scale in f32
 *
 * HQQ, whose zeros are no whole numbers, is held as GGUF's q4_1: w = d code + m, both f16, m to the nearest. What is beyond f16 is not held.
 *
 * A GPU's weight has the numbers in `tensor`, of a type of SAC_CODE_FORMATS or q4_1, and no other parts but `order`: elements of a row
 * are sorted by their groups then, and it says of each which input of the file's it is. */
#ifndef SAC_CUDA_CODE_LAYOUT_H
#define SAC_CUDA_CODE_LAYOUT_H

#include "block_layout.h"
#include "device.h"
#include "weight.h"

/* In which type a GPU holds a weight; SAC_N_DTYPES: in none. In an order of its own a weight has to have as many inputs in each
 * group as without one. plain: e4m3_rows where it may be. */
sac_dtype sac_code_layout_type(const sac_weight *w, bool plain);
/* Whether a card's products take e4m3_rows: Hopper's, whose tensor cores multiply e4m3. */
bool sac_code_layout_is_plain(const sac_device *d);

/* Writes sac_block_layout_bytes of that type, at a multiple of 16, and to input [k] where w has an order, which
 * may be NULL otherwise. NO_MEMORY for a tile's codes. */
sac_status sac_code_layout_pack(const sac_weight *w, sac_dtype type, void *to, int32_t *input);

#endif
