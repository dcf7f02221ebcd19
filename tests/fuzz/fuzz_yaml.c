/* Run settings of a stranger (runtime/app/common/run_config.c). */
#include "fuzz.h"

#include "run_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    settings s;
    sac_error err = {0};
    settings_init(&s);
    sac_status st = run_config_parse(&s, (const char *)data, size, "run.yaml", &err);
    if (st == SAC_OK ? err.text[0] != 0 : strncmp(err.text, "run.yaml:", 9) != 0) abort();
    settings_free(&s);
    return 0;
}
