/* Steps of several sequences on a device, without one (closed_device.h): its ops for several in one go, and
 * weights side by side. Logits must be those of the same steps on the CPU, but for rounding. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_rig.h"

#include <math.h>

static void step(rig *r, int n, int number) {
    sac_error err = {0};
    sac_decoder_state *states[MOST];
    int32_t ids[MOST];
    for (int i = 0; i < n; i++) {
        states[i] = &r->states[(i + number) % n]; /* in another order each time */
        ids[i] = (number * 11 + (i + number) % n * 3) % VOCAB;
    }
    assert_ok(sac_decoder_batch_step(&r->d, &r->batch, &r->ops, &r->stream, states, ids, n, &err), err);
}

static void compare(int n, int n_steps, bool apart) {
    static rig here, there;
    rig_open(&here, false, apart);
    rig_open(&there, true, apart);
    for (int i = 0; i < n; i++) {
        begin(&here, i);
        begin(&there, i);
    }
    memset(n_together, 0, sizeof n_together);
    n_joined = n_groups = n_listed = 0;
    int64_t ns[MOST][LAYERS];
    for (int i = 0; i < n; i++)
        for (int l = 0; l < LAYERS; l++) ns[i][l] = there.states[i].stats[l].attend_ns;
    for (int k = 0; k < n_steps; k++) {
        step(&here, n, k);
        step(&there, n, k);
        for (int i = 0; i < n; i++) {
            sac_decoder_state *x = &here.states[i], *y = &there.states[i];
            assert_int_equal(sac_decode_counted(&y->decode, &y->shape, &there.stream, y->stats), SAC_OK);
            assert_int_equal(sac_decode_counted(&x->decode, &x->shape, &here.stream, x->stats), SAC_OK);
            for (int c = 0; c < VOCAB; c++)
                assert_true(fabsf(x->logits[c] - y->logits[c]) <= 2e-4f * (1 + fabsf(x->logits[c])));
            assert_int_equal(x->cache.n_rows, y->cache.n_rows);
            for (int l = 0; l < LAYERS; l++) {
                assert_int_equal(x->cache.layer_rows[l], y->cache.layer_rows[l]);
                assert_true(x->stats[l].decode_rows == y->stats[l].decode_rows);
                assert_true(x->stats[l].n_steps == y->stats[l].n_steps);
                assert_true(y->stats[l].attend_ns > ns[i][l]);
                ns[i][l] = y->stats[l].attend_ns;
            }
        }
    }
    assert_int_equal(n_together[0], n > 1 ? n_steps * LAYERS * (n > 32 ? 2 : 1) : 0);
    assert_true(n < 7 || (n_together[1] > 0 && n_together[2] > 0));
    assert_true(n < 14 || n_listed >= 2 * n_steps * LAYERS); /* quest's and tokenselect's; not heads' own */
    const int n_fused = n > 1 && !adapters ? n_steps * LAYERS : 0;
    assert_int_equal(n_together[3], refuse || !takes_rows ? n_fused : 0);
    assert_int_equal(n_together[4], n_fused);
    bool parted = refuse || adapters;
    assert_int_equal(n_groups,
                     n_steps * LAYERS * (parted ? 2 : 1)); /* q, k and v; gate and up if not fused */
    assert_int_equal(n_joined, apart ? 0 : n_groups);
    close_rig(&here);
    close_rig(&there);
}

/* Other methods and formats beside them, past several packings of tails. */
static void batches_have_the_cpu_s_logits(void **state) {
    (void)state;
    compare(7, 45, false);
    compare(7, 10, true);
    compare(18, 12, false);
    compare(2, 5, false);
    compare(MOST, 3, false);
}

/* A device without kernels for several sequences, and one whose out_step takes them. */
static void refused_ops_are_done_one_by_one(void **state) {
    (void)state;
    refuse = true;
    compare(18, 36, false);
    compare(3, 5, true);
    refuse = false;
    takes_rows = true;
    compare(18, 12, false);
    takes_rows = false;
}

/* A step that is no batch's. */
static void step_alone(rig *r, int i, int32_t id) {
    sac_error err = {0};
    sac_decoder_state *s = &r->states[i];
    assert_ok(sac_decoder_lend(s, &r->d, SAC_FOR_STEP, &r->stream, &r->lent_host, &err), err);
    assert_ok(sac_decoder_step(&r->d, s, &r->ops, &r->stream, s->cache.n_rows, id, &err), err);
    give_back(r, s);
}

/* Sequences whose methods compute tokens again have several rows, between others that have one. */
static void tokens_computed_again_are_rows_too(void **state) {
    static const guest again[] = {{"dense", "dense", "f32", 37},
                                  {"dense", "adore:m=40,r=3,sigma=attention", "f32", 55},
                                  {"dense", "tokenselect:k=8,init=2,local=4", "f32", 50},
                                  {"dense", "dense", "mixed:gap=32", 30},
                                  {"dense", "adore:m=24,r=9,sigma=attention", "f16", 44},
                                  {"dense", "adore:m=60,r=5,sigma=attention", "f32", 20}};
    enum { N = SAC_COUNT(again), STEPS = 20 };
    static rig here, there;
    static float alone[STEPS][N][VOCAB];
    (void)state;
    party = again, n_party = N;
    for (int with = 0; with < 2; with++) {
        adapters = with;
        rig_open(&here, false, false);
        rig_open(&there, true, false);
        for (int i = 0; i < N; i++) { /* each by itself */
            begin(&here, i);
            for (int k = 0; k < STEPS; k++) {
                step_alone(&here, i, (k * 11 + i * 3) % VOCAB);
                memcpy(alone[k][i], here.states[i].logits, sizeof alone[k][i]);
            }
            sac_decoder_state_free(&here.states[i]);
        }
        for (int i = 0; i < N; i++) begin(&here, i), begin(&there, i);
        for (int k = 0; k < STEPS; k++)
            for (int side = 0; side < 2; side++) {
                rig *r = side ? &there : &here;
                sac_error err = {0};
                sac_decoder_state *states[N];
                int32_t ids[N];
                for (int i = 0; i < N; i++) states[i] = &r->states[i], ids[i] = (k * 11 + i * 3) % VOCAB;
                assert_ok(sac_decoder_batch_step(&r->d, &r->batch, &r->ops, &r->stream, states, ids, N, &err), err);
                for (int i = 0; i < N; i++) {
                    if (!side) assert_memory_equal(alone[k][i], states[i]->logits, sizeof alone[k][i]);
                    for (int c = 0; c < VOCAB; c++)
                        assert_true(fabsf(alone[k][i][c] - states[i]->logits[c]) <=
                                    2e-4f * (1 + fabsf(alone[k][i][c])));
                    assert_true(k < 2 || i % 3 != 1 || r->batch.first[i + 1] - r->batch.first[i] > 3);
                }
            }
        close_rig(&here);
        close_rig(&there);
    }
    party = guests, n_party = SAC_COUNT(guests);
    adapters = false;
}

static void rows_have_their_own_adapters(void **state) {
    (void)state;
    adapters = true;
    compare(7, 12, false);
    compare(MOST, 3, true);
    adapters = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_have_the_cpu_s_logits),
        cmocka_unit_test(refused_ops_are_done_one_by_one),
        cmocka_unit_test(rows_have_their_own_adapters),
        cmocka_unit_test(tokens_computed_again_are_rows_too),
    };
    if (!closed_open()) return 1;
    return cmocka_run_group_tests_name("batch_device", tests, NULL, NULL);
}
