/* resize.h - separable resampling of 8-bit RGB, equal to the bit with Pillow's or with torch's.
 *
 * Both run a horizontal and a vertical pass, keep uint8 between the two, skip a pass whose size does not
 * change, and widen the filter by the scale when shrinking. They differ in two things:
 *
 *   weights  Pillow rounds them to 22 fraction bits. torch (interpolate(antialias=True) on uint8, which
 *            torchvision's resize calls) rounds them to as many bits as an int16 holds.
 *   order    Horizontal first. Pillow 13 begins with the vertical pass where the height shrinks by more than
 *            twice the number of pixels by which the width does. Tall pictures then differ by a few levels
 *            in some values from what Pillow 12 and earlier versions make of them. */
#ifndef SAC_VISION_RESIZE_H
#define SAC_VISION_RESIZE_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

/* Values are those of PIL.Image.Resampling, as preprocessor_config.json writes them ("resample": 3). */
typedef enum sac_filter {
    SAC_FILTER_LANCZOS = 1,
    SAC_FILTER_BILINEAR = 2,
    SAC_FILTER_BICUBIC = 3,
    SAC_FILTER_BOX = 4,
    SAC_FILTER_HAMMING = 5,
} sac_filter;

typedef enum sac_resize_arithmetic {
    SAC_RESIZE_PILLOW,   /* as Pillow 13.0 */
    SAC_RESIZE_PILLOW12, /* as Pillow 3.4 to 12.3 */
    SAC_RESIZE_TORCHVISION,
} sac_resize_arithmetic;

/* Longest side of a source or border; weights take memory in proportion to it. */
#define SAC_RESIZE_MAX_SIDE (1 << 20)

struct sac_resize_kernels;

typedef struct sac_resize_args {
    uint8_t *dst; /* [h][dst_row_bytes], the window below */
    size_t dst_row_bytes;
    const uint8_t *src; /* [src_h][src_w][3], packed */
    int src_w, src_h;
    /* A border of one colour that is resized as if it were part of the source, without being built. */
    int border_left, border_top, border_right, border_bottom;
    uint8_t border_rgb[3];
    int dst_w, dst_h; /* the whole result... */
    int x, y, w, h;   /* ...and the part of it that is computed, inside [0, dst_w) x [0, dst_h) */
    sac_filter filter;
    sac_resize_arithmetic arithmetic;
    const struct sac_resize_kernels *kernels; /* NULL: the best for this machine */
} sac_resize_args;

/* Scratch is taken and given back inside; its size is a few rows, never a picture. BAD_ARGUMENT for sizes
 * outside the limits. Runs on the caller's thread; no shared state. */
sac_status sac_resize_run(const sac_resize_args *a, sac_error *err);

/* The whole of src [src_h][src_w][3] to the whole of dst [dst_h][dst_w][3]. */
sac_status sac_resize(uint8_t *dst, int dst_w, int dst_h, const uint8_t *src, int src_w, int src_h,
                      sac_filter filter, sac_resize_arithmetic arithmetic, sac_error *err);

#endif
