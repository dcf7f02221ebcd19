#include "largest.h"

#include <math.h>

enum { STRETCH = 256 };

/* Several at a time: a comparison waits for the one before it. */
float sac_largest(const float *x, int n) {
    float top[16];
    int i = 0;
    for (int j = 0; j < 16; j++) top[j] = -INFINITY;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) top[j] = x[i + j] > top[j] ? x[i + j] : top[j];
    for (; i < n; i++) top[0] = x[i] > top[0] ? x[i] : top[0];
    for (int j = 1; j < 16; j++) top[0] = top[j] > top[0] ? top[j] : top[0];
    return top[0];
}

int32_t sac_largest_at(const float *x, int n) {
    int best = 0;
    float top = -INFINITY;
    if (isnan(x[0])) return 0;
    for (int i = 0; i < n; i += STRETCH) {
        const float here = sac_largest(x + i, n - i < STRETCH ? n - i : STRETCH);
        if (here > top) top = here, best = i;
    }
    if (top == -INFINITY) return 0;
    while (x[best] != top) best++;
    return best;
}
