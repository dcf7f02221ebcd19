/* A pixel has 256 values, so the normalised ones come from a table of each channel, exact as the reference. */
#include "cpu.h"

typedef struct patchify_job {
    const sac_patchify_args *a;
    float value[3][256];
} patchify_job;

static void patchify_rows(const void *ctx, int64_t first, int64_t end) {
    const patchify_job *job = ctx;
    const sac_patchify_args *a = job->a;
    int64_t area = a->y.cols / 3;
    for (int64_t row = first; row < end; row++) {
        const uint8_t *pixel = a->pixels + row * a->y.cols;
        float *y = sac_mat_row_f32(a->y, row);
        for (int64_t p = 0; p < area; p++)
            for (int c = 0; c < 3; c++) y[c * area + p] = job->value[c][pixel[p * 3 + c]];
    }
}

sac_status sac_cpu_patchify(const sac_stream *s, const sac_patchify_args *a) {
    patchify_job job = {.a = a};
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            job.value[c][v] = (float)((v / 255.0 - (double)a->mean[c]) / (double)a->std[c]);
    sac_for_rows(s, a->y.rows, a->y.cols * 8, patchify_rows, &job);
    return SAC_OK;
}
