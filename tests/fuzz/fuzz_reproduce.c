/* A file of a paper's tables: its first table is read or refused. */
#include "fuzz.h"

#include "reproduce_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reproduce_table t;
    sac_error err = {0};
    char *text = malloc(size ? size : 1); /* of its size: ASan sees what is read beyond */
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    if (reproduce_table_parse(&t, text, size, "file", "t", &err) == SAC_OK && !t.lacks &&
        (!t.list.n || !t.n_figures || t.is_speed != !t.set))
        abort();
    reproduce_table_free(&t);
    free(text);
    return 0;
}
