#include "ref.h"

sac_status sac_ref_patchify(const sac_stream *s, const sac_patchify_args *a) {
    (void)s;
    int p = a->patch, g = a->size / p;
    assert(sac_ref_is_mat(a->y) && a->y.rows == a->n_tiles * g * g && a->y.cols == 3 * (int64_t)p * p);
    for (int64_t row = 0; row < a->y.rows; row++) {
        int64_t tile = row / (g * g), gy = row / g % g, gx = row % g;
        const uint8_t *pixels = a->tiles + tile * a->size * a->size * 3;
        float *y = sac_mat_row_f32(a->y, row);
        for (int c = 0; c < 3; c++)
            for (int py = 0; py < p; py++)
                for (int px = 0; px < p; px++) {
                    uint8_t v = pixels[((gy * p + py) * a->size + gx * p + px) * 3 + c];
                    y[(c * p + py) * p + px] = (float)((v / 255.0 - (double)a->mean[c]) / (double)a->std[c]);
                }
    }
    return SAC_OK;
}
