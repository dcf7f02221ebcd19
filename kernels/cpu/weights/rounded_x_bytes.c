#include "cpu_weights.h"

#include "cpu/linear_few_rows.h"

size_t sac_rounded_x_bytes(unsigned cpu_flags, int64_t m, int64_t k) {
    (void)cpu_flags;
    return (size_t)(m < LINEAR_FEW_ROWS ? m : LINEAR_FEW_ROWS) * (size_t)k * sizeof(float);
}
