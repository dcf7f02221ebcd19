#include "family.h"

#include <string.h>

const sac_family *sac_family_find(const sac_family *const *families, const char *name) {
    for (; *families; families++)
        if (strcmp((*families)->name, name) == 0) return *families;
    return NULL;
}
