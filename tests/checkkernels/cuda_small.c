/* cuda_small.c - what a sanitizer is to see, under which kernels are hundreds of times slower: every kernel
 * once for each size of its clusters and about how many blocks, and no reference beside it. A call is
 * captured first, which tells its kernels without running them.
 *
 * Left out for racecheck: what libraries take part in, and clusters of more than four blocks, where it takes
 * minutes over what each reads of all others. */
#include "cuda_twin.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string.h>

enum { MOST_LAUNCHES = 2048, MOST_NODES = 64, MOST_CLUSTER = 4 };

typedef struct launch {
    const void *kernel;
    unsigned cluster;
    int blocks; /* in powers of 8; 0 of clusters */
} launch;

typedef struct small {
    cuda_twin *w;
    sac_ops table;
    const check_options *o;
    launch seen[MOST_LAUNCHES];
    int n_seen, n_cases, n_bad;
} small;

/* The driver's functions: the runtime's do not know the kernels of libraries. */
static struct {
    CUresult (*node_type)(CUgraphNode, CUgraphNodeType *);
    CUresult (*kernel_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
    CUresult (*kernel_attribute)(CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue *);
} driver;

static bool find(const char *name, void *to) {
    enum cudaDriverEntryPointQueryResult found;
    return cudaGetDriverEntryPointByVersion(name, to, 12030, cudaEnableDefault, &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
}
static bool find_all(void) {
    return find("cuGraphNodeGetType", &driver.node_type) &&
           find("cuGraphKernelNodeGetParams", &driver.kernel_params) &&
           find("cuGraphKernelNodeGetAttribute", &driver.kernel_attribute);
}

/* The kernel of a node; false when it has none. */
static bool kernel_of(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
    CUgraphNodeType type;
    return driver.node_type(node, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_KERNEL &&
           driver.kernel_params(node, p) == CUDA_SUCCESS;
}

static launch launch_of(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
    CUkernelNodeAttrValue v;
    launch l = {p->kern ? (const void *)p->kern : (const void *)p->func, 0, 0};
    if (driver.kernel_attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v) == CUDA_SUCCESS)
        l.cluster = v.clusterDim.x;
    uint64_t blocks = (uint64_t)p->gridDimX * p->gridDimY * p->gridDimZ;
    while (l.cluster <= 1 && blocks > 1) blocks /= 8, l.blocks++;
    return l;
}

/* racecheck looks at shared memory alone: a few blocks, about one a processor, or many. */
static bool is_new(small *m, launch l) {
    if (m->o->racecheck) l.blocks = l.blocks < 3 ? 1 : l.blocks == 3 ? 3 : 4;
    for (int i = 0; i < m->n_seen; i++) {
        const launch *o = &m->seen[i];
        if (o->kernel == l.kernel && o->cluster == l.cluster && o->blocks == l.blocks) return false;
    }
    if (m->n_seen < MOST_LAUNCHES) m->seen[m->n_seen++] = l;
    return true;
}

/* Whether the call launches a kernel as it was not before. */
static bool is_wanted(small *m, cudaGraph_t graph) {
    cudaGraphNode_t nodes[MOST_NODES];
    CUDA_KERNEL_NODE_PARAMS p;
    size_t n = MOST_NODES;
    bool wanted = false;
    if (cudaGraphGetNodes(graph, nodes, &n) != cudaSuccess) return true;
    for (size_t i = 0; m->o->racecheck && i < n; i++)
        if (kernel_of(nodes[i], &p) && launch_of(nodes[i], &p).cluster > MOST_CLUSTER) return false;
    for (size_t i = 0; i < n; i++)
        if (kernel_of(nodes[i], &p) && is_new(m, launch_of(nodes[i], &p))) wanted = true;
    return wanted;
}

static bool try_capture(small *m, check_case *d, bool *wanted) {
    cudaStream_t stream = m->w->stream.native;
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) return false;
    sac_status st = check_call(&m->table, &m->w->stream, d);
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return false;
    *wanted = st == SAC_OK ? is_wanted(m, graph) : st != SAC_UNSUPPORTED; /* a failure is run, and told */
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

/* Only ops with variants go to libraries, by these; for racecheck the others take the slot's place. */
static bool is_library(const cuda_variant *v) {
    return strcmp(v->name, "cublaslt") == 0 || strcmp(v->name, "cudnn") == 0;
}
static bool has_variants(check_op op) {
    for (int i = 0; i < cuda_n_variants; i++)
        if (cuda_variants[i].op == op) return true;
    return false;
}

static bool run_case(void *to, check_case *c, sac_dtype t) {
    small *m = to;
    const sac_ops slots = m->table;
    check_keep_start(c);
    for (int aligned = 0; aligned < 2 && !m->n_bad; aligned++) {
        check_case d;
        if (!cuda_twin_place(m->w, c, t, aligned)) {
            printf("FAIL %s %s: no room on the card\n", check_op_name(c->op), c->text);
            cuda_twin_release(m->w, c);
            m->n_bad++;
            return false;
        }
        cuda_twin_args(m->w, c, t, &d);
        if (!m->o->racecheck || !has_variants(c->op)) run_placed(m, c, t, &d, "cuda");
        for (int i = 0; i < cuda_n_variants && !m->n_bad; i++) {
            const cuda_variant *v = &cuda_variants[i];
            if (v->op != c->op || (m->o->racecheck && is_library(v))) continue;
            v->plant(&m->table);
            run_placed(m, c, t, &d, v->name);
            m->table = slots;
        }
        cuda_twin_release(m->w, c);
    }
    return !m->n_bad;
}

int cuda_check_small(cuda_twin *w, const sac_ops *t, const check_options *o) {
    static small m;
    int n_bad = 0, n_ops = 0;
    if (!find_all()) {
        printf("checkkernels: --small needs a driver for CUDA 12.3 or later\n");
        return 1;
    }
    w->numbers_only = true;
    for (int op = 0; op < CHECK_N_OPS && !n_bad; op++) {
        if (o->op && strcmp(o->op, check_op_name((check_op)op)) != 0) continue;
        n_ops++;
        m = (small){.w = w, .table = *t, .o = o};
        cuda_each_case((check_op)op, o, run_case, &m);
        printf("%-20s %5d cases  %s\n", check_op_name((check_op)op), m.n_cases, m.n_bad ? "FAILED" : "ran");
        n_bad += m.n_bad;
    }
    if (!n_ops) {
        printf("checkkernels: there is no op %s\n", o->op);
        n_bad++;
    }
    printf("%s\n", n_bad ? "checkkernels: FAILED" : "checkkernels: all good");
    return n_bad ? 1 : 0;
}
