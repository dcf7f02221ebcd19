/* policy.c - a method runs on a layer, and what it did is counted. */
#include "policy.h"

#include "attend.h"
#include "clock.h"
#include "measure.h"

bool sac_prefill_is_short(const sac_prefill *m, int64_t n_seen) {
    return m->policy->break_even && n_seen < m->policy->break_even(m->p);
}

static void count_prompt(sac_prefill *m, const sac_layer_attention *a) {
    int64_t n_new =
        a->n_seen - a->n_before; /* more than the queries when an earlier layer has dropped some */
    double n = (double)n_new;
    a->stats->prefill_tokens += n;
    a->stats->prefill_pairs_dense += (n * (n + 1) / 2 + n * (double)a->n_before) * a->shape->n_heads;
    m->is_short = sac_prefill_is_short(m, a->n_seen);
}

bool sac_prefill_goes_by_rows(const sac_prefill *m, int64_t n_seen) {
    return m->policy->is_dense || sac_prefill_is_short(m, n_seen);
}

sac_status sac_prefill_attend_rows(sac_prefill *m, const sac_layer_attention *a, int64_t first, int64_t n) {
    if (first == 0) count_prompt(m, a);
    int64_t start = sac_now_ns();
    SAC_TRY(sac_attend_prompt_rows(a, first, n));
    a->stats->attend_ns += sac_now_ns() - start;
    return SAC_OK;
}

sac_status sac_prefill_attend(sac_prefill *m, const sac_layer_attention *a) {
    count_prompt(m, a);
    int64_t start = sac_now_ns();
    SAC_TRY(m->is_short ? sac_attend_prompt_dense(a) : m->policy->attend(m->state, a));
    a->stats->attend_ns += sac_now_ns() - start; /* methods move their share to select_ns */
    return SAC_OK;
}

sac_important sac_prefill_important(const sac_prefill *m) {
    if (m->is_short || !m->policy->important) return (sac_important){0};
    return m->policy->important(m->state);
}

/* Rows that a step reads, of lists of query heads the mean of a group; 0 where only the device knows: then
 * the policy counts (`counted`). */
static double n_rows_read(const sac_layer_attention *a, const sac_choice *choice) {
    const sac_choice_lists *l = &choice->lists;
    if (!sac_choice_is_counted(choice)) return 0;
    if (choice->kind == SAC_CHOICE_VIEW) return (double)choice->view.kv.n_rows;
    if (!l->rows) return (double)a->kv.n_rows;
    return (double)(sac_choice_begin(l, l->n_lists) - sac_choice_begin(l, 0)) / l->n_lists;
}

static void count_choice(const sac_layer_attention *a, const sac_choice *choice) {
    double n_rows = n_rows_read(a, choice);
    sac_count_step(a, n_rows);
    if (choice->n_chosen > 0) a->stats->decode_budget += choice->n_chosen - n_rows * a->shape->n_heads;
}

/* Rows are tokens where none was dropped; of a view nobody says which rows it has, and of a device's lists the host does not
 * know. */
static void tell_read(const sac_layer_attention *a, const sac_choice *choice) {
    const sac_choice_lists *l = &choice->lists;
    const sac_kept_observer *o = &a->observer;
    if (a->shape->device || a->kv.n_rows != a->n_seen || choice->kind == SAC_CHOICE_VIEW) return;
    if (!l->rows) {
        o->read(o->read_ctx, a->layer, 0, 1, NULL, a->n_seen, a->n_seen);
        return;
    }
    const int64_t *start = l->start.device; /* on the CPU the host's, too */
    for (int i = 0; i < l->n_lists; i++)
        o->read(o->read_ctx, a->layer, i, l->n_lists, l->rows + start[i], start[i + 1] - start[i], a->n_seen);
}

sac_status sac_decode_choose(sac_decode *m, const sac_layer_attention *a, sac_choice *choice) {
    int64_t start = sac_now_ns();
    *choice = (sac_choice){.wants_rows = a->observer.read != NULL};
    SAC_TRY(m->policy->select(m->state, a, choice));
    count_choice(a, choice);
    a->stats->select_ns += sac_now_ns() - start;
    if (a->observer.read) tell_read(a, choice);
    return SAC_OK;
}

sac_status sac_decode_attend(sac_decode *m, const sac_layer_attention *a, const sac_mass *mass) {
    int64_t start = sac_now_ns();
    if (m->policy->attend) {
        SAC_TRY(m->policy->attend(m->state, a));
        a->stats->attend_ns += sac_now_ns() - start;
        return SAC_OK;
    }
    sac_choice choice;
    if (a->shape->measure_mass) SAC_TRY(sac_score_mass(a, mass));
    SAC_TRY(sac_decode_choose(m, a, &choice));
    if (a->shape->measure_mass) SAC_TRY(sac_measure_mass(a, &choice, mass));
    start = sac_now_ns();
    SAC_TRY(sac_attend_choice(a, &choice));
    a->stats->attend_ns += sac_now_ns() - start;
    return SAC_OK;
}
