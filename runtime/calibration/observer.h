/* observer.h - an op table that tells what rows meet a model's matrices, and may put others in their place, before it does what
 * the real one does. The graph above it knows nothing of it, and a table that is not observed is what it was. */
#ifndef SAC_OBSERVER_H
#define SAC_OBSERVER_H

#include "ops.h"

/* A matrix in a model's memory. */
typedef struct sac_watched {
    const uint8_t *data; /* where its rows begin; the key of the list */
    size_t n_bytes, row_bytes;
    int64_t rows, cols;
    const float *instead; /* [rows][cols] that products are made with; NULL: its own */
    int tag;              /* the caller's */
} sac_watched;

typedef struct sac_observer sac_observer;
struct sac_observer {
    sac_watched *watched; /* [n] by address */
    int n;
    /* x: f32, of the matrix or, where several parts of the model share its tensor, of the part that begins it. */
    sac_status (*met)(sac_observer *o, const sac_watched *w, sac_mat x, const sac_stream *stream);
    void *ctx;
    sac_ops real;
};

/* From here on `ops` tells the observer, on the thread that calls it, until the end. One observer a thread. */
void sac_observer_begin(sac_observer *o, sac_ops *ops);
void sac_observer_end(sac_observer *o, sac_ops *ops);

/* Orders the list. */
void sac_observer_sort(sac_observer *o);

#endif
