#include "policy.h"

#define X(name) #name,
const char *const sac_decode_base_names[] = {SAC_DECODE_BASES(X) NULL};
#undef X
