/* quantize_write_gguf.c - the end of both ways to a GGUF file: its plan, what a run before has left of it, columns' sums, and the file. */
#include "quantize_job.h"

/* What a run is, reads and is told, and everything before the tensors' bytes: their bytes are the same then. */
static sac_status make_stamp(const sac_quantize_job *j, const sac_gguf_out *out, char of[SAC_OUT_OF_BYTES]) {
    sac_sha256 *h;
    SAC_TRY(sac_quantize_stamp_begin(j, &h));
    sac_sha256_update(h, out->head, out->head_bytes);
    sac_quantize_stamp_end(h, of);
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
