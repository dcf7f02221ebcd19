#include "ref.h"

sac_status sac_ref_patchify(const sac_stream *s, const sac_patchify_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->y.cols % 3 == 0);
    int64_t area = a->y.cols / 3;
    for (int64_t row = 0; row < a->y.rows; row++) {
        const uint8_t *pixels = a->pixels + row * a->y.cols;
        float *y = sac_mat_row_f32(a->y, row);
        for (int c = 0; c < 3; c++)
            for (int64_t p = 0; p < area; p++)
                y[c * area + p] =
                    (float)((pixels[p * 3 + c] / 255.0 - (double)a->mean[c]) / (double)a->std[c]);
    }
    return SAC_OK;
}
