/* mmproj_positions.c - how large a tower's table of learned positions is, by its tensor alone. */
#include "family.h"

sac_status sac_mmproj_table_side(int *side, const sac_mmproj *p, sac_error *err) {
    static const char positions[] = "v.position_embd.weight";
    const int64_t n = p->rows(p->tensors, positions);
    *side = 0;
    while ((int64_t)(*side + 1) * (*side + 1) <= n && *side < 1024) ++*side;
    if (n > 0 && (int64_t)*side * *side == n) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %s has %lld rows, which are no square", positions, (long long)n);
}
