/* family.h - the families of models that can be loaded. */
#ifndef SAC_MODELS_FAMILY_H
#define SAC_MODELS_FAMILY_H

#include <stddef.h>

/* models/<name>.yaml as text inside the library. */
typedef struct sac_embedded_yaml {
    const char *name, *text;
    size_t n_bytes;
} sac_embedded_yaml;
extern const sac_embedded_yaml sac_family_yaml[];
extern const int sac_n_family_yaml;

#endif
