/* cuda_ops.cu - the libraries' handles and plans that stand beside a stream: made, ended, and a line about
 * them. */
#include "context.cuh"
#include "cudnn.cuh"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

namespace sac {

/* ---------------------------------------------------------------- blocks that wait for each other */

enum { MOST_CARDS = 64 };
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_streams[MOST_CARDS];              /* by card: those that ops are open for */
static cudaStream_t last_waiting[MOST_CARDS]; /* the one that started such a kernel, or NULL */

static bool is_shared(const sac_device *d) {
    int is_on = 0;
    return status_of(cudaDeviceGetAttribute(&is_on, cudaDevAttrMpsEnabled, d->index)) != SAC_OK || is_on;
}

waiting::waiting(const sac_stream *s) : may(false) {
    const int card = s->device->index;
    pthread_mutex_lock(&waiting_lock);
    if (card < 0 || card >= MOST_CARDS || n_streams[card] != 1 || is_shared(s->device)) return;
    last_waiting[card] = cuda_stream(s);
    may = true;
}
waiting::~waiting() {
    pthread_mutex_unlock(&waiting_lock);
}

/* A stream comes, or goes with nothing in flight. Before another one has its first kernel no such kernel is under way. */
static void count_stream(const sac_stream *s, int more) {
    const int card = s->device->index;
    if (card < 0 || card >= MOST_CARDS) return;
    pthread_mutex_lock(&waiting_lock);
    n_streams[card] += more;
    if (more > 0 && last_waiting[card]) cudaStreamSynchronize(last_waiting[card]);
    last_waiting[card] = NULL;
    pthread_mutex_unlock(&waiting_lock);
}

/* ---------------------------------------------------------------- libraries */

extern "C" sac_status sac_cuda_ops_open(sac_stream *s, sac_error *err) {
    int cudnn_version = 0;
    cuda_ops *o = (cuda_ops *)calloc(1, sizeof *o);
    if (!o) return sac_fail(err, SAC_NO_MEMORY, "no memory for the plans of CUDA ops");
    sac_status st = linear::cublaslt_load(&o->lt, NULL, err);
    if (st == SAC_OK && !linear::cublaslt_start(&o->lt))
        st = sac_fail(err, SAC_DEVICE, "cuBLASLt does not start on CUDA card %d (%s)", s->device->index,
                      s->device->name);
    if (st != SAC_OK) {
        linear::cublaslt_close(&o->lt);
        free(o);
        return st;
    }
    if (!s->device->no_cudnn) o->cudnn = attention::cudnn_open(cuda_stream(s), &cudnn_version);
    size_t v = o->lt.GetVersion();
    int n = snprintf(o->line, sizeof o->line, "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    if (o->cudnn)
        snprintf(o->line + n, sizeof o->line - (size_t)n, ", cuDNN %d.%d.%d", cudnn_version / 10000,
                 cudnn_version / 100 % 100, cudnn_version % 100);
    else
        snprintf(o->line + n, sizeof o->line - (size_t)n, ", no cuDNN");
    s->ops_state = o;
    count_stream(s, 1);
    return SAC_OK;
}

extern "C" sac_status sac_cuda_ops_check(sac_error *err) {
    linear::cublaslt lt;
    SAC_TRY(linear::cublaslt_load(&lt, NULL, err));
    linear::cublaslt_close(&lt);
    return SAC_OK;
}

extern "C" void sac_cuda_ops_close(sac_stream *s) {
    cuda_ops *o = ops_of(s);
    if (!o) return;
    cudaStreamSynchronize(cuda_stream(s));
    count_stream(s, -1);
    attention::cudnn_close(o->cudnn);
    linear::cublaslt_close(&o->lt);
    free(o);
    s->ops_state = NULL;
}

extern "C" const char *sac_cuda_ops_line(const sac_stream *s) {
    return ops_of(s) ? ops_of(s)->line : "";
}

extern "C" const char *sac_cuda_cudnn_refusal(const sac_stream *s) {
    return ops_of(s) && ops_of(s)->cudnn ? attention::cudnn_refusal(ops_of(s)->cudnn) : "";
}

} // namespace sac
