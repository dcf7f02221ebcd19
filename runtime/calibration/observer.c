#include "observer.h"

#include <stdlib.h>

/* Ops have no context of their own: whoever runs a model on a thread knows whom to tell. */
static _Thread_local sac_observer *here;

static int by_data(const void *a, const void *b) {
    const sac_watched *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

void sac_observer_sort(sac_observer *o) {
    if (o->n) qsort(o->watched, (size_t)o->n, sizeof *o->watched, by_data);
}

/* The matrix that holds the weight's numbers. */
static const sac_watched *find(const sac_weight *w) {
    const uint8_t *data = w->tensor.data;
    int low = 0, high = here->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (here->watched[middle].data <= data)
            low = middle + 1;
        else
            high = middle;
    }
    const sac_watched *found = low ? &here->watched[low - 1] : NULL;
    return found && data < found->data + found->n_bytes ? found : NULL;
}

static sac_status tell(const sac_stream *s, const sac_weight *w, sac_mat x) {
    const sac_watched *m = find(w);
    if (!m || !here->met || x.rows < 1 || (const uint8_t *)w->tensor.data != m->data) return SAC_OK;
    return here->met(here, m, x, s);
}

static sac_weight in_its_place(const sac_weight *w) {
    const sac_watched *m = find(w);
    if (!m || !m->instead) return *w;
    const int64_t first = (int64_t)((size_t)((const uint8_t *)w->tensor.data - m->data) / m->row_bytes);
    sac_tensor t = w->tensor;
    t.data = m->instead + first * m->cols;
    t.dtype = SAC_DTYPE_F32;
    return sac_weight_of(t);
}

static sac_status linear(const sac_stream *s, const sac_linear_args *a) {
    sac_linear_args other = *a;
    SAC_TRY(tell(s, &a->w, a->x));
    other.w = in_its_place(&a->w);
    return here->real.linear(s, &other);
}

static sac_status linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_group_args other = *a;
    for (int i = 0; i < a->n; i++) {
        SAC_TRY(tell(s, &a->w[i], a->x));
        other.w[i] = in_its_place(&a->w[i]);
    }
    return here->real.linear_group(s, &other);
}

/* Expert by expert: with what stands in their place they lie at no even distances. */
static sac_status expert_linear(const sac_stream *s, const sac_expert_linear_args *a) {
    for (int e = 0; e < a->n_experts; e++) {
        const int64_t first = a->starts[e], n = a->starts[e + 1] - first;
        const sac_weight *w = &a->w[e * a->w_step];
        if (n < 1) continue;
        const sac_mat x = sac_mat_rows(a->x, first, n);
        SAC_TRY(tell(s, w, x));
        SAC_TRY(here->real.linear(s, &(sac_linear_args){.y = sac_mat_rows(a->y, first, n),
                                                        .x = x,
                                                        .w = in_its_place(w),
                                                        .fast = a->fast,
                                                        .steady = true}));
    }
    return SAC_OK;
}

void sac_observer_begin(sac_observer *o, sac_ops *ops) {
    o->real = *ops;
    here = o;
    ops->linear = linear;
    ops->linear_group = linear_group;
    ops->expert_linear = expert_linear;
}

void sac_observer_end(sac_observer *o, sac_ops *ops) {
    *ops = o->real;
    here = NULL;
}
