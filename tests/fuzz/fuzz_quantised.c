/* A quantised checkpoint of a stranger: its quantization_config, a NUL byte and safetensors. Every matrix that is
 * accepted goes with its parts: a row of it can be computed. Matrices of experts may share a tensor. */
#include "fuzz.h"

#include "expert_tensors.h"
#include "ref/weights/ref_weights.h"
#include "safetensors.h"
#include "weight_reader.h"

#include <stdlib.h>

enum { MOST_ELEMENTS = 1 << 16 };

static void compute(const sac_weight *w) {
    const int64_t n = w->tensor.dim[0], k = w->tensor.dim[1];
    const sac_ref_weight *format = sac_ref_weight_of(w);
    if (n < 1 || k < 1 || k > MOST_ELEMENTS) return;
    float *row = malloc((size_t)k * sizeof *row);
    if (!row || !format->holds(w, n, k)) abort();
    format->row(w, 0, k, row);
    format->row(w, n - 1, k, row);
    free(row);
}

/* As a model's binder has it, which copies what is not. */
static bool is_aligned(const sac_weight *w) {
    return (uintptr_t)w->scales.data % 4 == 0 && (uintptr_t)w->zeros.data % 4 == 0 && (uintptr_t)w->order.data % 4 == 0;
}

static sac_status look(const sac_weight_source *s, sac_error *err) {
    for (int i = 0; i < s->checkpoint->n_tensors; i++) {
        const sac_checkpoint_tensor *t = &s->checkpoint->tensors[i];
        sac_weight w;
        if (t->dtype < SAC_DTYPE_I8) continue;
        SAC_TRY(sac_weight_read(s, t, &w, err));
        if (is_aligned(&w)) compute(&w);
    }
    return SAC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const sac_decoder_config experts = {.n_layers = 2, .hidden = 8, .experts = {.n = 2, .intermediate = 4}};
    sac_error err = {0};
    sac_checkpoint c = {0};
    json_t *config = NULL;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    if (!end) return 0;
    size_t n_config = (size_t)(end - data), n_tensors = size - n_config - 1;
    uint8_t *tensors = malloc(n_tensors + 1); /* so that reads past its end are seen */
    if (!tensors) abort();
    memcpy(tensors, end + 1, n_tensors);
    sac_status st = sac_json_parse(&config, (const char *)data, n_config, &err);
    if (st == SAC_OK) st = sac_weight_check_config(config, &err);
    if (st == SAC_OK) st = sac_safetensors_parse(&c, 0, tensors, n_tensors, NULL, &err);
    if (st == SAC_OK) st = sac_checkpoint_seal(&c, &err);
    if (st == SAC_OK) st = sac_weight_name_matrices(&c, config, &err);
    if (st == SAC_OK) st = sac_expert_tensors_list(&c, &experts, &err);
    if (st == SAC_OK) st = look(&(sac_weight_source){&c, config}, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    sac_checkpoint_free(&c);
    if (config) json_decref(config);
    free(tensors);
    return 0;
}
