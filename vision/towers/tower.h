/* tower.h - vision towers: from the pixels of patches to rows of features.
 *
 * A tower is one file with one table (struct sac_tower_kind) and one line in SAC_TOWERS; the names and shapes of
 * its tensors are in vision/towers/<name>.yaml. What goes in are patch rows, one picture behind another, and the
 * segments in which they attend to one another (the patches of a picture, or of a frame). Positions, windows
 * inside a segment and further tokens (a class token) are the tower's own affair. */
#ifndef SAC_VISION_TOWER_H
#define SAC_VISION_TOWER_H

#include "grid.h"
#include "ops.h"
#include "place_weight.h"
#include "weight_slot.h"

#define SAC_TOWERS(X)                X(clip) X(siglip) X(idefics3) X(internvit) X(qwen2vl) X(qwen2_5vl) X(qwen3vl) \
    X(glmvit) X(pixtral) X(moonvit) X(minicpmv) X(glmocrvit) X(paddleocrvit)

#define SAC_TOWER_MAX_FEATURE_LAYERS 8
enum { SAC_TOWER_MAX_FULL_LAYERS = 32, SAC_TOWER_MAX_BUFFERS = 12, SAC_TOWER_MAX_SYMBOLS = 8 };

typedef struct sac_tower_kind sac_tower_kind;

/* Sizes that vision towers have in common, from config.json. */
typedef struct sac_tower_config {
    const sac_tower_kind *kind;
    int image_size, patch_size, hidden, n_layers, n_heads, intermediate;
    float norm_eps;
    sac_activation act;
    int n_feature_layers;
    int feature_layer[SAC_TOWER_MAX_FEATURE_LAYERS]; /* hidden state in [0, n_layers]: 0 = the first layer's
                                                        input, i = after layer i; side by side when several, or where
                                                        the kind sets features_apart one matrix behind another */
    bool keep_class;                                 /* vision_feature_select_strategy "full" */
    int temporal_patch_size;                         /* frames that share a patch */
    int merge_size;                                  /* patches stand in squares of so many a side */
    int window_size; /* pixels a side of the windows that most layers attend within; 0: none do */
    bool table_is_cubic; /* by cubics, cell to cell (GLM-4.1V, Kimi-VL); else linearly, corner to corner (Qwen3-VL), */
    bool table_by_cells; /* or linearly, cell to cell (PaddleOCR-VL) */
    int table_side; /* learned positions are a table of so many a side, resampled to the picture's patches; 0: none */
    int joins_after; /* so many layers windows of 2 x 2 patches become a row each (MiniCPM-V); 0: none do */
    float rope_theta; /* of rotations by rows and columns; 0: 10000 */
    int n_full_layers, full_layer[SAC_TOWER_MAX_FULL_LAYERS]; /* those that attend within whole pictures */
    /* Where checkpoints of one kind differ: biases of queries, keys and values; a norm of whole queries and keys; norms
     * with a mean and a bias (or RMS norms); a norm behind the last layer. */
    bool qkv_bias, qk_norm, norm_bias, final_norm;
} sac_tower_config;

/* What becomes of one picture, or of `frames` frames of a video that share patches. */
typedef struct sac_tower_plan {
    sac_grid patches;
    int64_t n_patches;  /* rows that go in */
    int64_t n_inside;   /* rows that a layer computes */
    int64_t n_features; /* rows that come out */
    int n_segments;
    int most_segments; /* that the tower may cut them into itself, of any picture with so many patches */
} sac_tower_plan;

/* A tower with its weights, of the model on the host or copied to a device. */
typedef struct sac_tower {
    sac_tower_config config;
    void *weights; /* config.kind->weights_bytes */
    void *layers;  /* [config.n_layers], config.kind->layer_bytes each */
} sac_tower;

/* Activations of up to max_segments segments at a time. */
typedef struct sac_tower_state {
    int max_segments;
    bool fast;       /* bf16 products allowed */
    sac_dtype dtype; /* of the activations */
    bool on_device;
    void *at[SAC_TOWER_MAX_BUFFERS]; /* what each is, the kind knows */
    int32_t *segment_start;          /* [max_segments + 1] of the rows inside, on the host */
    /* For who asks (otherwise NULL): attention that the class token of each segment gives, summed over heads,
     * in the first layer and in the last that runs; [n_segments][1 + patches], its own share first. */
    float *class_first, *class_last;
} sac_tower_state;

/* Patch rows on their way in, where the tower runs. */
typedef struct sac_patch_rows {
    const uint8_t *pixels;        /* [n_rows][pixels of a patch][3] */
    const int32_t *segment_start; /* [n_segments + 1] first rows, on the host */
    int n_segments;
    float mean[3], std[3]; /* of the pixels divided by 255 */
    sac_grid grid;         /* of the patches of a segment, all alike */
    sac_crops crops;       /* that a segment is made of, where it is (minicpmv.c) */
} sac_patch_rows;

/* A call. */
typedef struct sac_tower_run {
    const sac_tower *tower;
    sac_tower_state *state;
    const sac_ops *ops;
    const sac_stream *stream;
} sac_tower_run;

struct sac_tower_kind {
    const char *name;       /* "clip", also of its YAML */
    const char *model_type; /* in vision_config: "clip_vision_model" */
    const sac_weight_slot *slots;
    int n_slots;
    size_t weights_bytes, layer_bytes;
    /* Row of the learned positions that a patch takes, of patches as they go in; NULL: its own number. */
    int (*position)(const sac_tower_config *c, int patch);
    bool has_class;      /* can say what its class token looks at */
    bool features_apart; /* those of several layers: the rows of one, then those of the next */
    bool rates_take_turns; /* of the rates of a head's rotation every second is the rows', those between the columns' */
    bool turns_neighbours; /* pairs are neighbouring channels, by turns the columns' and the rows', at the same rates */

    /* UNSUPPORTED, with the reason, for a size that the tower does not take. */
    sac_status (*plan)(const sac_tower_config *c, int width, int height, int frames, sac_tower_plan *plan,
                       sac_error *err);
    int (*symbols)(const sac_tower_config *c, sac_shape_symbol out[SAC_TOWER_MAX_SYMBOLS]);
    /* Turns t, whose structs are its own, into what runs on a device with activations in p->activations;
     * UNSUPPORTED for weights that the device does not take with them. */
    sac_status (*place)(sac_tower *t, sac_placer *p);
    /* Takes s->at out of arena and s->segment_start out of host; arenas without a base only measure. `stream` is
     * a device's, for what is uploaded at once. */
    sac_status (*take)(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                       sac_arena *arena, sac_arena *host, sac_error *err);
    /* Patch rows to features [features of all segments][sac_tower_cols]; of a kind with features_apart the mat is that of
     * the first feature layer, and those of the others stand behind it. */
    sac_status (*encode)(const sac_tower_run *r, const sac_patch_rows *in, sac_mat features);
};

#define X(name) extern const sac_tower_kind sac_tower_##name;
SAC_TOWERS(X)
#undef X

/* The kind of a vision_config's model_type, or NULL. */
const sac_tower_kind *sac_tower_find(const char *model_type);

static inline int sac_tower_cols(const sac_tower_config *c) {
    return c->n_feature_layers * c->hidden;
}
static inline int64_t sac_tower_patch_bytes(const sac_tower_config *c) {
    return 3 * (int64_t)c->patch_size * c->patch_size *
           (c->temporal_patch_size > 1 ? c->temporal_patch_size : 1);
}

/* One square picture of c->image_size, which every tower with a size of its own takes. */
sac_tower_plan sac_tower_plan_square(const sac_tower_config *c);

/* Buffers for max_segments segments, or how large they are where the arena has no base. */
sac_status sac_tower_state_take(sac_tower_state *s, const sac_tower_config *c, int max_segments,
                                sac_arena *host, sac_error *err);
/* The same out of a device's memory, with activations in t, and a little on the host. Not with class_first. */
sac_status sac_tower_state_take_device(sac_tower_state *s, const sac_tower_config *c, int max_segments,
                                       sac_dtype t, const sac_stream *stream, sac_arena *device,
                                       sac_arena *host, sac_error *err);

static inline sac_status sac_tower_encode(const sac_tower_run *r, const sac_patch_rows *in,
                                          sac_mat features) {
    return r->tower->config.kind->encode(r, in, features);
}

/* First rows of the segments of n grids one behind another, n * g.t of them: a step of time is a segment. */
void sac_grid_segments(sac_grid g, int n, int32_t *segment_start);

#endif
