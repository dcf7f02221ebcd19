/* decoder_positions.c - the places of the rows at hand in the sequence, and the cos/sin table that they are
 * turned by. The table has a row for each row of the sequence, so that ops look it up by place, whatever
 * numbers a family gives to the rows. */
#include "decoder_ahead_run.h"

/* Rows of the table from `first` on are of other numbers. */
static void forget_rotations(sac_decoder_state *s, int64_t first) {
    if (s->n_cos_sin > first) s->n_cos_sin = first;
}

void sac_decoder_number_rows(sac_decoder_state *s, sac_row_numbers numbers, int64_t n_reused) {
    if (s->numbers.ids || numbers.ids) forget_rotations(s, n_reused);
    s->numbers = numbers;
}

void sac_decoder_count_on(sac_decoder_state *s) {
    if (!s->numbers.ids || s->cache.n_rows >= s->numbers.n) return;
    sac_row_numbers_cut(&s->numbers, s->cache.n_rows);
    forget_rotations(s, s->cache.n_rows);
}

/* Rows [first, n_total) of a table. */
static sac_status upload_rotations(const decoder_run *r, int rot_dim, float *to, const float *from, int64_t first,
                                   int64_t n_total) {
    const size_t row = (size_t)rot_dim;
    return decoder_upload(r, to + (size_t)first * row, from + (size_t)first * row,
                          (size_t)(n_total - first) * row * sizeof(float));
}

/* LongRoPE: all of the table is of one length's factors. */
static void choose_factors(sac_decoder_state *s, int64_t n_total) {
    const bool is_long = sac_rope_is_long(&s->rope, n_total);
    if (is_long != s->is_long) forget_rotations(s, 0);
    s->is_long = is_long;
}

sac_status sac_decoder_prepare_rotations(const decoder_run *r, int64_t past, int64_t n_total) {
    sac_decoder_state *s = r->s;
    choose_factors(s, n_total);
    int64_t first = s->rope.scaling == SAC_ROPE_DYNAMIC ? past : s->n_cos_sin;
    if (first >= n_total) return SAC_OK;
    sac_rope_fill(&s->rope, &s->numbers, first, n_total - first, n_total, s->cos_sin);
    SAC_TRY(upload_rotations(r, s->rope.rot_dim, s->device_cos_sin, s->cos_sin, first, n_total));
    const sac_decoder_config *c = &r->d->config;
    if (c->two_ropes) {
        sac_rope_fill(&c->second_rope, &s->numbers, first, n_total - first, n_total, s->second_cos_sin);
        SAC_TRY(upload_rotations(r, c->second_rope.rot_dim, s->device_second_cos_sin, s->second_cos_sin, first,
                                 n_total));
    }
    s->n_cos_sin = n_total;
    return SAC_OK;
}

sac_status sac_decoder_upload_positions(const decoder_run *r, int64_t first, int64_t n) {
    return decoder_upload(r, r->s->device_positions + first, r->s->positions + first,
                          (size_t)n * sizeof(int32_t));
}

/* An upload costs a device as much for the tables of one step as for those of these. */
enum { STEPS_AHEAD = 64 };

sac_status sac_decoder_prepare_step_rotations(const decoder_run *r, int64_t past) {
    const sac_decoder_state *s = r->s;
    const bool is_long = sac_rope_is_long(&s->rope, past + 1);
    bool ahead = s->device && s->rope.scaling != SAC_ROPE_DYNAMIC && s->n_cos_sin <= past;
    int64_t end = ahead ? decoder_min(past + STEPS_AHEAD, s->n_ctx) : past + 1;
    while (sac_rope_is_long(&s->rope, end) != is_long) end--; /* not over the border */
    return sac_decoder_prepare_rotations(r, past, end);
}

sac_status sac_decoder_prepare_step_positions(const decoder_run *r, int64_t past, int64_t n_before) {
    sac_decoder_state *s = r->s;
    s->positions[past + n_before] = (int32_t)past;
    if (!s->device || n_before > 0) {
        s->n_positions = 0;
        return sac_decoder_upload_positions(r, past, n_before + 1);
    }
    if (past < s->n_positions) return SAC_OK;
    int64_t end = decoder_min(past + STEPS_AHEAD, s->n_ctx);
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    SAC_TRY(sac_decoder_upload_positions(r, past, end - past));
    s->n_positions = end;
    return SAC_OK;
}

sac_status sac_decoder_prepare_ahead(const decoder_run *r, int64_t past, int64_t n) {
    sac_decoder_state *s = r->s;
    if (!s->device) {
        SAC_TRY(sac_decoder_prepare_rotations(r, past, past + n));
        for (int64_t i = past; i < past + n; i++) s->positions[i] = (int32_t)i;
        return SAC_OK;
    }
    const int64_t end = decoder_min(past + (n > STEPS_AHEAD ? n : STEPS_AHEAD), s->n_ctx);
    if (past + n > s->n_cos_sin) SAC_TRY(sac_decoder_prepare_rotations(r, past, end));
    if (past + n <= s->n_positions) return SAC_OK;
    for (int64_t i = past; i < end; i++) s->positions[i] = (int32_t)i;
    SAC_TRY(sac_decoder_upload_positions(r, past, end - past));
    s->n_positions = end;
    return SAC_OK;
}
