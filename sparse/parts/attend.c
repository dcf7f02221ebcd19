#include "attend.h"

#include "causal.h"
#include "gathered.h"
#include "measure.h"

static sac_status attend_rows(const sac_layer_attention *a, int64_t first, int64_t n, bool steady) {
    sac_attention_args args = sac_causal_args(a, sac_mat_rows(a->q, first, n), a->past + first);
    args.steady = steady;
    return a->ops->attention(a->stream, &args);
}

sac_status sac_attend_dense(const sac_layer_attention *a, int64_t first, int64_t n) {
    return attend_rows(a, first, n, false);
}

sac_layer_attention sac_prompt_chunk(const sac_layer_attention *a, int64_t first, int64_t n) {
    sac_layer_attention chunk = *a;
    chunk.q = sac_mat_rows(a->q, first, n);
    chunk.past = a->past + first;
    chunk.position = a->position + first;
    chunk.kv.n_rows = chunk.past + n;
    chunk.n_unread = a->n_unread < first ? 0 : a->n_unread - first < n ? a->n_unread - first : n;
    return chunk;
}

static sac_status begin_dense(const sac_layer_attention *a) {
    double n = (double)a->q.rows;
    if (a->make_queries.fn) SAC_TRY(a->make_queries.fn(a->make_queries.ctx, a->q, NULL));
    sac_count_prefill(a, n, (n * (n + 1) / 2 + n * (double)a->past) * a->shape->n_heads);
    if (a->past + a->q.rows == a->n_seen) sac_count_prefill_mass(a, 1);
    return SAC_OK;
}

sac_status sac_attend_prompt_dense(const sac_layer_attention *a) {
    SAC_TRY(begin_dense(a));
    if (a->n_unread == a->q.rows) return SAC_OK;
    /* However much of the prompt was there before, a row has the same bits. Of a last layer the same rows are read. */
    return attend_rows(a, a->n_unread, a->q.rows - a->n_unread, a->n_unread == 0);
}

sac_status sac_attend_prompt_rows(const sac_layer_attention *a, int64_t first, int64_t n) {
    if (first == 0) SAC_TRY(begin_dense(a));
    sac_attention_args args = sac_causal_args(a, sac_mat_rows(a->q, first, n), a->past + first);
    args.n_kv = a->past + a->q.rows; /* of a picture that goes on behind these queries they may see all */
    args.steady = true;
    return a->ops->attention(a->stream, &args);
}

/* ---------------------------------------------------------------- a choice of rows */

static int64_t longest(const sac_choice_lists *l) {
    int64_t n = 0;
    for (int i = 0; i < l->n_lists; i++) {
        int64_t length = sac_choice_begin(l, i + 1) - sac_choice_begin(l, i);
        n = length > n ? length : n;
    }
    return n;
}

/* args over the choice's lists of the rows of args->kv. */
static void read_lists(const sac_choice_lists *of, sac_row_lists *lists, sac_attention_args *args) {
    *lists = sac_choice_row_lists(of);
    args->lists = lists;
    args->uneven = !of->start.host;
    args->n_kv = args->uneven ? args->kv.n_rows : longest(of);
}

/* A view that lacks the sequence's last rows. */
static sac_status attend_far_and_near(const sac_layer_attention *a, const sac_choice_view *v) {
    if (a->window) return SAC_UNSUPPORTED;
    return a->ops->choice_attend(a->stream, &(sac_choice_attend_args){.q = a->q,
                                                                      .far = v->kv,
                                                                      .src = a->kv,
                                                                      .n_far = v->kv.n_rows - v->n_near,
                                                                      .local = v->n_near,
                                                                      .n_rows = a->kv.n_rows,
                                                                      .rotation = a->rotation,
                                                                      .n_heads = a->shape->n_heads,
                                                                      .scale = a->scale});
}

/* Puts them in, and turns the query. */
static sac_status complete_view(const sac_layer_attention *a, const sac_choice_view *v) {
    return a->ops->choice_step(a->stream, &(sac_choice_step_args){.q = a->q,
                                                                  .dst = v->kv,
                                                                  .src = a->kv,
                                                                  .init = v->kv.n_rows - v->n_near,
                                                                  .local = v->n_near,
                                                                  .n_rows = a->kv.n_rows,
                                                                  .rotation = a->rotation,
                                                                  .n_heads = a->shape->n_heads,
                                                                  .kept = true});
}

/* The whole view, or lists of its places: these have no window, and all come before the query. */
static sac_status read_view(const sac_layer_attention *a, const sac_choice *choice, sac_row_lists *lists,
                            sac_attention_args *args) {
    const sac_choice_view *v = &choice->view;
    if (v->n_near > 0) {
        bool apart = sac_ops_traits_of(a->shape->device)->reads_apart;
        sac_status st = apart ? attend_far_and_near(a, v) : SAC_UNSUPPORTED;
        if (st != SAC_UNSUPPORTED) return st; /* there is nothing left to read */
        SAC_TRY(complete_view(a, v));
    }
    *args = sac_causal_args(a, a->q, v->kv.n_rows - 1);
    args->kv = v->kv;
    if (!choice->lists.rows) return SAC_OK;
    args->causal = false;
    args->window = 0;
    read_lists(&choice->lists, lists, args);
    return SAC_OK;
}

sac_status sac_choice_call(const sac_layer_attention *a, const sac_choice *choice, sac_row_lists *lists,
                           sac_attention_args *args) {
    *args = (sac_attention_args){0};
    if (choice->kind == SAC_CHOICE_VIEW) return read_view(a, choice, lists, args);
    if (choice->kind == SAC_CHOICE_PLACES) {
        SAC_TRY(sac_gather_places(a, a->q, a->position, &choice->lists, choice->room));
        *args = sac_causal_args(a, a->q, choice->room->view.n_rows - a->q.rows);
        args->kv = choice->room->view;
        return SAC_OK;
    }
    *args = sac_causal_args(a, a->q, a->past);
    if (choice->lists.rows) read_lists(&choice->lists, lists, args);
    return SAC_OK;
}

sac_status sac_attend_choice(const sac_layer_attention *a, const sac_choice *choice) {
    sac_row_lists lists;
    sac_attention_args args;
    SAC_TRY(sac_choice_call(a, choice, &lists, &args));
    return args.n_q > 0 ? a->ops->attention(a->stream, &args) : SAC_OK;
}

/* ---------------------------------------------------------------- counting */

void sac_count_prefill(const sac_layer_attention *a, double n_kept, double n_pairs) {
    a->stats->prefill_kept += n_kept;
    a->stats->prefill_pairs += n_pairs;
}

void sac_count_step(const sac_layer_attention *a, double n_rows) {
    a->stats->n_steps += 1;
    a->stats->decode_rows_dense += (double)a->n_seen * a->shape->n_kv_heads; /* dropped ones too */
    a->stats->decode_rows += n_rows * a->shape->n_kv_heads;
    a->stats->decode_budget += n_rows * a->shape->n_heads;
}
