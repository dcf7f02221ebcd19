/* A needle set from a stranger: it is read or refused, and what was read can be scored. */
#include "fuzz.h"

#include "needle_set.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    needle_set set;
    sac_error err = {0};
    char *text = malloc(size ? size : 1); /* of its size: ASan sees what is read beyond */
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    if (needle_set_parse(&set, text, size, "set", size % 3, &err) == SAC_OK)
        for (size_t i = 0; i < set.n_rows; i++)
            for (size_t k = 0; k < set.rows[i].n_turns; k++) {
                double score = needle_score(set.rows[i].metric, set.rows[i].turns[k].input,
                                            set.rows[i].turns[k].outputs);
                if (!(score >= 0 && score <= 1) || needle_set_find(&set, set.rows[i].id) != i) abort();
            }
    needle_set_free(&set);
    free(text);
    return 0;
}
