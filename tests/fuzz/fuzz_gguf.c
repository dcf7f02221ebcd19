/* A GGUF model of a stranger, from the header to the bound tensors, rows of them and the tokenizer. */
#include "fuzz.h"

#include "model.h"
#include "ref/weights/ref_weights.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_loaded_model m;
    sac_error err = {0};
    sac_status st = sac_loaded_model_open(&m, fuzz_file(data, size), NULL, NULL, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    if (st == SAC_OK) {
        const sac_decoder_layer *layer = &m.decoder.layers[0];
        compute(&m.decoder.embed);
        compute(&layer->q);
        compute(&layer->down);
        sac_loaded_model_free(&m);
    }
    return 0;
}
