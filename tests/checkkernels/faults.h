/* faults.h - what files of planted faults share: the reference, which a fault calls in the middle, and the
 * list of a file's faults, FAULTS(X) with X(name, op, function). */
#ifndef CHECK_FAULTS_H
#define CHECK_FAULTS_H

#include "check.h"

static inline sac_ops ref(void) {
    sac_ops t;
    sac_ops_init_ref(&t);
    return t;
}

#define FAULT_PLANT(name, o, fn)                                                                             \
    static void plant_##fn(sac_ops *t) {                                                                     \
        t->o = fn;                                                                                           \
    }
#define FAULT_ROW(name, o, fn) {name, CHECK_##o, plant_##fn},
#define FAULT_LIST(list, FAULTS)                                                                             \
    FAULTS(FAULT_PLANT) static const check_fault list##_all[] = {FAULTS(FAULT_ROW)};                         \
    const check_fault_list list = {list##_all, (int)SAC_COUNT(list##_all)};

#endif
