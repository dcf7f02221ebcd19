/* quantize_write_gguf.c - the end of both ways to a GGUF file: its plan, what a run before has left of it, columns' sums, and the file. */
#define _GNU_SOURCE
#include "hash.h"
#include "quantize_job.h"

#include <stdio.h>
#include <sys/stat.h>

/* The source's files by size and time, format, prompts, and everything before the tensors' bytes: their bytes are the same then. */
static sac_status make_stamp(const sac_quantize_job *j, const sac_gguf_out *out, char of[SAC_OUT_OF_BYTES]) {
    sac_sha256 *h;
    uint8_t hash[32];
    SAC_TRY(sac_sha256_open(&h, j->err));
    sac_sha256_update(h, j->options->format, strlen(j->options->format) + 1);
    if (j->options->calibrator) sac_sha256_update(h, j->options->calibrator->stamp, sizeof j->options->calibrator->stamp);
    for (int i = 0; i < j->weights.n_files; i++) {
        struct stat st = {0};
        (void)stat(j->weights.files[i].path, &st);
        const int64_t stamp[3] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
        sac_sha256_update(h, stamp, sizeof stamp);
    }
    sac_sha256_update(h, out->head, out->head_bytes);
    sac_sha256_finish(h, hash);
    for (int i = 0; i < 32; i++) snprintf(of + 2 * i, 3, "%02x", hash[i]);
    return SAC_OK;
}

sac_status sac_quantize_write_gguf(sac_quantize_job *j, sac_gguf_out *out) {
    const sac_calibrator *c = j->options->calibrator;
    char of[SAC_OUT_OF_BYTES];
    j->plan.n_bytes = out->file_bytes;
    SAC_TRY(make_stamp(j, out, of));
    SAC_TRY(sac_out_resume_find(j->out, of, &j->plan.bytes_done, j->err));
    if (j->plan.bytes_done > j->plan.n_bytes) j->plan.bytes_done = 0; /* no count of this file */
    j->bytes_reused -= j->plan.bytes_done < j->bytes_reused ? j->plan.bytes_done : j->bytes_reused;
    if (c) c->plan(c->ctx, NULL, &j->plan.calibration);
    SAC_TRY(sac_quantize_begin(j, j->out));
    if (c) SAC_TRY(sac_gguf_out_weigh(out, c, j->err));
    return sac_gguf_out_write(out, j->out, of, j->pool, &j->progress, j->err);
}
