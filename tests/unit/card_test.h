/* card_test.h - whole models for tests that are the same on a card and on the CPU. */
#ifndef SAC_CARD_TEST_H
#define SAC_CARD_TEST_H

#include "saccade/saccade.h"
#include "test.h"

static bool on_card;
static sac_model_info info;

/* On a card where there is one. */
static inline sac_model *open_on_card(const char *path) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    o.n_threads = 2;
    o.device = "cuda";
    sac_status st = sac_model_open(&m, path, &o, &err);
    on_card = st == SAC_OK;
    if (st != SAC_OK) {
        assert_int_equal(st, SAC_UNSUPPORTED);
        o.device = NULL;
        assert_ok(sac_model_open(&m, path, &o, &err), err);
    }
    sac_model_get_info(m, &info);
    return m;
}

#endif
