/* zipvl_attend.c - attention over the important tokens T that ZipVL has chosen (He et al., arXiv:2410.08584,
 * section 4.1; see zipvl.c). Rows of T are gathered side by side, in order, so that plain causal attention over
 * them is right. */
#include "zipvl.h"

#include "attend.h"
#include "causal.h"

typedef sac_zipvl zipvl;

enum { BLOCK = 64 }; /* side=near: queries that share a list of keys */
enum { LISTS_BYTES = 64 << 20 };

/* Strips of BLOCK keys from the first query of a block back to the first of its `band` newest keys. */
static void take_lists(sac_zipvl *z, const sac_attention_shape *shape, const sac_memory *memory) {
    int64_t band = z->band < shape->n_ctx ? z->band : shape->n_ctx;
    int64_t fit = LISTS_BYTES / (shape->n_ctx * (int64_t)sizeof(int32_t)),
            most = sac_queries_at_once(shape) / BLOCK;
    int64_t n = fit < most ? fit : most;
    if (n < 1) n = 1;
    z->lists = (sac_zipvl_lists){.at_once = n, .n_strips = (band - 1 + BLOCK - 1) / BLOCK + 1};
    z->lists.rows = sac_take_device(memory, (size_t)(n * shape->n_ctx) * sizeof *z->lists.rows);
    z->lists.start = sac_take_device(memory, (size_t)(n + 1) * sizeof *z->lists.start);
    z->lists.pairs = sac_take_device(memory, (size_t)n * sizeof *z->lists.pairs);
    z->lists.strips = sac_take_both(memory, (size_t)z->lists.n_strips * sizeof(int32_t));
}

void sac_zipvl_take_rooms(sac_zipvl *z, const sac_attention_shape *shape, const sac_memory *memory) {
    if (z->side == SAC_ZIPVL_NEAR) {
        take_lists(z, shape, memory);
        return;
    }
    int64_t cols = (int64_t)shape->n_heads * shape->head_dim, n_probes = z->recent + z->random;
    size_t n = (size_t)shape->n_ctx, row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim;
    z->k = sac_take_device(memory, n * row * sizeof(float));
    z->v = sac_take_device(memory, n * row * sizeof(float));
    z->at_once = sac_queries_at_once(shape);
    int64_t n_part =
        z->side == SAC_ZIPVL_BAND ? z->at_once + sac_ops_traits_of(shape->device)->query_step : z->at_once;
    if (n_part < n_probes) n_part = shape->n_ctx < n_probes ? shape->n_ctx : n_probes;
    z->part = sac_take_device(memory, (size_t)n_part * sac_dtype_row_bytes(shape->dtype, cols));
    z->count = sac_take_device(memory, (size_t)z->at_once * sizeof *z->count);
    z->zeros = sac_take_device(memory, (size_t)cols * sizeof(float)); /* as a session's memory is */
    if (z->side == SAC_ZIPVL_BAND && z->sink > 0) sac_join_scratch_take(&z->join, shape, z->at_once, memory);
}

/* ---------------------------------------------------------------- both sides */

/* Rows of q that stand at source[i], or zeros for -1, to its rows [first, first + n), by way of the part. */
static sac_status move_rows(const zipvl *z, const sac_layer_attention *a, const int32_t *source,
                            int64_t first, int64_t n) {
    sac_mat part = {z->part, n, a->q.cols, a->q.cols, a->q.dtype};
    SAC_TRY(a->ops->gather_rows(a->stream, &(sac_gather_rows_args){part, a->q, source + first, z->zeros}));
    return a->ops->gather_rows(a->stream,
                               &(sac_gather_rows_args){sac_mat_rows(a->q, first, n), part, z->count, NULL});
}

/* T's queries side by side in the first rows of q: none goes where one stands that is still wanted. */
static sac_status pick_queries(const zipvl *z, const sac_layer_attention *a) {
    SAC_TRY(a->ops->choice_rows(
        a->stream, &(sac_choice_rows_args){.rows = z->count, .init = z->at_once, .n_rows = z->at_once}));
    for (int64_t i = 0, n; i < z->n_kept; i += n) {
        n = z->n_kept - i < z->at_once ? z->n_kept - i : z->at_once;
        SAC_TRY(move_rows(z, a, z->kept.device, i, n));
    }
    return SAC_OK;
}

/* Their outputs, standing there, to their places, zeros elsewhere: from the last on, since a row only ever
 * moves down. */
static sac_status spread(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    int32_t *source = z->draw.host;
    for (int64_t i = 0; i < a->q.rows; i++) source[i] = -1;
    for (int64_t i = 0; i < z->n_kept; i++) source[kept[i]] = (int32_t)i;
    SAC_TRY(sac_send(a, z->draw, (size_t)a->q.rows * sizeof *source));
    for (int64_t end = a->q.rows, n; end > 0; end -= n) {
        n = end < z->at_once ? end : z->at_once;
        SAC_TRY(move_rows(z, a, z->draw.device, end - n, n));
    }
    return SAC_OK;
}

/* So many queries that plans are shared with other layers, which keep other numbers: the last ones are
 * nobody's. */
static int64_t padded(const sac_layer_attention *a, int64_t first, int64_t n) {
    int64_t step = sac_ops_traits_of(a->shape->device)->query_step;
    int64_t begin = a->past + first, more = (step - (begin + n) % step) % step;
    return n >= step && first + n + more <= a->q.rows ? n + more : n;
}

/* Queries q are T's from the first-th on. Behind them, and behind the rows of kv that they see, is room. */
static sac_status attend_gathered(const zipvl *z, const sac_layer_attention *a, sac_mat q, int64_t first,
                                  const sac_kv_view *kv) {
    sac_kv_view room = *kv;
    room.n_rows = z->n_ctx;
    q.rows = padded(a, first, q.rows);
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = room,
                                                              .n_q = q.rows,
                                                              .n_kv = a->past + first + q.rows,
                                                              .first = a->past + first,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true});
}

/* The first of T whose output will be read. */
static int64_t first_read(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    int64_t first = 0;
    while (first < z->n_kept && kept[first] < a->n_unread) first++;
    return first;
}

/* With queries made for it: those of T whose outputs will be read. */
static sac_status attend_made(const zipvl *z, const sac_layer_attention *a, const sac_kv_view *kv) {
    const int32_t *made = z->kept.device;
    int64_t first = first_read(z, a);
    sac_mat q = sac_mat_rows(a->q, 0, z->n_kept - first);
    *a->attended = (sac_attended){q, made + first};
    if (q.rows == 0) return SAC_OK;
    SAC_TRY(a->make_queries.fn(a->make_queries.ctx, q, made + first));
    return attend_gathered(z, a, q, first, kv);
}

static sac_status attend_two_sided(const zipvl *z, const sac_layer_attention *a, const sac_kv_view *kv) {
    sac_mat q = sac_mat_rows(a->q, 0, z->n_kept);
    if (a->make_queries.fn) return attend_made(z, a, kv);
    SAC_TRY(pick_queries(z, a));
    SAC_TRY(attend_gathered(z, a, q, 0, kv));
    if (!a->attended) return spread(z, a);
    *a->attended = (sac_attended){q, z->kept.device};
    return SAC_OK;
}

/* ---------------------------------------------------------------- a band for the others */

/* Queries [first, end) and so many of the newest keys up to each, or all (0). */
static sac_status attend_newest(const sac_layer_attention *a, int64_t first, int64_t end, int64_t window,
                                float *lse) {
    sac_attention_args args = sac_causal_args(a, sac_mat_rows(a->q, first, end - first), a->past + first);
    args.window = window;
    args.lse = lse;
    return a->ops->attention(a->stream, &args);
}

/* The n queries of the join's scratch and the sequence's first tokens. */
static sac_status attend_sinks(const zipvl *z, const sac_layer_attention *a, int64_t n) {
    sac_mat q = sac_join_queries(&z->join, a->shape, n);
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = a->kv,
                                                              .lse = z->join.lse[1],
                                                              .n_q = n,
                                                              .n_kv = z->sink,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale,
                                                              .softcap = a->shape->softcap});
}

/* Queries [first, end), the newest keys up to each and the sinks: before row `apart` these are all keys that there
 * are, behind it the two are joined. */
static sac_status attend_near(zipvl *z, const sac_layer_attention *a, int64_t first, int64_t end) {
    if (z->sink == 0) return attend_newest(a, first, end, z->band, NULL);
    int64_t apart = z->sink + z->band - a->past;
    if (apart > end) apart = end;
    if (apart > first) {
        SAC_TRY(attend_newest(a, first, apart, 0, NULL));
        first = apart;
    }
    for (int64_t n; first < end; first += n) {
        n = end - first < z->join.capacity ? end - first : z->join.capacity;
        SAC_TRY(sac_join_copy_queries(&z->join, a, first, n));
        SAC_TRY(attend_newest(a, first, first + n, z->band, z->join.lse[0]));
        SAC_TRY(attend_sinks(z, a, n));
        SAC_TRY(sac_join(&z->join, a, sac_mat_rows(a->q, first, n)));
    }
    return SAC_OK;
}

/* T's queries [i, i + n) are taken out, the band is laid over all queries up to the last of them, and T's
 * outputs take their places in it. */
static sac_status attend_band(zipvl *z, const sac_layer_attention *a, const sac_kv_view *kv) {
    const int32_t *kept = z->kept.host, *at = z->kept.device;
    int64_t begin = a->n_unread, n;
    if (z->sink > 0) SAC_TRY(sac_join_place(&z->join, a, 0, a->position, false));
    for (int64_t i = first_read(z, a); begin < a->q.rows; i += n) {
        n = z->n_kept - i < z->at_once ? z->n_kept - i : z->at_once;
        int64_t end = i + n < z->n_kept ? kept[i + n - 1] + 1 : a->q.rows;
        sac_mat part = {z->part, n, a->q.cols, a->q.cols, a->q.dtype};
        if (n > 0) {
            SAC_TRY(a->ops->gather_rows(a->stream, &(sac_gather_rows_args){part, a->q, at + i, NULL}));
            SAC_TRY(attend_gathered(z, a, part, i, kv));
        }
        SAC_TRY(attend_near(z, a, begin, end));
        if (n > 0)
            SAC_TRY(a->ops->scatter_rows(a->stream, &(sac_scatter_rows_args){a->q, part, at + i, false}));
        begin = end;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- one side */

static sac_status attend_one_sided(const sac_layer_attention *a, const sac_row_lists *lists) {
    sac_attention_args args = sac_causal_args(a, a->q, a->past);
    args.lists = lists;
    args.window = 0; /* longer than the context, or none */
    return a->ops->attention(a->stream, &args);
}

/* ---------------------------------------------------------------- one side and a band */

static sac_status send_strips(const zipvl *z, const sac_layer_attention *a) {
    int32_t *strips = z->lists.strips.host;
    int64_t n = z->lists.n_strips, band = z->band < z->n_ctx ? z->band : z->n_ctx;
    for (int64_t i = 0; i < n; i++) strips[i] = (int32_t)(i + 1 < n ? i * BLOCK : band - 1);
    return sac_send(a, z->lists.strips, (size_t)n * sizeof *strips);
}

/* Queries at rows [begin, end): each block of them meets the columns, which are what was there before and T, and the
 * keys from the `band` newest of its first query on. */
static sac_status attend_listed(const zipvl *z, const sac_layer_attention *a, const int32_t *columns,
                                int64_t begin, int64_t end) {
    const sac_row_lists lists = {z->lists.rows, z->lists.start, 1};
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    SAC_TRY(a->ops->pattern_rows(a->stream,
                                 &(sac_pattern_rows_args){.rows = z->lists.rows,
                                                          .start = z->lists.start,
                                                          .pairs = z->lists.pairs,
                                                          .columns = columns,
                                                          .diagonals = z->lists.strips.device,
                                                          .n_columns = a->past + z->n_kept,
                                                          .n_diagonals = z->lists.n_strips,
                                                          .width = 1,
                                                          .first = begin,
                                                          .block = BLOCK,
                                                          .n_blocks = (end - begin + BLOCK - 1) / BLOCK,
                                                          .n_rows = a->kv.n_rows,
                                                          .n_lists = 1}));
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = a->kv,
                                                              .lists = &lists,
                                                              .n_q = q.rows,
                                                              .n_kv = end,
                                                              .first = begin,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true,
                                                              .list_block = BLOCK});
}

static sac_status attend_one_and_band(const zipvl *z, const sac_layer_attention *a, const int32_t *columns) {
    SAC_TRY(send_strips(z, a));
    for (int64_t begin = a->past + a->n_unread / BLOCK * BLOCK, end; begin < a->kv.n_rows; begin = end) {
        end = begin + z->lists.at_once * BLOCK;
        if (end > a->kv.n_rows) end = a->kv.n_rows;
        SAC_TRY(attend_listed(z, a, columns, begin, end));
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- all of it */

/* Query-key pairs of each head: T's with T and all before the prompt. */
static double pairs_of_chosen(const zipvl *z, const sac_layer_attention *a) {
    double n = (double)z->n_kept;
    return n * (n + 1) / 2 + n * (double)a->past;
}

static double pairs_of_all(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    double pairs = (double)a->q.rows * (double)a->past;
    for (int64_t i = 0; i < z->n_kept; i++) pairs += (double)(a->q.rows - kept[i]);
    return pairs;
}

/* Those of the others with the keys next to them, and with the sinks. */
static double pairs_of_band(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    const int64_t most = z->band + z->sink;
    double pairs = 0;
    for (int64_t i = 0, at = 0; i < a->q.rows; i++) {
        bool is_kept = at < z->n_kept && kept[at] == i;
        int64_t n_before = a->past + i + 1;
        at += is_kept;
        if (!is_kept) pairs += (double)(n_before < most ? n_before : most);
    }
    return pairs;
}

/* Of all with T and with the keys next to their block. */
static double pairs_of_near(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    double pairs = 0;
    for (int64_t i = 0, at = 0, near = 0; i < a->q.rows; i++) {
        if (i % BLOCK == 0 && i - z->band + 1 > 0) near = i - z->band + 1;
        while (at < z->n_kept && kept[at] < near) at++;
        pairs += (double)(a->past + at + i - near + 1);
    }
    return pairs;
}

static double n_pairs(const zipvl *z, const sac_layer_attention *a) {
    if (z->side == SAC_ZIPVL_ONE) return pairs_of_all(z, a);
    if (z->side == SAC_ZIPVL_NEAR) return pairs_of_near(z, a);
    return pairs_of_chosen(z, a) + (z->side == SAC_ZIPVL_BAND ? pairs_of_band(z, a) : 0);
}

/* Keys and values of the lists' rows, side by side. */
static sac_status gather(const zipvl *z, const sac_layer_attention *a, const sac_row_lists *lists,
                         sac_kv_view *kv) {
    int d = a->shape->head_dim;
    *kv = (sac_kv_view){.k = z->k,
                        .v = z->v,
                        .dtype = a->kv.dtype,
                        .n_heads = a->shape->n_kv_heads,
                        .head_dim = d,
                        .n_rows = a->past + z->n_kept,
                        .row_stride = d,
                        .head_stride = z->n_ctx * d};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *kv, .src = a->kv, .lists = lists});
}

sac_status sac_zipvl_attend(sac_zipvl *z, const sac_layer_attention *a) {
    sac_kv_view kv;
    sac_count_prefill(a, (double)z->n_kept, n_pairs(z, a) * a->shape->n_heads);
    ((int64_t *)z->start.host)[1] = a->past + z->n_kept;
    SAC_TRY(sac_send(a, z->start, 2 * sizeof(int64_t)));
    const sac_row_lists lists = {a->past > 0 ? z->rows.device : z->kept.device, z->start.device, 1};
    if (z->side == SAC_ZIPVL_ONE) return attend_one_sided(a, &lists);
    if (z->side == SAC_ZIPVL_NEAR) return attend_one_and_band(z, a, lists.rows);
    SAC_TRY(gather(z, a, &lists, &kv));
    return z->side == SAC_ZIPVL_BAND ? attend_band(z, a, &kv) : attend_two_sided(z, a, &kv);
}
