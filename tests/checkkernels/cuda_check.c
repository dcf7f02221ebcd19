/* cuda_check.c - every case of an op on a card against the plain C reference, in f32, f16 and bf16, twice
 * each: the second time, without early starts (early.cuh), must give the same bits. */
#include "cuda_twin.h"

#include "cuda/weights/code_layout.h"
#include "cuda/weights/cuda_weights.h"

#include <math.h>
#include <string.h>

static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};

typedef struct tally {
    const char *name;
    sac_ops table;
    bool whole; /* the slot itself: it may not refuse what it has types for */
    int n_cases, n_refused, n_bad;
    double worst;
    bool unsteady;
    char worst_text[200];
} tally;

enum { MOST_SUBJECTS = 10 /* the slot and its variants */ };

typedef struct bed {
    cuda_twin twin;
    check_stream host;
    const check_options *o;
    bool print, broken;
} bed;

/* No kernel reads keys through a table of pages: the op has to say so. */
static bool has_no_kernel(const check_case *c) {
    return c->op == CHECK_attention && c->attention.kv.pages;
}

/* The slot cuts spans into calls without any, so its variants are not asked. */
static bool is_of_slot(const check_case *c) {
    return has_no_kernel(c) || (c->op == CHECK_attention && c->attention.n_spans);
}

/* Weights that the device does not take with this type of activations, as it says before it places them. */
static bool is_refused(const sac_weight *w, sac_dtype t) {
    return w->format != SAC_WEIGHT_FLOATS && !sac_cuda_takes_weight(w, t);
}

/* Blocks, and codes whose scales lie apart, that the fused step of a token takes (blocks/block_stream.cuh). */
static bool is_fused(const sac_device *d, const check_case *c, sac_dtype t) {
    const sac_weight *w = &c->qkv_step.wq;
    if (t == SAC_DTYPE_F32 || c->op != CHECK_qkv_step) return false;
    switch ((int)w->tensor.dtype) {
    case SAC_DTYPE_Q8_0:
    case SAC_DTYPE_Q4_K:
    case SAC_DTYPE_Q6_K: return !d->no_wide_streams;
    }
    if (w->format == SAC_WEIGHT_FLOATS || w->order.data) return false;
    switch ((int)sac_code_layout_type(w, sac_code_layout_is_plain(d))) {
    case SAC_DTYPE_C4_32:
    case SAC_DTYPE_C4_64:
    case SAC_DTYPE_C4_128: return true;
    case SAC_DTYPE_C8_128:
    case SAC_DTYPE_E4M3_128: return !d->no_wide_streams;
    case SAC_DTYPE_E4M3_ROWS: return !c->qkv_step.rotation.interleaved && (128 % c->qkv_step.kv.head_dim == 0 ||
                                                                         c->qkv_step.kv.head_dim % 128 == 0);
    default: return false;
    }
}

static bool is_of_plain_rows(const sac_device *d, const sac_weight *w) {
    return w->format != SAC_WEIGHT_FLOATS && !w->order.data &&
           (int)sac_code_layout_type(w, sac_code_layout_is_plain(d)) == SAC_DTYPE_E4M3_ROWS;
}

/* Plain rows in all of its products, and so much in each, in tiles of 128 outputs, of gate and up of 64, and 128 elements, that every
 * processor has a part. */
static bool is_way_out(const sac_device *d, const sac_out_step_args *a) {
    const sac_weight *w[] = {&a->wo, &a->gate, &a->up, &a->down};
    const int64_t hidden = (a->x.cols + 127) / 128, k = (a->o.cols + 127) / 128,
                  wide = (a->wide.cols + 127) / 128, halves = (a->wide.cols + 63) / 64,
                  least = d->n_processors;
    for (int i = 0; i < 4; i++)
        if (!is_of_plain_rows(d, w[i])) return false;
    return hidden * k >= least && halves * hidden >= least && hidden * wide >= least;
}

static bool may_refuse(const sac_device *d, const check_case *c, sac_dtype t, bool aligned) {
    const sac_gate_up_step_args *gate = &c->gate_up_step;
    bool is_half = t != SAC_DTYPE_F32 && gate->gate.tensor.dtype == t;
    if (c->op == CHECK_gate_up_step && aligned && is_half && gate->x.cols % 8 == 0)
        return gate->x.rows > (d->compute == 90 && !d->no_few_rows ? 32 : 8);
    if (c->op == CHECK_gate_up_step && aligned && t != SAC_DTYPE_F32 && is_of_plain_rows(d, &gate->gate)) return gate->x.rows > 64;
    if (c->op == CHECK_out_step && aligned && t != SAC_DTYPE_F32 && is_way_out(d, &c->out_step))
        return d->no_out || c->out_step.x.rows > 1;
    if (aligned && is_fused(d, c, t)) return false;
    if (c->op == CHECK_qkv_step || c->op == CHECK_gate_up_step || c->op == CHECK_out_step ||
        c->op == CHECK_choice_step || c->op == CHECK_attention_many || c->op == CHECK_packed_step_many ||
        c->op == CHECK_choice_attend || c->op == CHECK_packed_vote || c->op == CHECK_block_attention)
        return true; /* the ops that they fuse go on */
    return (c->op == CHECK_linear_group && is_refused(&c->linear_group.w[0], t)) ||
           (c->op == CHECK_expert_linear && c->expert_linear.w[0].format != SAC_WEIGHT_FLOATS) ||
           (c->op == CHECK_linear && is_refused(&c->linear.w, t)) ||
           (c->op == CHECK_embed && is_refused(&c->embed.table, t));
}

static void judge(bed *b, const check_case *c, tally *y, sac_dtype t, bool aligned, const check_result *r) {
    if (r->worst > y->worst) {
        y->worst = r->worst;
        snprintf(y->worst_text, sizeof y->worst_text, "%s %s", sac_dtype_name(t), c->text);
    }
    if (!r->text[0]) return;
    if (b->print && y->n_bad < 4)
        printf("FAIL %s/%s %s%s %s: %s; %lld bad, %lld not finite, worst/tol %.3g, seed %llu\n",
               check_op_name(c->op), y->name, sac_dtype_name(t), aligned ? " aligned" : "", c->text, r->text,
               (long long)r->n_bad, (long long)r->n_nan, r->worst, (unsigned long long)b->o->seed);
    y->n_bad++;
}

static void run_on(bed *b, check_case *c, check_case *d, tally *y, sac_dtype t, bool aligned) {
    cuda_twin *w = &b->twin;
    check_result r = {0};
    sac_status st;
    sac_error err;
    if (is_of_slot(c) && !y->whole) return;
    w->numbers_only = y->whole || strcmp(y->name, "cudnn") == 0;
    if (!cuda_twin_run(w, c, d, &y->table, t, &st, w->after[0], &err)) {
        printf("FAIL %s/%s %s %s: %s\n", check_op_name(c->op), y->name, sac_dtype_name(t), c->text, err.text);
        b->broken = true;
        y->n_bad++;
        return;
    }
    if (st == SAC_UNSUPPORTED && (!y->whole || has_no_kernel(c) || may_refuse(w->device, c, t, aligned))) {
        y->n_refused++;
        return;
    }
    y->n_cases++;
    if (st != SAC_OK || has_no_kernel(c)) {
        snprintf(r.text, sizeof r.text, "answered %s", sac_status_name(st));
        judge(b, c, y, t, aligned, &r);
        return;
    }
    cuda_twin_compare(w, c, t, w->after[0], &r);
    const bool no_early = w->device->no_early;
    w->device->no_early = true;
    bool ran = cuda_twin_run(w, c, d, &y->table, t, &st, w->after[1], &err);
    w->device->no_early = no_early;
    if (!ran) {
        b->broken = true;
        return;
    }
    /* cuDNN's engine for one query adds its parts as they come; the slot itself does not use it */
    bool steady = c->same_bits && !(strcmp(y->name, "cudnn") == 0 && c->attention.n_q == 1);
    if (steady && memcmp(w->after[0], w->after[1], w->used) != 0) {
        y->unsteady = true;
        if (!r.text[0]) snprintf(r.text, sizeof r.text, "bits differ from run to run");
    }
    judge(b, c, y, t, aligned, &r);
}

/* One case in one type, for all subjects. */
static void run_type(bed *b, check_case *c, tally *y, int n, sac_dtype t) {
    cuda_round_inputs(c, t);
    cuda_allow_codes(c, t);
    check_reference(c, &b->host.s);
    for (int aligned = 0; aligned < 2 && !b->broken; aligned++) {
        check_case d;
        if (cuda_twin_place(&b->twin, c, t, aligned)) {
            cuda_twin_args(&b->twin, c, t, &d);
            for (int j = 0; j < n && !b->broken; j++) run_on(b, c, &d, &y[j], t, aligned);
        } else {
            b->broken = true;
        }
        cuda_twin_release(&b->twin, c);
    }
}

/* How many cases of an op the CPU has, found without making all of them: a part makes its own alone. */
static int n_shared_cases(check_op op, const check_options *o) {
    static int found[CHECK_N_OPS]; /* and one more */
    int from = 0, to = 1; /* from cases are there, and less than `to`, when the first loop is through */
    if (found[op]) return found[op] - 1;
    for (;; to *= 2) {
        check_case c;
        const bool more = check_make(&c, op, to - 1, o);
        check_case_free(&c);
        if (!more) break;
        from = to;
    }
    while (to - from > 1) {
        const int i = from + (to - from) / 2;
        check_case c;
        const bool more = check_make(&c, op, i - 1, o);
        check_case_free(&c);
        *(more ? &from : &to) = i;
    }
    found[op] = from + 1;
    return from;
}

/* Whether --weights asks for a case of the card's. */
static bool is_wanted(const check_options *o, check_op op, int i) {
    const char *type = o->weights ? i >= 0 ? cuda_case_weights(op, i) : NULL : "";
    return type && (!o->weights || strcmp(type, o->weights) == 0);
}

static bool make(check_case *c, check_op op, int i, const check_options *o, int n_shared) {
    if (i < n_shared) return check_make(c, op, i, o);
    memset(c, 0, sizeof *c);
    c->op = op;
    c->rng = o->seed * 7368787u + (uint64_t)op * 104729u + (uint64_t)i;
    return cuda_make_case(c, op, i - n_shared);
}

/* Parts cut out of one matrix in blocks: on a GPU each matrix is in an order of its own. */
static bool is_cut_of_blocks(const check_case *c) {
    return c->op == CHECK_linear_group && !c->exact_x && c->linear_group.w[0].format != SAC_WEIGHT_FLOATS;
}

/* The CPU's cases of weights whose scales lie apart come to sums that f16 does not hold: cuda_codes.c has the device's own. */
static bool is_left_to_codes(const check_case *c, sac_dtype t) {
    return c->op == CHECK_linear && c->linear.w.format != SAC_WEIGHT_FLOATS &&
           sac_code_layout_type(&c->linear.w, false) != SAC_N_DTYPES && t != SAC_DTYPE_F32;
}

void cuda_each_case(check_op op, const check_options *o, bool (*f)(void *to, check_case *c, sac_dtype t),
                    void *to) {
    const int n_shared = n_shared_cases(op, o), n = n_shared + cuda_n_cases(op);
    bool go = true;
    for (int i = o->part; go && i < n; i += o->n_parts) {
        if (!is_wanted(o, op, i - n_shared)) continue;
        for (int t = 0; go && t < (int)SAC_COUNT(types); t++) {
            if (i >= n_shared && types[t] != cuda_case_type(op, i - n_shared)) continue;
            check_case c; /* anew for each type: inputs are rounded in place */
            const bool made = make(&c, op, i, o, n_shared);
            const bool is_left = i < n_shared && c.n_buffers && is_left_to_codes(&c, types[t]);
            if (made && c.n_buffers && !is_left && !is_cut_of_blocks(&c)) go = f(to, &c, types[t]);
            check_case_free(&c);
        }
    }
}

typedef struct run {
    bed *b;
    tally *y;
    int n;
} run;

static bool run_case(void *to, check_case *c, sac_dtype t) {
    run *r = to;
    run_type(r->b, c, r->y, r->n, t);
    return !r->b->broken && (r->b->print || !r->y->n_bad); /* or a planted fault has been caught */
}
static void run_op(bed *b, check_op op, tally *y, int n) {
    cuda_each_case(op, b->o, run_case, &(run){b, y, n});
}

static void report(check_op op, const tally *y, bool verbose) {
    char label[64];
    snprintf(label, sizeof label, "%s/%s", check_op_name(op), y->name);
    printf("%-24s %5d cases %5d refused   worst/tol %-8.3g bits %-6s %s%s%s\n", label, y->n_cases,
           y->n_refused, y->worst, y->unsteady ? "DIFFER" : "same", y->n_bad ? "FAILED" : "ok",
           verbose ? "   " : "", verbose ? y->worst_text : "");
    fflush(stdout);
}

static int check_faults_caught(bed *b, const sac_ops *t) {
    const check_options *o = b->o;
    check_options all_cases = *o; /* a part of them need not catch a fault */
    int n_missed = 0;
    all_cases.part = 0, all_cases.n_parts = 1;
    b->o = &all_cases;
    b->print = false;
    for (int i = o->part; i < cuda_faults.n && !b->broken; i += o->n_parts) {
        const check_fault *f = &cuda_faults.all[i];
        if (o->op && strcmp(o->op, check_op_name(f->op)) != 0) continue;
        tally y = {.name = f->name, .table = *t, .whole = true};
        f->plant(&y.table);
        run_op(b, f->op, &y, 1);
        if (!y.n_bad) printf("FAIL planted fault %s/%s was not caught\n", check_op_name(f->op), f->name);
        n_missed += !y.n_bad;
    }
    printf("planted faults: %s\n", n_missed ? "MISSED" : "all caught");
    b->print = true;
    b->o = o;
    return n_missed;
}

static int check_op_on(bed *b, check_op op, const sac_ops *t) {
    tally y[MOST_SUBJECTS];
    int n = 0, n_bad = 0;
    const char *only = b->o->variant;
    if (!only || strcmp(only, "cuda") == 0) y[n++] = (tally){.name = "cuda", .table = *t, .whole = true};
    for (int i = 0; i < cuda_n_variants; i++) {
        if (cuda_variants[i].op != op || (only && strcmp(only, cuda_variants[i].name) != 0)) continue;
        y[n] = (tally){.name = cuda_variants[i].name, .table = *t};
        cuda_variants[i].plant(&y[n++].table);
    }
    if (n) run_op(b, op, y, n);
    for (int j = 0; j < n; j++) {
        report(op, &y[j], b->o->verbose);
        n_bad += y[j].n_bad;
    }
    return n_bad;
}

static int compare_all(bed *b, const sac_ops *t) {
    const check_options *o = b->o;
    const bool all = !o->variant && !o->weights, also = all && o->part == 0; /* long prompts */
    int n_bad = all ? check_faults_caught(b, t) : 0;
    for (int op = 0; op < CHECK_N_OPS && !b->broken; op++)
        if (!o->op || strcmp(o->op, check_op_name((check_op)op)) == 0)
            n_bad += check_op_on(b, (check_op)op, t);
    if (!b->broken && also && (!o->op || strcmp(o->op, "attention") == 0))
        n_bad += cuda_check_large(&b->twin, t);
    if (!b->broken && all && (!o->op || strcmp(o->op, "packed_step") == 0))
        n_bad += cuda_check_sequence(&b->twin, t);
    if (!b->broken && all && (!o->op || strcmp(o->op, "even_step") == 0)) n_bad += cuda_check_even_sequence(&b->twin, t);
    const char *refusal = sac_cuda_cudnn_refusal(&b->twin.stream);
    if (refusal[0]) printf("cuDNN last refused: %s\n", refusal);
    printf("%s\n", n_bad || b->broken ? "checkkernels: FAILED" : "checkkernels: all good");
    return n_bad || b->broken;
}

int check_cuda(const check_options *o) {
    static bed b;
    sac_device device;
    sac_ops t;
    sac_error err;
    if (o->weights && !cuda_has_codes_of(o->weights)) {
        fprintf(stderr, "checkkernels: no cases of weights \"%s\": give awq, gptq_4, packed_4, i8, fp8, nf4 or the like\n", o->weights);
        return 64;
    }
    b = (bed){.o = o, .print = true};
    if (sac_device_open(&device, SAC_DEVICE_CUDA, 0, &err) != SAC_OK) {
        printf("checkkernels: %s\n", err.text);
        return err.status == SAC_UNSUPPORTED ? 77 : 1;
    }
    if (!cuda_twin_open(&b.twin, &device, &err) || sac_ops_open(&t, &b.twin.stream, &err) != SAC_OK ||
        !check_stream_open(&b.host, 1)) {
        printf("checkkernels: %s\n", err.text);
        return 1;
    }
    printf("card: %s, sm_%d, %d multiprocessors, %.1f GiB; %s\n", device.name, device.compute,
           device.n_processors, (double)device.memory_bytes / 0x1p30, sac_cuda_ops_line(&b.twin.stream));
    int rc = o->bench   ? cuda_bench(&b.twin, &t, o)
             : o->small ? cuda_check_small(&b.twin, &t, o)
                        : compare_all(&b, &t);
    cuda_twin_close(&b.twin);
    check_stream_free(&b.host);
    return rc;
}
