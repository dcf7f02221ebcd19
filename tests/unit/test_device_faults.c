/* A device whose ops and copies fail in the middle of a prompt or of a batch (closed_device.h): each call of it in turn.
 * The failure is told, and what comes after it has the CPU's logits. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_rig.h"

#include <math.h>

enum { TOGETHER = 9, EVERY = 41 /* of the calls behind the first ones, so many are left out between two */ };

static void same_logits(const sac_decoder_state *x, const sac_decoder_state *y) {
    for (int c = 0; c < VOCAB; c++)
        assert_true(fabsf(x->logits[c] - y->logits[c]) <= 2e-4f * (1 + fabsf(x->logits[c])));
}

static int next_fault(int n) {
    return n < 12 ? n + 1 : n + EVERY;
}

/* A prompt fails at its n-th call; the next try is whole. */
static void a_prompt_can_be_run_again(void **state) {
    (void)state;
    static rig here, there;
    int n_faults = 0;
    rig_open(&here, false, false);
    rig_open(&there, true, false);
    for (int i = 0; i < (int)SAC_COUNT(guests); i++) {
        begin(&here, i);
        begin(&there, i);
        for (int n = 0;; n = next_fault(n)) {
            sac_error err = {0};
            closed_n_good = n;
            sac_status st = run_prompt(&there, i, &err);
            bool is_over = closed_n_good >= 0; /* it has no n-th call */
            closed_n_good = -1;
            if (is_over) assert_ok(st, err);
            if (is_over) break;
            assert_int_equal(st, SAC_DEVICE);
            const int64_t held = there.states[i].cache.n_rows;
            assert_true(held == 0 || held == guests[i].n_prompt); /* the logits may be what failed */
            for (int l = 0; l < LAYERS && held == 0; l++)
                assert_int_equal(there.states[i].cache.layer_rows[l], 0);
            n_faults++;
            assert_ok(run_prompt(&there, i, &err), err);
            same_logits(&here.states[i], &there.states[i]);
        }
    }
    assert_true(n_faults > 12 * (int)SAC_COUNT(guests));
    close_rig(&here);
    close_rig(&there);
}

static sac_status step_all(rig *r, sac_error *err) {
    sac_decoder_state *states[TOGETHER];
    int32_t ids[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) states[i] = &r->states[i], ids[i] = (i * 11 + 3) % VOCAB;
    return sac_decoder_batch_step(&r->d, &r->batch, &r->ops, &r->stream, states, ids, TOGETHER, err);
}

/* Sequences that are back at their prompts, whatever they went through. */
static void back_to_prompts(rig *r) {
    sac_error err = {0};
    for (int i = 0; i < TOGETHER; i++) assert_ok(run_prompt(r, i, &err), err);
}

/* A step of several fails at its n-th call: no sequence is further than it was, those that lost rows say so by having
 * none, and the next step of all has the CPU's logits. */
static void a_batch_can_be_stepped_again(void **state) {
    (void)state;
    static rig here, there;
    sac_error err = {0};
    int n_faults = 0;
    rig_open(&here, false, false);
    rig_open(&there, true, false);
    for (int i = 0; i < TOGETHER; i++) begin(&here, i), begin(&there, i);
    assert_ok(step_all(&here, &err), err);
    for (int n = 0;; n = next_fault(n)) {
        closed_n_good = n;
        sac_status st = step_all(&there, &err);
        bool is_over = closed_n_good >= 0;
        closed_n_good = -1;
        if (is_over) assert_ok(st, err);
        if (is_over) break;
        assert_int_equal(st, SAC_DEVICE);
        assert_non_null(strstr(err.text, "refused a kernel or a copy"));
        n_faults++;
        for (int i = 0; i < TOGETHER; i++) {
            const int64_t held = there.states[i].cache.n_rows, prompt = guests[i].n_prompt;
            assert_true(held == prompt || held == 0);
            if (!held) assert_ok(run_prompt(&there, i, &err), err);
        }
        assert_ok(step_all(&there, &err), err);
        for (int i = 0; i < TOGETHER; i++) same_logits(&here.states[i], &there.states[i]);
        back_to_prompts(&there);
    }
    assert_true(n_faults > 12);
    close_rig(&here);
    close_rig(&there);
}

static void with_adapters_too(void **state) {
    adapters = true;
    a_batch_can_be_stepped_again(state);
    adapters = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_can_be_run_again),
        cmocka_unit_test(a_batch_can_be_stepped_again),
        cmocka_unit_test(with_adapters_too),
    };
    if (!closed_open()) return 1;
    return cmocka_run_group_tests_name("device_faults", tests, NULL, NULL);
}
