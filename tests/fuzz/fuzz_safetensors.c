/* A safetensors file of a stranger: every tensor that is accepted lies inside the file. */
#include "fuzz.h"

#include "safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_checkpoint c = {0};
    sac_error err = {0};
    sac_status st = sac_safetensors_parse(&c, 0, data, size, NULL, &err);
    if (st == SAC_OK) st = sac_checkpoint_seal(&c, &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    for (int i = 0; i < c.n_tensors && st == SAC_OK; i++) {
        const sac_checkpoint_tensor *t = &c.tensors[i];
        if (t->data < data || t->n_bytes > size || t->data + t->n_bytes > data + size) abort();
        if (sac_checkpoint_find(&c, t->name) != t) abort();
    }
    sac_checkpoint_free(&c);
    return 0;
}
