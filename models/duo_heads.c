/* duo_heads.c - what each key-value head would lose as a streaming head of DuoAttention (sparse/duo.c), which a
 * model folder may bring along: duo.safetensors with one tensor, lost [layers with keys and values][n_kv_heads] of F32, shares of
 * softmax weight. `saccade calibrate` writes one. */
#include "model_load.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

/* The tensor, when it has the type and shape that the model asks for. */
static sac_status find(const sac_checkpoint *c, const sac_decoder_config *config,
                       const sac_checkpoint_tensor **out, sac_error *err) {
    const sac_checkpoint_tensor *t = *out = sac_checkpoint_find(c, "lost");
    const int64_t want[2] = {sac_decoder_attending(config, config->n_layers), config->n_kv_heads};
    char is[SAC_SHAPE_TEXT], wanted[SAC_SHAPE_TEXT];
    if (!t) return sac_fail(err, SAC_BAD_FILE, "no tensor lost");
    if (t->dtype != SAC_DTYPE_F32)
        return sac_fail(err, SAC_BAD_FILE, "tensor lost is %s, not f32", t->dtype_name);
    if (t->n_dims != 2 || t->dim[0] != want[0] || t->dim[1] != want[1])
        return sac_fail(err, SAC_BAD_FILE, "tensor lost has shape %s, not %s: made for another model?",
                        sac_shape_text(is, t->dim, t->n_dims), sac_shape_text(wanted, want, 2));
    return SAC_OK;
}

/* A copy, since a file's numbers may lie at any alignment. */
static sac_status copy(float **out, const sac_checkpoint_tensor *t, sac_error *err) {
    float *lost = *out = malloc(t->n_bytes);
    if (!lost) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu bytes of heads", t->n_bytes);
    memcpy(lost, t->data, t->n_bytes);
    for (size_t i = 0; i < t->n_bytes / sizeof *lost; i++)
        if (!(lost[i] >= 0 && lost[i] <= 1))
            return sac_fail(err, SAC_BAD_FILE, "tensor lost: element %zu is %g, not a share from 0 to 1", i,
                            (double)lost[i]);
    return SAC_OK;
}

sac_status sac_load_head_losses(sac_load_context *l) {
    char path[4096];
    sac_checkpoint c = {0};
    const sac_checkpoint_tensor *t;
    SAC_TRY(sac_path_join(path, sizeof path, l->path, "duo.safetensors", l->err));
    if (!sac_file_exists(path)) return SAC_OK;
    sac_status st = sac_safetensors_open_file(&c, path, l->err);
    if (st == SAC_OK) {
        st = find(&c, &l->m->decoder.config, &t, l->err);
        if (st == SAC_OK) st = copy(&l->files->head_losses, t, l->err);
        if (st != SAC_OK) sac_fail_prefix(l->err, st, "%s", path);
    }
    sac_checkpoint_free(&c);
    if (st == SAC_OK) l->m->decoder.head_losses = l->files->head_losses;
    return st;
}
