/* cudnn.cuh - cuDNN's attention through its C backend API, loaded at run time: no build or start depends on
 * it.
 *
 * cuDNN runs the scaled-dot-product pattern when it is given as a graph of exactly the operations it looks
 * for: product, scale, [padding by lengths], [causal mask], softmax in six steps, product. Building a plan
 * takes a while (the engine is compiled at run time), so plans are kept, and made for the room there is
 * rather than for each length: how many queries and keys there are comes as a tensor. */
#ifndef SAC_KERNELS_CUDNN_CUH
#define SAC_KERNELS_CUDNN_CUH

#include "context.cuh"

namespace sac::attention {

/* Loads the library; NULL where it is not there, too old, or refuses. */
cudnn_state *cudnn_open(cudaStream_t stream, int *version);
void cudnn_close(cudnn_state *c);
int cudnn_found(void); /* the library's version; 0 where cudnn_open would give NULL for its sake */

typedef struct cudnn_shape {
    sac_dtype dtype;
    int d, n_heads, n_kv_heads;
    bool causal;  /* the last query sees the last key */
    bool lengths; /* numbers of queries and keys are tensors, at most n_q and n_kv; one batch */
    bool stats;   /* lse */
    int64_t n_batch, n_q, n_kv;
    int64_t q_row, q_batch, o_row, o_batch, kv_row, kv_head, kv_batch; /* elements between */
} cudnn_shape;

typedef struct cudnn_pointers {
    const void *q, *k, *v;
    void *o;
    float *stats;           /* [n_q][n_heads] */
    const int32_t *lengths; /* [0] queries, [4] keys: 16 bytes apart, on the device */
    float scale;
} cudnn_pointers;

/* UNSUPPORTED when the library refuses the shape; what it said is in cudnn_refusal(). */
sac_status cudnn_attention(cudnn_state *c, const sac_stream *s, const cudnn_shape *shape,
                           const cudnn_pointers *p);
const char *cudnn_refusal(const cudnn_state *c);

} // namespace sac::attention

#endif
