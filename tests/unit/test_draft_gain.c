/* How many guesses pay (ahead_gain.h): what is lost where none is right stays small, what is saved where all are is most of it. */
#include "ahead_gain.h"
#include "test.h"

static void the_account_knows_what_pays(void **state) {
    (void)state;
    sac_ahead_gain g = {0};
    sac_ahead_gain_start(&g, 0);
    int n = 0, tries = 0;
    double lost = 0, spent = 0;
    for (int i = 0; i < 20000; i++) { /* nothing is ever right */
        n = sac_ahead_gain_most(&g, 7);
        const double s = n ? 1 + 1.5 * n : 1;
        n ? sac_ahead_gain_passed(&g, n, s) : sac_ahead_gain_plain(&g, s);
        sac_ahead_gain_settle(&g, 0);
        lost += s - 1, spent += s, tries += n > 0;
        assert_true(lost <= 1.5 + 0.03 * spent);
    }
    assert_true(tries > 50); /* it is tried again and again */
    double saved = 0;
    for (int i = 0; i < 2000; i++) { /* all are right, and cheap */
        n = sac_ahead_gain_most(&g, 7);
        const double s = n ? 1.1 + 0.3 * n : 1;
        n ? sac_ahead_gain_passed(&g, n, s) : sac_ahead_gain_plain(&g, s);
        sac_ahead_gain_settle(&g, n);
        saved += n + 1 - s;
    }
    assert_true(saved > 2 * 2000);
    n = sac_ahead_gain_most(&g, 7);
    assert_true(n == 7 || n == 0);
    lost = spent = 0;
    for (int i = 0; i < 5000; i++) { /* all are right, and a pass costs more than it brings */
        n = sac_ahead_gain_most(&g, 7);
        const double s = n ? 1 + 1.2 * n : 1;
        n ? sac_ahead_gain_passed(&g, n, s) : sac_ahead_gain_plain(&g, s);
        sac_ahead_gain_settle(&g, n);
        lost += s - (n + 1), spent += s;
    }
    assert_true(lost <= 0.03 * spent + 40); /* and what was saved before, up to 32 steps */
}

/* What n sessions gain and lose: a pass without drafts takes 1, a guess `cost` of it, and is right or not. The passes that were saved,
 * for each session, less what all waited for guesses. */
typedef struct played {
    double saved, lost, spent;
    int n_tries;
} played;

static played play(sac_ahead_gain *gains, int n, int n_steps, double cost, bool is_right) {
    sac_ahead_shared pass = {0};
    played p = {0};
    for (int step = 0; step < n_steps; step++) {
        const double share = sac_ahead_shared_is_known(&pass) ? pass.plain_s / n : 0;
        int of[8], all = 0;
        for (int i = 0; i < n; i++) all += of[i] = share > 0 ? sac_ahead_gain_most_shared(&gains[i], share, 7) : 0;
        all ? sac_ahead_shared_passed(&pass) : sac_ahead_shared_plain(&pass, 1);
        for (int i = 0; i < n; i++) {
            if (pass.n_plain > 1) sac_ahead_gain_passed_shared(&gains[i], of[i], pass.plain_s / n, cost * of[i]);
            sac_ahead_gain_settle(&gains[i], is_right ? of[i] : 0);
        }
        p.spent += 1 + cost * all;
        p.lost += cost * all;
        p.saved += is_right ? (double)all / n : 0;
        p.n_tries += all > 0;
    }
    return p;
}

static void the_account_of_a_batch_knows_what_pays(void **state) {
    (void)state;
    static sac_ahead_gain gains[8];
    for (int n = 2; n <= 8; n += 3) {
        memset(gains, 0, sizeof gains);
        for (int i = 0; i < n; i++) sac_ahead_gain_start(&gains[i], 0);
        played p = play(gains, n, 5, 0.4, false); /* a short answer is drafted, too */
        assert_true(p.n_tries > 0);
        p = play(gains, n, 20000, 0.4, false); /* nothing is ever right */
        if (p.lost > 0.03 * p.spent + 0.4 * n || p.n_tries < 50) fail_msg("lost %g of %g in %d tries", p.lost, p.spent, p.n_tries);
        p = play(gains, n, 2000, 0.5 / n, true); /* all are right, and cost half of what they save */
        assert_true(p.saved > 2 * 2000 && p.saved > 1.5 * p.lost);
        p = play(gains, n, 5000, 1.3 / n, true); /* all are right, and the others wait longer than that is worth */
        if (p.lost - p.saved > 0.03 * p.spent + 40) fail_msg("lost %g of %g", p.lost - p.saved, p.spent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_account_knows_what_pays),
        cmocka_unit_test(the_account_of_a_batch_knows_what_pays),
    };
    return cmocka_run_group_tests_name("draft_gain", tests, NULL, NULL);
}
