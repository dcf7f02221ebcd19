/* pages_tmpl.h - bounds of pages of keys, and what no key of a page can score above (Quest). The bound is one
 * product of twice the channels, (q+, q-) . (max, min), q+ and q- the query's positive and negative part, so
 * the products of key_scores make it. Before: key_scores_tmpl.h, kv_gather_tmpl.h. */

/* Row r is page first + r / n_heads of head r % n_heads. */
static void page_bounds_rows(const void *args, int64_t first, int64_t end) {
    const sac_page_bounds_args *a = args;
    const sac_kv_view *kv = &a->kv;
    const int64_t d = kv->head_dim, row_bytes = kv->row_stride * (int64_t)sac_dtype_row_bytes(kv->dtype, 1);
    float bounds[2 * KV_GATHER_MAX_D], *max = bounds, *min = bounds + d;
    for (int64_t r = first; r < end; r++) {
        int64_t page = a->first + r / kv->n_heads, head = r % kv->n_heads;
        const char *key = gather_address(kv, kv->k, page * a->page, head);
        for (int64_t c = 0; c < d; c += VF) {
            vf most = vf_load_as_part(kv->dtype, key, c, d - c), least = most;
            for (int64_t i = 1; i < a->page; i++) {
                vf v = vf_load_as_part(kv->dtype, key + i * row_bytes, c, d - c);
                most = vf_max(v, most);
                least = vf_min(v, least);
            }
            vf_store_part(max + c, most, d - c);
            vf_store_part(min + c, least, d - c);
        }
        gather_convert(SAC_DTYPE_F32, bounds, a->bounds.dtype,
                       gather_address(&a->bounds, a->bounds.k, page, head), 2 * d);
    }
}

static sac_status SAC_ISA(page_bounds)(const sac_stream *s, const sac_page_bounds_args *a) {
    if (a->kv.head_dim > KV_GATHER_MAX_D) return sac_ref_page_bounds(s, a);
    int64_t page_bytes = a->page * (int64_t)sac_dtype_row_bytes(a->kv.dtype, a->kv.head_dim);
    sac_for_rows(s, a->n * a->kv.n_heads, page_bytes, page_bounds_rows, a);
    return SAC_OK;
}

/* The parts of n rows of queries, each padded to whole vectors. */
static void split_queries(const float *q, int64_t n, int64_t d, int64_t d_pad, float *halves) {
    memset(halves, 0, (size_t)(n * d_pad) * sizeof *halves);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < d; c++) {
            float x = q[r * d + c];
            halves[r * d_pad + c] = x > 0 ? x : 0;
            halves[r * d_pad + d + c] = x < 0 ? x : 0;
        }
}

typedef struct page_scores_job {
    const sac_stream *s;
    const sac_page_scores_args *a;
    int64_t group; /* query heads of a key-value head */
} page_scores_job;

/* Of n rows of scores, from row `first` of a group's on: to the group's sum, or each to its own. */
static void add_scores(const page_scores_job *job, int64_t kv_head, int64_t first, int64_t n,
                       const float *scores, int64_t page, int64_t n_pages) {
    const sac_page_scores_args *a = job->a;
    bool each = a->n_sums == a->n_heads;
    for (int64_t r = 0; r < n; r++) {
        int64_t sum = each ? kv_head * job->group + first + r : kv_head;
        float *to = a->scores + sum * a->stride + page;
        const float *from = scores + r * KEY_SCORES_KEYS;
        bool begins = each || first + r == 0;
        for (int64_t i = 0; i < n_pages; i++) to[i] = begins ? from[i] : to[i] + from[i];
    }
}

static void page_scores_task(void *ctx, int64_t task, int thread) {
    const page_scores_job *job = ctx;
    const sac_page_scores_args *a = job->a;
    const sac_kv_view *b = &a->bounds;
    int64_t kv_head = task % b->n_heads, page = task / b->n_heads * KEY_SCORES_KEYS, d = b->head_dim;
    sac_key_scores_args keys = {.kv = *b, .first = page, .stride = KEY_SCORES_KEYS};
    key_scores_job products = {job->s, &keys, job->group, b->n_heads, sac_div_up(d, VF) * VF};
    float *q = sac_stream_thread_scratch(job->s, thread), *scores = q + DOT_ROWS_MAX * products.d_pad;
    key_scores_tile t = {.job = &products,
                         .k = gather_address(b, b->k, 0, kv_head),
                         .row_bytes = (size_t)b->row_stride * sac_dtype_row_bytes(b->dtype, 1),
                         .end = sac_min_i64(KEY_SCORES_KEYS, a->n - page),
                         .q = q,
                         .scores = scores};
    for (int64_t row = 0; row < job->group; row += DOT_ROWS_MAX) {
        int64_t n = sac_min_i64(DOT_ROWS_MAX, job->group - row);
        const float *heads = sac_mat_row_f32(a->q, 0) + (kv_head * job->group + row) * (d / 2);
        split_queries(heads, n, d / 2, products.d_pad, q);
        DOT_CASES(b->dtype, n, key_scores_rows, &t)
        add_scores(job, kv_head, row, n, scores, page, t.end);
    }
}

static sac_status SAC_ISA(page_scores)(const sac_stream *s, const sac_page_scores_args *a) {
    const sac_kv_view *b = &a->bounds;
    if (b->head_dim > KEY_SCORES_MAX_D) return sac_ref_page_scores(s, a);
    page_scores_job job = {s, a, a->n_heads / b->n_heads};
    int64_t n_tasks = sac_div_up(a->n, KEY_SCORES_KEYS) * b->n_heads;
    if (a->n * b->n_heads * (int64_t)sac_dtype_row_bytes(b->dtype, b->head_dim) > 2 * SAC_TASK_BYTES)
        sac_pool_run(s->pool, n_tasks, page_scores_task, &job);
    else
        for (int64_t t = 0; t < n_tasks; t++) page_scores_task(&job, t, 0);
    return SAC_OK;
}
