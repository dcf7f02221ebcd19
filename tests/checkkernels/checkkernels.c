/* checkkernels - every op, at every level of this processor, against the plain C reference.
 *
 *   checkkernels [--quick] [--op NAME] [--variant NAME] [--seed N]     compare; exit 1 when anything is wrong
 *   checkkernels --races [--part I/N] [--quick] [--op NAME] [--variant NAME]   runs them on 3 threads, under ThreadSanitizer
 *   checkkernels --backend cuda [--quick] [--op NAME] [--seed N] [--bench] [--csv]   the same on a card
 *   checkkernels --backend cuda --part I/N [--quick] [--op NAME]   every Nth case from the Ith (0..) on
 *   checkkernels --backend cuda --weights fp8 [--op NAME]   cases of weights of that type whose scales lie apart, no planted faults
 *   checkkernels --backend cuda --small [--racecheck] [--op NAME]   every kernel a few times (cuda_small.c)
 *   checkkernels --bench [--op NAME] [--variant NAME] [--threads N] [--csv]
 *
 * worst/tol is the largest difference in units of what the case allows. bits says whether results were the
 * same twice and on 1, 2 and 3 threads. Planted faults (faults.c) run first: each must be caught. Under
 * AddressSanitizer they and a second run of the reference are left out: their memory is that of its first run. */
#include "check.h"

#include "cpu_flags.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef check_options options;

static check_stream streams[3]; /* of 1, 2 and 3 threads */

bool check_make(check_case *c, check_op op, int i, const options *o) {
    static const sac_dtype group_types[] = {SAC_DTYPE_F32, SAC_DTYPE_BF16, SAC_DTYPE_Q8_0};
    memset(c, 0, sizeof *c);
    c->op = op;
    c->rng = o->seed * 1000003u + (uint64_t)op * 10007u + (uint64_t)i;
    switch (op) {
    case CHECK_linear: return check_make_linear(c, i, o->quick);
    case CHECK_linear_group: return check_make_linear_group(c, i, group_types[i % 3]);
    case CHECK_attention: return check_make_attention(c, i, o->quick);
    case CHECK_key_scores:
    case CHECK_attention_sums:
    case CHECK_kv_gather: return check_make_keys(c, i, o->quick);
    case CHECK_packed_attention: return check_make_packed(c, i, o->quick);
    case CHECK_pack_channels:
    case CHECK_pack_rows: return check_make_pack(c, i, o->quick);
    case CHECK_unpack_rows: return check_make_unpack(c, i);
    case CHECK_even_factors:
    case CHECK_pack_even:
    case CHECK_unpack_even: return check_make_even(c, i);
    case CHECK_even_step: return check_make_even_step(c, i, SAC_DTYPE_F32);
    case CHECK_packed_step: return check_make_packed_step(c, i, SAC_DTYPE_F32);
    case CHECK_store_many:
    case CHECK_attention_many: return check_make_many(c, i);
    case CHECK_packed_step_many: return check_make_packed_many(c, i, SAC_DTYPE_F32);
    case CHECK_packed_scores: return check_make_packed_scores(c, i);
    case CHECK_packed_vote: return check_make_packed_vote(c, i, o->quick);
    case CHECK_top_k:
    case CHECK_mask_scores:
    case CHECK_kept_rows:
    case CHECK_largest:
    case CHECK_top_p: return check_make_select(c, i, o->quick);
    case CHECK_softmax:
    case CHECK_soft_vote: return check_make_softmax(c, i, o->quick);
    case CHECK_mean_rows:
    case CHECK_choice_rows:
    case CHECK_choice_step:
    case CHECK_choice_attend:
    case CHECK_qkv_step:
    case CHECK_gate_up_step:
    case CHECK_out_step: return check_make_step(c, i, o->quick);
    case CHECK_route:
    case CHECK_expert_linear:
    case CHECK_mix_rows: return check_make_experts(c, i);
    case CHECK_causal_conv:
    case CHECK_delta_rule: return check_make_states(c, i);
    case CHECK_edit_scores:
    case CHECK_weigh_scores: return check_make_scores(c, i, o->quick);
    case CHECK_choice_reuse: return check_make_reuse(c, i);
    case CHECK_keep_rows:
    case CHECK_evict_row: return check_make_keep(c, i);
    case CHECK_pattern_rows: return check_make_pattern(c, i);
    case CHECK_antidiagonal_sums:
    case CHECK_block_attention:
    case CHECK_cover_blocks: return check_make_blocks(c, i, o->quick);
    case CHECK_page_bounds:
    case CHECK_page_scores:
    case CHECK_channel_sums:
    case CHECK_pick_channels:
    case CHECK_join_attention: return check_make_pages(c, i, o->quick);
    default: return check_make_rows(c, i, o->quick);
    }
}

/* A table under test and what became of it. */
typedef struct subject {
    const char *name;
    sac_ops table;
    bool is_reference; /* the op of the table is the reference's, which is of one thread */
    int n_cases, n_bad;
    double worst;
    bool unsteady;
    char worst_text[200];
} subject;

/* Runs on 1, 2 and 3 threads have the bits of the first run, which was on 2. Under AddressSanitizer not on 2 again: that touches nothing
 * else, and other builds see to the bits. */
static bool same_bits(check_case *c, const subject *y) {
    if (y->is_reference) return check_is_wanted(c);
    for (int i = 0; i < 3; i++)
        if (!(i == 1 && CHECK_IS_SANITIZED) && !check_same_bits(c, &y->table, &streams[i].s)) return false;
    return true;
}

static void run_case(check_case *c, subject *y, const options *o, bool repeat, bool print) {
    check_result r;
    if (CHECK_IS_SANITIZED && y->is_reference)
        check_reference_run(c, &r);
    else
        check_run(c, &y->table, &streams[1].s, &r);
    bool same = !repeat || !c->same_bits || same_bits(c, y);
    y->n_cases++;
    y->unsteady |= !same;
    if (!same && !r.text[0]) snprintf(r.text, sizeof r.text, "bits differ from run to run");
    if (r.worst > y->worst) {
        y->worst = r.worst;
        snprintf(y->worst_text, sizeof y->worst_text, "%s", c->text);
    }
    if (!r.text[0]) return;
    if (print && y->n_bad < 5)
        printf("FAIL %s/%s %s: %s; %lld bad, %lld not finite, worst/tol %.3g, seed %llu\n",
               check_op_name(c->op), y->name, c->text, r.text, (long long)r.n_bad, (long long)r.n_nan,
               r.worst, (unsigned long long)o->seed);
    y->n_bad++;
}

/* All cases of an op, the reference once for all subjects, and first where it is one of them. */
static void run_op(check_op op, subject *y, int n, const options *o) {
    check_case c;
    bool more = n > 0;
    for (int i = 0; more; i++) {
        more = check_make(&c, op, i, o);
        if (more && c.n_buffers) {
            check_reference(&c, &streams[0].s);
            for (int j = 0; j < n; j++) run_case(&c, &y[j], o, true, true);
        }
        check_case_free(&c);
    }
}

/* The same until each of the subjects, which have a fault, is caught. In the first cases the bits are looked at, too. */
static void run_faults(check_op op, subject *y, int n, const options *o) {
    enum { N_REPEATED = 4 };
    check_case c;
    bool more = n > 0;
    for (int i = 0; more; i++) {
        more = check_make(&c, op, i, o);
        if (more && c.n_buffers) {
            int n_left = 0;
            check_reference(&c, &streams[0].s);
            for (int j = 0; j < n; j++) {
                if (y[j].n_bad == 0) run_case(&c, &y[j], o, i < N_REPEATED, false);
                n_left += y[j].n_bad == 0;
            }
            more = n_left > 0;
        }
        check_case_free(&c);
    }
}

static void run_properties(check_op op, subject *y, const options *o) {
    char text[160];
    int n_bad = check_properties(op, &y->table, &streams[1].s, o->seed, text);
    if (n_bad) printf("FAIL %s/%s property: %s\n", check_op_name(op), y->name, text);
    y->n_bad += n_bad;
}

static void report(check_op op, const subject *y, const options *o) {
    char label[64];
    snprintf(label, sizeof label, "%s/%s", check_op_name(op), y->name);
    printf("%-20s %5d cases   worst/tol %-8.3g bits %-6s %s%s%s\n", label, y->n_cases, y->worst,
           y->unsteady ? "DIFFER" : "same", y->n_bad ? "FAILED" : "ok", o->verbose ? "   " : "",
           o->verbose ? y->worst_text : "");
}

static int n_missed_of(check_op op, const options *o) {
    static const check_fault_list *const lists[] = {&check_faults_layers, &check_faults_packed,  &check_faults_choices,
                                                    &check_faults_skip,   &check_faults_experts, &check_faults_states,
                                                    &check_faults_scores};
    enum { MOST_FAULTS = 40 };
    static subject y[MOST_FAULTS]; /* of one op */
    int n = 0, n_missed = 0;
    for (size_t l = 0; l < SAC_COUNT(lists); l++)
        for (int i = 0; i < lists[l]->n; i++) {
            const check_fault *f = &lists[l]->all[i];
            if (f->op != op) continue;
            if (n == MOST_FAULTS) abort();
            y[n] = (subject){.name = f->name};
            sac_ops_init_ref(&y[n].table);
            f->plant(&y[n++].table);
        }
    run_faults(op, y, n, o);
    for (int i = 0; i < n; i++) {
        if (y[i].n_bad) continue;
        printf("FAIL planted fault %s/%s was not caught\n", check_op_name(op), y[i].name);
        n_missed++;
    }
    return n_missed;
}

static int check_faults_caught(const options *o) {
    int n_missed = 0;
    for (int op = 0; op < CHECK_N_OPS; op++)
        if (!o->op || strcmp(o->op, check_op_name((check_op)op)) == 0) n_missed += n_missed_of((check_op)op, o);
    printf("planted faults: %s\n", n_missed ? "MISSED" : "all caught");
    return n_missed;
}

/* The slot of op, to see whether a level has anything of its own. */
static bool same_slot(check_op op, const sac_ops *a, const sac_ops *b) {
    switch (op) {
#define X(name)                                                                                              \
    case CHECK_##name: return a->name == b->name;
        SAC_OPS(X)
#undef X
    case CHECK_N_OPS: break;
    }
    return true;
}

static int check_all(const options *o) {
    check_variant v[8];
    sac_ops ref;
    int n = check_variants(v), n_bad = CHECK_IS_SANITIZED ? 0 : check_faults_caught(o);
    sac_ops_init_ref(&ref);
    for (int op = 0; op < CHECK_N_OPS; op++) {
        subject y[8] = {0};
        int n_subjects = 0;
        sac_ops last = {0};
        if (o->op && strcmp(o->op, check_op_name((check_op)op)) != 0) continue;
        for (int i = 0; i < n; i++) {
            sac_ops t;
            sac_ops_init_cpu(&t, v[i].flags);
            bool wanted = !o->variant || strcmp(o->variant, v[i].name) == 0;
            if (wanted && !same_slot((check_op)op, &t, &last))
                y[n_subjects++] = (subject){.name = v[i].name, .table = t, .is_reference = same_slot((check_op)op, &t, &ref)};
            last = t;
        }
        run_op((check_op)op, y, n_subjects, o);
        for (int i = 0; i < n_subjects; i++) run_properties((check_op)op, &y[i], o);
        for (int i = 0; i < n_subjects; i++) {
            report((check_op)op, &y[i], o);
            n_bad += y[i].n_bad;
        }
    }
    printf("%s\n", n_bad ? "checkkernels: FAILED" : "checkkernels: all good");
    return n_bad ? 1 : 0;
}

/* Compares nothing: what threads do to each other's results is seen by ThreadSanitizer. */
static int run_races(const options *o) {
    check_variant v[8];
    int n = check_variants(v), n_run = 0, n_failed = 0;
    for (int op = 0; op < CHECK_N_OPS; op++) {
        if (o->op && strcmp(o->op, check_op_name((check_op)op)) != 0) continue;
        check_case c;
        bool more = true;
        for (int i = o->part; more; i += o->n_parts) {
            more = check_make(&c, (check_op)op, i, o);
            for (int j = 0; more && c.n_buffers && j < n; j++) {
                sac_ops t;
                if (o->variant && strcmp(o->variant, v[j].name) != 0) continue;
                sac_ops_init_cpu(&t, v[j].flags);
                if (check_call(&t, &streams[2].s, &c) != SAC_OK) {
                    printf("FAIL %s/%s %s: failed\n", check_op_name((check_op)op), v[j].name, c.text);
                    n_failed++;
                }
                n_run++;
            }
            check_case_free(&c);
        }
    }
    printf("%d calls on 3 threads: %s\n", n_run, n_failed || !n_run ? "FAILED" : "all good");
    return n_failed || !n_run;
}

/* Benches have chains of ops too. */
static bool is_op(const char *name, bool bench) {
    for (int op = 0; op < CHECK_N_OPS; op++)
        if (strcmp(name, check_op_name((check_op)op)) == 0) return true;
    return bench && (strcmp(name, "selection") == 0 || strcmp(name, "blocks") == 0 || strcmp(name, "fp8") == 0 ||
                     strcmp(name, "step") == 0 || strcmp(name, "gguf_step") == 0 || strcmp(name, "prefill_selection") == 0);
}

static bool parse(int argc, char **argv, options *o, const char **backend) {
    *o = (options){.seed = 1, .n_threads = 2, .n_parts = 1};
    *backend = "cpu";
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--quick") == 0)
            o->quick = true;
        else if (strcmp(argv[i], "--small") == 0)
            o->quick = o->small = true;
        else if (strcmp(argv[i], "--racecheck") == 0)
            o->racecheck = true;
        else if (strcmp(argv[i], "--races") == 0)
            o->races = true;
        else if (strcmp(argv[i], "--bench") == 0)
            o->bench = true;
        else if (strcmp(argv[i], "--csv") == 0)
            o->csv = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            o->verbose = true;
        else if (next && strcmp(argv[i], "--op") == 0)
            o->op = argv[++i];
        else if (next && strcmp(argv[i], "--backend") == 0)
            *backend = argv[++i];
        else if (next && strcmp(argv[i], "--variant") == 0)
            o->variant = argv[++i];
        else if (next && strcmp(argv[i], "--weights") == 0)
            o->weights = argv[++i];
        else if (next && strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (next && strcmp(argv[i], "--part") == 0 && sscanf(next, "%d/%d", &o->part, &o->n_parts) == 2)
            i++;
        else if (next && strcmp(argv[i], "--threads") == 0)
            o->n_threads = atoi(argv[++i]);
        else
            return false;
    }
    return o->n_threads >= 1 && o->n_threads <= SAC_MAX_THREADS && o->part >= 0 && o->part < o->n_parts &&
           (!o->weights || (strcmp(*backend, "cuda") == 0 && !o->bench)) &&
           (o->n_parts == 1 || o->races || (strcmp(*backend, "cuda") == 0 && !o->bench));
}

int main(int argc, char **argv) {
    options o;
    const char *backend;
    char flags[128];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(argc, argv, &o, &backend)) {
        fprintf(stderr,
                "usage: checkkernels [--quick] [--races] [--small [--racecheck]] [--bench] [--op NAME] "
                "[--backend cpu|cuda] [--part I/N] [--variant ref|avx2|avx512|vnni|vbmi|amx|cuda|...] [--seed N] "
                "[--weights fp8|...] [--threads N] [--csv] [--verbose]\n");
        return 64;
    }
    if (o.op && !is_op(o.op, o.bench)) {
        fprintf(stderr, "checkkernels: no op \"%s\": kernels/ops/ops.h lists them\n", o.op);
        return 64;
    }
    if (strcmp(backend, "cuda") == 0) {
#ifdef SAC_CUDA
        return check_cuda(&o);
#else
        fprintf(stderr, "checkkernels: this build has no CUDA backend (configure with -DSAC_CUDA=ON)\n");
        return 77;
#endif
    }
    if (!o.csv) printf("processor: %s\n", sac_cpu_flags_text(sac_cpu_flags(), flags, sizeof flags));
    if (o.bench) return check_bench(o.op, o.variant, o.csv, o.n_threads);
    for (int i = 0; i < 3; i++)
        if (!check_stream_open(&streams[i], i + 1)) return 1;
    int rc = o.races ? run_races(&o) : check_all(&o);
    for (int i = 0; i < 3; i++) check_stream_free(&streams[i]);
    return rc;
}
