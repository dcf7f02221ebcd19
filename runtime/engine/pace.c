#include "pace.h"

double sac_pace_most(const sac_pace *p, sac_pace_kind kind, double seconds) {
    const double a_little = 1;
    return p->rate[kind] > 0 ? p->rate[kind] * seconds : a_little;
}

void sac_pace_measure(sac_pace *p, sac_pace_kind kind, double work, double seconds) {
    if (work <= 0 || seconds <= 0) return;
    const double now = work / seconds;
    p->rate[kind] = p->rate[kind] > 0 ? 1 / (0.5 / p->rate[kind] + 0.5 / now) : now;
}
