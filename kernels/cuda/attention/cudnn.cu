#include "cuda_libraries.h"
#include "cudnn.cuh"

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace sac::attention {

/* The library's functions, by name. */
#define FUNCTIONS(X)                                                                                         \
    X(Create)                                                                                                \
    X(Destroy)                                                                                               \
    X(SetStream)                                                                                             \
    X(GetVersion)                                                                                            \
    X(GetErrorString)                                                                                        \
    X(BackendCreateDescriptor)                                                                               \
    X(BackendDestroyDescriptor)                                                                              \
    X(BackendSetAttribute)                                                                                   \
    X(BackendGetAttribute)                                                                                   \
    X(BackendFinalize)                                                                                       \
    X(BackendExecute)

enum {
    MAX_TENSORS = 40,
    MAX_OPS = 32,
    N_PLANS = 256,
    N_CACHES = 16,
    MIN_VERSION = 91002 /* -infinity masks; 9.10.0 and 9.10.1 give wrong numbers in 16 bits */
};

typedef struct cudnn_plan {
    cudnn_shape shape;
    cudnnBackendDescriptor_t plan; /* NULL: refused */
    int64_t workspace_bytes;
} cudnn_plan;

struct cudnn_state {
    void *lib;
    cudnnHandle_t handle;
#define X(name) decltype(&cudnn##name) name;
    FUNCTIONS(X)
#undef X
    cudnn_plan plan[N_PLANS];
    int n_plans;
    char refusal[200];
};

/* Tensors that come from outside, by their number in a variant pack. */
enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_STATS,
    ID_LENGTH_Q,
    ID_LENGTH_KV,
    ID_SCALE,
    ID_MINUS_INFINITY,
    ID_VIRTUAL
};

/* A graph under construction. After the first failure everything is a no-op. */
typedef struct graph {
    cudnn_state *c;
    cudnnBackendDescriptor_t made[MAX_TENSORS + 2 * MAX_OPS], ops[MAX_OPS];
    int n_made, n_ops;
    int64_t next_id;
    int64_t dim[4], stride[4]; /* of the scores */
    bool ok;
} graph;

static bool check(cudnn_state *c, cudnnStatus_t st, const char *what) {
    if (st == CUDNN_STATUS_SUCCESS) return true;
    snprintf(c->refusal, sizeof c->refusal, "%s: %s", what, c->GetErrorString(st));
    return false;
}

static cudnnBackendDescriptor_t make(graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    if (!g->ok) return NULL;
    g->ok = check(g->c, g->c->BackendCreateDescriptor(type, &d), "descriptor");
    if (g->ok) g->made[g->n_made++] = d;
    return d;
}
static void set(graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value) {
    char what[32];
    if (!g->ok) return;
    snprintf(what, sizeof what, "attribute %d", (int)name);
    g->ok = check(g->c, g->c->BackendSetAttribute(d, name, type, n, value), what);
}
static void set_descriptor(graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value) {
    if (value) set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}
static void finish(graph *g, cudnnBackendDescriptor_t d, const char *what) {
    if (g->ok) g->ok = check(g->c, g->c->BackendFinalize(d), what);
}

typedef enum tensor_kind { OUTSIDE, BY_VALUE, VIRTUAL } tensor_kind;

static cudnnBackendDescriptor_t tensor(graph *g, tensor_kind kind, int64_t id, cudnnDataType_t type,
                                       const int64_t dim[4], const int64_t stride[4]) {
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t align = 16;
    bool yes = true;
    if (kind == VIRTUAL) id = g->next_id++;
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (kind == VIRTUAL) set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (kind == BY_VALUE) set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(g, t, "tensor");
    return t;
}
static cudnnBackendDescriptor_t scalar(graph *g, tensor_kind kind, int64_t id, cudnnDataType_t type) {
    const int64_t one[4] = {1, 1, 1, 1};
    return tensor(g, kind, id, type, one, one);
}
/* A step between two operations: shaped like the scores. */
static cudnnBackendDescriptor_t step(graph *g, cudnnDataType_t type) {
    return tensor(g, VIRTUAL, 0, type, g->dim, g->stride);
}
/* One number a query. */
static cudnnBackendDescriptor_t column(graph *g, tensor_kind kind, int64_t id, const int64_t *stride) {
    int64_t dim[4] = {g->dim[0], g->dim[1], g->dim[2], 1};
    int64_t packed[4] = {dim[1] * dim[2], dim[2], 1, 1};
    return tensor(g, kind, id, CUDNN_DATA_FLOAT, dim, stride ? stride : packed);
}

static void add_op(graph *g, cudnnBackendDescriptor_t op, const char *what) {
    finish(g, op, what);
    if (g->ok) g->ops[g->n_ops++] = op;
}

static void matmul(graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                   cudnnBackendDescriptor_t c, cudnnBackendDescriptor_t m, cudnnBackendDescriptor_t n,
                   cudnnBackendDescriptor_t k) {
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    finish(g, how, "product");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
    add_op(g, op, "product");
}

/* y = mode(x, b) or, for BINARY_SELECT, t ? x : b. GEN_INDEX: y = the index along `axis`. */
static cudnnBackendDescriptor_t pointwise_to(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                                             cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                             cudnnBackendDescriptor_t t, cudnnBackendDescriptor_t y,
                                             int64_t axis) {
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, how, "pointwise");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(g, op, "pointwise");
    return y;
}
static cudnnBackendDescriptor_t pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b) {
    return pointwise_to(g, mode, type, x, b, NULL, step(g, type), 0);
}
static cudnnBackendDescriptor_t index_along(graph *g, cudnnBackendDescriptor_t x, int64_t axis) {
    return pointwise_to(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, x, NULL, NULL,
                        step(g, CUDNN_DATA_INT32), axis);
}
static cudnnBackendDescriptor_t select_or(graph *g, cudnnBackendDescriptor_t x,
                                          cudnnBackendDescriptor_t other, cudnnBackendDescriptor_t where) {
    return pointwise_to(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, other, where,
                        step(g, CUDNN_DATA_FLOAT), 0);
}

static cudnnBackendDescriptor_t reduce(graph *g, cudnnReduceTensorOp_t how_to, cudnnBackendDescriptor_t x) {
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t y = column(g, VIRTUAL, 0, NULL),
                             how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how_to);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    finish(g, how, "reduction");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_op(g, op, "reduction");
    return y;
}

/* The pattern of the engine: leave the order as it is. O may be Q (op_attention.h): a tile's queries are read before its
 * output is written, and by nobody else. The library does not promise that; checkkernels' cases "in place" tell. */
static void describe_attention(graph *g, const cudnn_shape *a) {
    cudnnDataType_t io = a->dtype == SAC_DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
    int64_t b = a->n_batch, h = a->n_heads, hk = a->n_kv_heads, d = a->d, sq = a->n_q, sk = a->n_kv;
    const int64_t q_dim[4] = {b, h, sq, d}, q_stride[4] = {a->q_batch, d, a->q_row, 1};
    const int64_t o_stride[4] = {a->o_batch, d, a->o_row, 1};
    const int64_t kt_dim[4] = {b, hk, d, sk}, kt_stride[4] = {a->kv_batch, a->kv_head, 1, a->kv_row};
    const int64_t v_dim[4] = {b, hk, sk, d}, v_stride[4] = {a->kv_batch, a->kv_head, a->kv_row, 1};
    const int64_t stats_stride[4] = {sq * h, 1, h, 1};
    const int64_t dim[4] = {b, h, sq, sk}, stride[4] = {h * sq * sk, sq * sk, sk, 1};
    memcpy(g->dim, dim, sizeof dim);
    memcpy(g->stride, stride, sizeof stride);
    cudnnBackendDescriptor_t q = tensor(g, OUTSIDE, ID_Q, io, q_dim, q_stride);
    cudnnBackendDescriptor_t k = tensor(g, OUTSIDE, ID_K, io, kt_dim, kt_stride);
    cudnnBackendDescriptor_t v = tensor(g, OUTSIDE, ID_V, io, v_dim, v_stride);
    cudnnBackendDescriptor_t o = tensor(g, OUTSIDE, ID_O, io, q_dim, o_stride);
    cudnnBackendDescriptor_t minus_infinity = NULL, n_q = NULL, n_kv = NULL;
    if (a->causal || a->lengths) minus_infinity = scalar(g, BY_VALUE, ID_MINUS_INFINITY, CUDNN_DATA_FLOAT);
    if (a->lengths) {
        n_q = scalar(g, OUTSIDE, ID_LENGTH_Q, CUDNN_DATA_INT32);
        n_kv = scalar(g, OUTSIDE, ID_LENGTH_KV, CUDNN_DATA_INT32);
    } else if (a->causal && sq != sk) {
        n_q = scalar(g, BY_VALUE, ID_LENGTH_Q, CUDNN_DATA_INT32);
        n_kv = scalar(g, BY_VALUE, ID_LENGTH_KV, CUDNN_DATA_INT32);
    }
    cudnnBackendDescriptor_t m = a->lengths ? n_q : NULL, n = a->lengths ? n_kv : NULL;
    cudnnBackendDescriptor_t x = step(g, CUDNN_DATA_FLOAT);
    matmul(g, q, k, x, m, n, NULL);
    x = pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, x,
                  scalar(g, BY_VALUE, ID_SCALE, CUDNN_DATA_FLOAT));
    if (a->lengths) {
        cudnnBackendDescriptor_t row = index_along(g, x, 2), col = index_along(g, x, 3);
        row = pointwise(g, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, row, n_q);
        col = pointwise(g, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, col, n_kv);
        row = pointwise(g, CUDNN_POINTWISE_LOGICAL_AND, CUDNN_DATA_BOOLEAN, row, col);
        x = select_or(g, x, minus_infinity, row);
    }
    if (a->causal) {
        cudnnBackendDescriptor_t row = index_along(g, x, 2), col = index_along(g, x, 3);
        if (n_kv) row = pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, row, n_kv);
        if (n_q) row = pointwise(g, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, row, n_q);
        row = pointwise(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, col);
        x = select_or(g, x, minus_infinity, row);
    }
    cudnnBackendDescriptor_t max = reduce(g, CUDNN_REDUCE_TENSOR_MAX, x);
    x = pointwise(g, CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, x, max);
    x = pointwise(g, CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, x, NULL);
    cudnnBackendDescriptor_t sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, x);
    /* part of the pattern even where nobody asks for it: without it no engine fits, or one writes astray */
    cudnnBackendDescriptor_t log = pointwise_to(g, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, sum, NULL, NULL,
                                                column(g, VIRTUAL, 0, NULL), 0);
    pointwise_to(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, max, log, NULL,
                 a->stats ? column(g, OUTSIDE, ID_STATS, stats_stride) : column(g, VIRTUAL, 0, NULL), 0);
    cudnnBackendDescriptor_t p = step(g, io);
    pointwise_to(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, x, sum, NULL, p, 0);
    matmul(g, p, v, o, m, NULL, n);
}

static void drop_all(cudnn_state *c, cudnnBackendDescriptor_t *d, int n) {
    for (int i = n - 1; i >= 0; i--)
        if (d[i]) c->BackendDestroyDescriptor(d[i]);
}

/* The first of the library's own suggestions that it can make a plan of. */
static void choose_engine(graph *g, cudnn_plan *p, cudnnBackendDescriptor_t whole) {
    enum { N_TRIES = 4 };
    cudnn_state *c = g->c;
    cudnnBackendDescriptor_t heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), config[N_TRIES] = {0};
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0, one = 0;
    set_descriptor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(g, heuristic, "no engine for this graph");
    for (int i = 0; i < N_TRIES; i++) config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->ok)
        g->ok = check(c,
                      c->BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, N_TRIES, &n, config),
                      "engines");
    for (int i = 0; g->ok && i < n && !p->plan; i++) {
        cudnnBackendDescriptor_t plan = NULL;
        if (c->BackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
            CUDNN_STATUS_SUCCESS)
            return;
        bool ok = check(c,
                        c->BackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                               &c->handle),
                        "plan") &&
                  check(c,
                        c->BackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config[i]),
                        "plan") &&
                  check(c, c->BackendFinalize(plan), "no plan for this shape") &&
                  check(c,
                        c->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &one, &p->workspace_bytes),
                        "workspace");
        if (ok)
            p->plan = plan;
        else
            c->BackendDestroyDescriptor(plan);
    }
}

/* Takes about 30 ms. The library's kernel cache for dynamic shapes was tried: no faster. */
static void build_plan(cudnn_state *c, cudnn_plan *p) {
    graph g;
    memset(&g, 0, sizeof g);
    g.c = c, g.ok = true, g.next_id = ID_VIRTUAL;
    describe_attention(&g, &p->shape);
    cudnnBackendDescriptor_t whole = make(&g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(&g, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle);
    set(&g, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g.n_ops, g.ops);
    finish(&g, whole, "graph");
    choose_engine(&g, p, whole);
    drop_all(c, g.made, g.n_made);
}

static cudnn_plan *find_plan(cudnn_state *c, const cudnn_shape *shape) {
    int n = c->n_plans < N_PLANS ? c->n_plans : N_PLANS;
    for (int i = 0; i < n; i++)
        if (memcmp(&c->plan[i].shape, shape, sizeof *shape) == 0) return &c->plan[i];
    cudnn_plan *p = &c->plan[c->n_plans++ % N_PLANS];
    if (p->plan) c->BackendDestroyDescriptor(p->plan);
    memset(p, 0, sizeof *p);
    memcpy(&p->shape, shape, sizeof *shape); /* the padding too: shapes are compared as bytes */
    build_plan(c, p);
    return p;
}

sac_status cudnn_attention(cudnn_state *c, const sac_stream *s, const cudnn_shape *shape,
                           const cudnn_pointers *a) {
    cudnn_plan *p = find_plan(c, shape);
    size_t n_bytes;
    void *workspace = scratch_rest(s, &n_bytes);
    if (!p->plan) return SAC_UNSUPPORTED;
    if ((size_t)p->workspace_bytes > n_bytes) {
        snprintf(c->refusal, sizeof c->refusal, "a workspace of %lld bytes", (long long)p->workspace_bytes);
        return SAC_UNSUPPORTED;
    }
    const float minus_infinity = -INFINITY;
    int32_t n_q = (int32_t)shape->n_q, n_kv = (int32_t)shape->n_kv;
    int64_t id[10] = {ID_Q, ID_K, ID_V, ID_O, ID_SCALE};
    const void *at[10] = {a->q, a->k, a->v, a->o, &a->scale};
    int n = 5;
#define ADD(number, pointer) (id[n] = number, at[n++] = pointer)
    if (shape->causal || shape->lengths) ADD(ID_MINUS_INFINITY, &minus_infinity);
    if (shape->lengths) {
        ADD(ID_LENGTH_Q, a->lengths);
        ADD(ID_LENGTH_KV, a->lengths + 4);
    } else if (shape->causal && n_q != n_kv) {
        ADD(ID_LENGTH_Q, &n_q);
        ADD(ID_LENGTH_KV, &n_kv);
    }
    if (shape->stats) ADD(ID_STATS, a->stats);
#undef ADD
    cudnnBackendDescriptor_t pack = NULL;
    if (c->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) != CUDNN_STATUS_SUCCESS)
        return SAC_DEVICE;
    bool ok =
        check(c, c->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, id),
              "ids") &&
        check(c,
              c->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at),
              "pointers") &&
        check(c,
              c->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                     &workspace),
              "workspace") &&
        check(c, c->BackendFinalize(pack), "pointers") &&
        check(c, c->BackendExecute(c->handle, p->plan, pack), "running");
    c->BackendDestroyDescriptor(pack);
    return ok ? SAC_OK : SAC_DEVICE;
}

const char *cudnn_refusal(const cudnn_state *c) {
    return c->refusal;
}

cudnn_state *cudnn_open(cudaStream_t stream, int *version) {
    cudnn_state *c = (cudnn_state *)calloc(1, sizeof *c);
    if (!c) return NULL;
    bool ok = (c->lib = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL)) != NULL;
#define X(name) ok = ok && (c->name = (decltype(&cudnn##name))dlsym(c->lib, "cudnn" #name)) != NULL;
    FUNCTIONS(X)
#undef X
    ok = ok && (*version = (int)c->GetVersion()) >= MIN_VERSION &&
         c->Create(&c->handle) == CUDNN_STATUS_SUCCESS &&
         c->SetStream(c->handle, stream) == CUDNN_STATUS_SUCCESS;
    if (ok) return c;
    cudnn_close(c);
    return NULL;
}

static int version_of(void *lib) {
    auto get = lib ? (decltype(&cudnnGetVersion))dlsym(lib, "cudnnGetVersion") : NULL;
    int version = get ? (int)get() : 0;
    return version >= MIN_VERSION ? version : 0;
}

int cudnn_found(void) {
    void *lib = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    int version = version_of(lib);
    if (lib) dlclose(lib);
    return version;
}

void cudnn_close(cudnn_state *c) {
    if (!c) return;
    for (int i = 0; i < N_PLANS; i++)
        if (c->plan[i].plan) c->BackendDestroyDescriptor(c->plan[i].plan);
    if (c->handle) c->Destroy(c->handle);
    if (c->lib) dlclose(c->lib);
    free(c);
}

} // namespace sac::attention

#else /* built without cuDNN's headers */
namespace sac::attention {

cudnn_state *cudnn_open(cudaStream_t, int *) {
    return NULL;
}
int cudnn_found(void) {
    return 0;
}
void cudnn_close(cudnn_state *) {}
sac_status cudnn_attention(cudnn_state *, const sac_stream *, const cudnn_shape *, const cudnn_pointers *) {
    return SAC_UNSUPPORTED;
}
const char *cudnn_refusal(const cudnn_state *) {
    return "built without cuDNN's headers";
}

} // namespace sac::attention
#endif

int sac_ops_cudnn_version(void) {
    return sac::attention::cudnn_found();
}
