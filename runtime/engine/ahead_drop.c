#include "ahead.h"

void sac_ahead_drop(sac_session *s) {
    sac_ahead *a = &s->ahead;
    if (!a->n) return;
    sac_ahead_gain_settle(&a->gain, a->at);
    a->credit -= (a->n - a->at) * SAC_AHEAD_A_ROW;
    a->n = a->at = 0;
}
