/* cuda_small.c - what a sanitizer is to see, under which kernels are hundreds of times slower: every kernel a
 * few times, from the smallest cases that launch it, and no reference beside it. A call is captured first,
 * which tells its kernels without running them.
 *
 * Left out are clusters of more than two blocks: what each reads of all others takes racecheck minutes, and
 * two blocks run the same code. */
#include "cuda_twin.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>

enum { TIMES = 2, MOST_KERNELS = 1024, MOST_NODES = 64, MOST_CLUSTER = 2 };

/* Launches of a kernel are alike when they have about as many blocks. */
typedef struct launches {
    const void *kernel;
    int blocks; /* in powers of 8 */
    int n;
} launches;

typedef struct small {
    cuda_twin *w;
    sac_ops table;
    const check_options *o;
    size_t more_than, at_most; /* bytes of a case */
    launches all[MOST_KERNELS];
    int n_all, n_cases, n_bad;
} small;

static launches *launches_of(small *m, const void *kernel, int blocks) {
    for (int i = 0; i < m->n_all; i++)
        if (m->all[i].kernel == kernel && m->all[i].blocks == blocks) return &m->all[i];
    if (m->n_all == MOST_KERNELS) return NULL;
    m->all[m->n_all] = (launches){kernel, blocks, 0};
    return &m->all[m->n_all++];
}

/* Whether the call has a kernel that was not launched like this often enough. */
static bool is_wanted(small *m, cudaGraph_t graph) {
    cudaGraphNode_t nodes[MOST_NODES];
    size_t n = MOST_NODES;
    bool wanted = false;
    if (cudaGraphGetNodes(graph, nodes, &n) != cudaSuccess) return true;
    for (size_t i = 0; i < n; i++) {
        struct cudaKernelNodeParams p;
        cudaLaunchAttributeValue v;
        if (cudaGraphKernelNodeGetParams(nodes[i], &p) != cudaSuccess) continue; /* a library's, or a copy */
        if (cudaGraphKernelNodeGetAttribute(nodes[i], cudaLaunchAttributeClusterDimension, &v) ==
                cudaSuccess &&
            v.clusterDim.x > MOST_CLUSTER)
            return false;
        int blocks = 0;
        for (uint64_t left = (uint64_t)p.gridDim.x * p.gridDim.y * p.gridDim.z; left > 1; left /= 8) blocks++;
        launches *l = launches_of(m, p.func, blocks);
        wanted |= l && l->n++ < TIMES;
    }
    cudaGetLastError();
    return wanted;
}

static bool try_capture(small *m, check_case *d, bool *wanted) {
    cudaStream_t stream = m->w->stream.native;
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) return false;
    sac_status st = check_call(&m->table, &m->w->stream, d);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return false;
    *wanted = st == SAC_OK && is_wanted(m, graph);
    cudaGraphDestroy(graph);
    return true;
}

static void run_placed(small *m, const check_case *c, sac_dtype t, check_case *d, const char *name) {
    sac_status st;
    sac_error err;
    bool wanted;
    if (try_capture(m, d, &wanted) && !wanted) return;
    bool ran = cuda_twin_run(m->w, c, d, &m->table, t, &st, m->w->after[0], &err);
    if (m->o->verbose) printf("%s/%s %s\n", check_op_name(c->op), name, c->text);
    m->n_cases++;
    if (ran && st == SAC_OK) return;
    printf("FAIL %s/%s %s: %s\n", check_op_name(c->op), name, c->text, ran ? sac_status_name(st) : err.text);
    m->n_bad++;
}

static bool run_case(void *to, check_case *c, sac_dtype t) {
    small *m = to;
    const sac_ops slots = m->table;
    size_t n_bytes = 0;
    for (int i = 0; i < c->n_buffers; i++) n_bytes += check_extent(&c->buffer[i]);
    if (n_bytes <= m->more_than || n_bytes > m->at_most) return true;
    check_keep_start(c);
    for (int aligned = 0; aligned < 2 && !m->n_bad; aligned++) {
        check_case d;
        if (!cuda_twin_place(m->w, c, t, aligned)) return false;
        cuda_twin_args(m->w, c, t, &d);
        run_placed(m, c, t, &d, "cuda");
        for (int i = 0; i < cuda_n_variants && !m->n_bad; i++) {
            if (cuda_variants[i].op != c->op || strcmp(cuda_variants[i].name, "cudnn") == 0) continue;
            cuda_variants[i].plant(&m->table);
            run_placed(m, c, t, &d, cuda_variants[i].name);
            m->table = slots;
        }
        cuda_twin_release(m->w, c);
    }
    return !m->n_bad;
}

int cuda_check_small(cuda_twin *w, const sac_ops *t, const check_options *o) {
    static const size_t sizes[] = {0, 1 << 15, 1 << 19, (size_t)1 << 31}; /* none rows far apart */
    static small m;
    int n_bad = 0;
    w->numbers_only = true;
    for (int op = 0; op < CHECK_N_OPS && !n_bad; op++) {
        if (o->op && strcmp(o->op, check_op_name((check_op)op)) != 0) continue;
        m = (small){.w = w, .table = *t, .o = o};
        for (size_t i = 1; i < SAC_COUNT(sizes) && !m.n_bad; i++) {
            m.more_than = sizes[i - 1], m.at_most = sizes[i];
            cuda_each_case((check_op)op, o, run_case, &m);
        }
        printf("%-20s %5d cases  %s\n", check_op_name((check_op)op), m.n_cases, m.n_bad ? "FAILED" : "ran");
        n_bad += m.n_bad;
    }
    printf("%s\n", n_bad ? "checkkernels: FAILED" : "checkkernels: all good");
    return n_bad ? 1 : 0;
}
