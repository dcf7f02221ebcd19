#include "ref/ref.h"

static size_t no_scratch(int64_t m, int64_t k) {
    (void)m;
    (void)k;
    return 0;
}

void sac_ops_init_ref(sac_ops *t) {
    *t = (sac_ops){
        .backend = "ref",
        .linear_scratch_bytes = no_scratch,
#define X(op) .op = sac_ref_##op,
        SAC_OPS(X)
#undef X
    };
}

/* Every level overwrites the slots that it does better than the one before. */
void sac_ops_init_cpu(sac_ops *t, unsigned cpu_flags) {
    sac_ops_init_ref(t);
    t->backend = "cpu";
    (void)cpu_flags;
}
