/* A GGUF model of a stranger, from the header to the bound tensors and the tokenizer. */
#include "fuzz.h"

#include "model.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_loaded_model m;
    sac_error err = {0};
    sac_status st = sac_loaded_model_open(&m, fuzz_file(data, size), NULL, NULL, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    if (st == SAC_OK) sac_loaded_model_free(&m);
    return 0;
}
