/* cut.c - what cuts a distribution before a draw: top-k, top-p, min-p, typical, epsilon, eta and top-H as
 * transformers has them, XTC and mirostat as llama.cpp does. */
#include "score_processor.h"

#include "order.h"

#include <math.h>

typedef struct mass {
    double best, sum; /* the largest score; of exp(score - best) */
} mass;

static mass weigh_all(const sac_scoring *x) {
    mass m = {-INFINITY, 0};
    for (int i = 0; i < x->vocab; i++)
        if ((double)x->scores[i] > m.best) m.best = (double)x->scores[i];
    for (int i = 0; i < x->vocab; i++)
        if (x->scores[i] > -INFINITY) m.sum += exp((double)x->scores[i] - m.best);
    return m;
}

static double share(const sac_scoring *x, mass m, int32_t id) {
    return x->scores[id] > -INFINITY ? exp((double)x->scores[id] - m.best) / m.sum : 0;
}

/* Entropy in nats. */
static double entropy(const sac_scoring *x, mass m) {
    double h = 0;
    for (int i = 0; i < x->vocab; i++) {
        double p = share(x, m, i);
        if (p > 0) h -= p * log(p);
    }
    return h;
}

/* Those above -infinity to x->order, the largest first, equal ones by rising id; how many. */
static int sort_all(sac_scoring *x, const float *keys) {
    int n = 0;
    for (int32_t i = 0; i < x->vocab; i++)
        if (x->scores[i] > -INFINITY) x->spare[n++] = i;
    sac_order_falling(keys, x->spare, x->order, n);
    return n;
}

static void drop(sac_scoring *x, int from, int to) {
    for (int i = from; i < to; i++) x->scores[x->order[i]] = -INFINITY;
}

void sac_process_tops(sac_scoring *x) {
    bool k = x->top_k > 0 && x->top_k < x->vocab;
    if (!k && x->top_p >= 1 && x->min_p <= 0) return;
    int n = sort_all(x, x->scores);
    if (k && n > x->top_k) {
        int keep = x->top_k; /* ties with the last stay, as with transformers */
        while (keep < n && x->scores[x->order[keep]] == x->scores[x->order[x->top_k - 1]]) keep++;
        drop(x, keep, n);
        n = keep;
    }
    mass m = weigh_all(x);
    if (x->top_p < 1) {
        double rest = 1;
        int keep = 0;
        while (keep < n && (keep == 0 || rest > 1 - x->top_p)) rest -= share(x, m, x->order[keep++]);
        drop(x, keep, n);
        n = keep;
    }
    m = weigh_all(x);
    for (int i = 1; i < n; i++)
        if (share(x, m, x->order[i]) < x->min_p * share(x, m, x->order[0]))
            x->scores[x->order[i]] = -INFINITY;
}

/* Nguyen et al., arXiv:2509.02510: the likeliest of 100 that hold a share of their entropy. */
void sac_process_top_h(sac_scoring *x) {
    enum { CANDIDATES = 100 };
    double top_h = x->controls->top_h, sum = 0, h = 0, held = 0;
    if (!(top_h > 0)) return;
    int n = sort_all(x, x->scores), few = n < CANDIDATES ? n : CANDIDATES, keep = 0;
    mass m = weigh_all(x);
    for (int i = 0; i < few; i++) sum += share(x, m, x->order[i]);
    for (int i = 0; i < few; i++) {
        double p = share(x, m, x->order[i]) / sum;
        if (p > 0) h -= p * log(p);
    }
    for (; keep < few; keep++) {
        double p = share(x, m, x->order[keep]) / sum;
        if (p > 0) held -= p * log(p);
        if (keep > 0 && held > h * top_h) break;
    }
    drop(x, keep, n);
}

/* Meister et al., arXiv:2202.00666: those whose surprise is nearest to the entropy. */
void sac_process_typical(sac_scoring *x) {
    double typical = x->controls->typical_p, sum = 0;
    if (!(typical > 0 && typical < 1)) return;
    mass m = weigh_all(x);
    double h = entropy(x, m);
    for (int i = 0; i < x->vocab; i++)
        x->keys[i] = (float)-fabs(m.best + log(m.sum) - (double)x->scores[i] - h);
    int n = sort_all(x, x->keys), last = 0;
    for (; last < n - 1; last++) {
        sum += share(x, m, x->order[last]);
        if (!(sum < typical)) break;
    }
    int keep = last + 1;
    while (keep < n && x->keys[x->order[keep]] == x->keys[x->order[last]]) keep++;
    drop(x, keep, n);
}

static void cut_below(sac_scoring *x, mass m, double least) {
    for (int i = 0; i < x->vocab; i++)
        if (share(x, m, i) < least && (double)x->scores[i] < m.best) x->scores[i] = -INFINITY;
}

/* Hewitt et al., arXiv:2210.15191. */
void sac_process_cutoffs(sac_scoring *x) {
    const sac_controls *c = x->controls;
    if (c->epsilon_cutoff > 0 && c->epsilon_cutoff < 1) cut_below(x, weigh_all(x), c->epsilon_cutoff);
    if (!(c->eta_cutoff > 0 && c->eta_cutoff < 1)) return;
    mass m = weigh_all(x);
    cut_below(x, m, fmin(c->eta_cutoff, sqrt(c->eta_cutoff) * exp(-entropy(x, m))));
}

/* Of those at or above the threshold only the least likely stays. */
void sac_process_xtc(sac_scoring *x) {
    const sac_controls *c = x->controls;
    double threshold = c->xtc_threshold > 0 ? c->xtc_threshold : 0.1;
    if (!(c->xtc_probability > 0) || x->chance > c->xtc_probability || threshold > 0.5) return;
    int n = sort_all(x, x->scores), above = 0;
    mass m = weigh_all(x);
    while (above < n && share(x, m, x->order[above]) >= threshold) above++;
    if (above > 1) drop(x, 0, above - 1);
}

/* Basu et al., arXiv:2007.14966. Version 1 finds the exponent of a Zipf law over 100 tokens. */
static int mirostat_keeps(const sac_scoring *x, mass m, int n) {
    enum { CANDIDATES = 100 };
    double tb = 0, tt = 0;
    for (int i = 0; i < CANDIDATES - 1 && i < n - 1; i++) {
        double t = log((i + 2.0) / (i + 1.0));
        tb += t * log(share(x, m, x->order[i]) / share(x, m, x->order[i + 1]));
        tt += t * t;
    }
    double s = tt > 0 ? tb / tt : 1, e = s - 1;
    double k = pow(e * pow(2, x->mu) / (1 - pow(x->vocab, -e)), 1 / s);
    return k > 1 ? (k < n ? (int)k : n) : isnan(k) ? n : 1;
}

void sac_process_mirostat(sac_scoring *x) {
    int n = sort_all(x, x->scores), keep = 0;
    mass m = weigh_all(x);
    if (x->controls->mirostat == 1)
        keep = mirostat_keeps(x, m, n);
    else
        while (keep < n && (keep == 0 || -log2(share(x, m, x->order[keep])) <= x->mu)) keep++;
    drop(x, keep, n);
}
