/* patch_sum.h - the sum of the patch rows that a processor makes of a drawn picture, as tools/make_image_goldens.py writes it. */
#ifndef SAC_TESTS_PATCH_SUM_H
#define SAC_TESTS_PATCH_SUM_H

#include "picture_data.h"
#include "processor.h"
#include "test.h"

#include <stdlib.h>

static inline void patch_sum(const sac_processor_config *c, const sac_visual_plan *plan, int kind, int w,
                             int h, int seed, char sum[16]) {
    sac_error err = {0};
    const size_t n_bytes = sac_visual_bytes(plan, plan->n_tiles);
    sac_image image = {picture_new(kind, w, h, (uint64_t)seed), w, h};
    uint8_t *patches = malloc(n_bytes);
    assert_non_null(patches);
    assert_ok(sac_processor_cut(c, &image, plan, patches, &err), err);
    snprintf(sum, 16, "%08x", crc32_of(patches, n_bytes));
    free(patches);
    sac_image_free(&image);
}

#endif
