/* idefics3.c - the tower of Idefics3 and SmolVLM (Laurencon et al., arXiv:2408.12637; transformers' Idefics3VisionModel):
 * SigLIP's (siglip.c), with other positions.
 *
 * A row or column of patches takes the position of the bucket that its share of the side falls into, as for pictures of
 * any shape in NaViT (arXiv:2307.06304, sec. 2.1). Of a picture of the tower's own size every bucket has one, but for
 * rounding: transformers compares f32 numbers, and for some sides (19, 25, 29, 31 ...) a share falls just below its bucket.
 * The models were trained so.
 *
 * Patches stand in squares of merge_size a side, of which the merger makes a row each (merger_smolvlm.c). */
#include "clip.h"

#include <math.h>

/* torch.arange(1 / n, 1, 1 / n)[i] as the CPU makes it: in f64, but of two vectors of 8 at a time each counts from its first,
 * which is rounded to f32. */
static float bound(int i, int n_bounds, double width) {
    enum { LANES = 8, AT_A_TIME = 2 * LANES };
    if (i >= n_bounds / AT_A_TIME * AT_A_TIME) return (float)(width + width * i);
    return (float)((double)(float)(width + width * (i - i % LANES)) + i % LANES * width);
}

int sac_clip_bucket(float share, int n) {
    const double width = 1.0 / n;
    const int n_bounds = (int)ceil((1.0 - width) / width), near = (int)(share * (float)n) - 2;
    int b = near > 0 ? near : 0;
    while (b < n_bounds && bound(b, n_bounds, width) <= share) b++;
    return b < n ? b : n - 1;
}

/* Of the i-th of n rows or columns. */
static int bucket(int i, int n) {
    return sac_clip_bucket(fminf((float)i * (1.0f / (float)n), (float)(1.0 - 1e-6)), n);
}

static int position(const sac_tower_config *c, int patch) {
    const int side = sac_clip_grid(c), m = c->merge_size, square = patch / (m * m), inside = patch % (m * m);
    const int y = square / (side / m) * m + inside / m, x = square % (side / m) * m + inside % m;
    return bucket(y, side) * side + bucket(x, side);
}

static const sac_weight_slot slots[] = {
    SAC_CLIP_PART(patch_embed, true),
    SAC_CLIP_PART(patch_bias, false),
    SAC_CLIP_PART(pos_embed, false),
    SAC_CLIP_LAYER_SLOTS,
};

const sac_tower_kind sac_tower_idefics3 = {
    .name = "siglip", /* its tensors are SigLIP's */
    .model_type = "idefics3_vision",
    .slots = slots,
    .n_slots = (int)SAC_COUNT(slots),
    .weights_bytes = sizeof(sac_clip_weights),
    .layer_bytes = sizeof(sac_clip_layer),
    .position = position,
    .plan = sac_clip_plan,
    .symbols = sac_clip_symbols,
    .place = sac_clip_place,
    .take = sac_clip_take,
    .encode = sac_clip_encode,
};
