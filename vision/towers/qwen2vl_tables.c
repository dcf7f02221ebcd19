/* qwen2vl_tables.c - the buffers of a Qwen2-VL tower, and the tables that follow from the size of a picture. */
#include "qwen2vl.h"

#include <math.h>

/* ---------------------------------------------------------------- memory */

static bool take_rows(sac_tower_state *s, const sac_tower_config *c, sac_arena *arena) {
    const int64_t rows = sac_qwen2vl_max_rows(s, c);
    const struct {
        int buffer;
        int64_t cols;
    } all[] = {{SAC_QWEN2VL_PATCHES, sac_tower_patch_bytes(c)},
               {SAC_QWEN2VL_H, c->hidden},
               {SAC_QWEN2VL_NORM, c->hidden},
               {SAC_QWEN2VL_QKV, 3 * (int64_t)c->hidden},
               {SAC_QWEN2VL_UP, c->intermediate},
               {SAC_QWEN2VL_GATE, c->intermediate}};
    bool ok = true;
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        s->at[all[i].buffer] =
            sac_arena_take(arena, (size_t)rows * sac_dtype_row_bytes(s->dtype, all[i].cols));
        ok = ok && s->at[all[i].buffer];
    }
    return ok;
}

static size_t row_table_bytes(const sac_tower_state *s, const sac_tower_config *c) {
    return (size_t)sac_qwen2vl_max_rows(s, c) * sizeof(int32_t);
}
static size_t rotation_bytes(const sac_tower_config *c, int64_t rows) {
    return (size_t)rows * (size_t)(c->hidden / c->n_heads) * sizeof(float);
}

static size_t tap_bytes(const sac_tower_config *c, int64_t rows) { /* of either table: both are of four bytes */
    return (size_t)rows * (size_t)sac_qwen2vl_blends(c) * SAC_BLEND_TAPS * sizeof(float);
}

static bool take_tables(const sac_tower_state *s, const sac_tower_config *c, sac_arena *arena,
                        sac_qwen2vl_tables *t) {
    t->order = sac_arena_take(arena, row_table_bytes(s, c));
    t->back = sac_arena_take(arena, row_table_bytes(s, c));
    t->rotation = sac_arena_take(arena, row_table_bytes(s, c));
    t->cos_sin = sac_arena_take(arena, rotation_bytes(c, sac_qwen2vl_max_rows(s, c)));
    if (!c->table_side) return t->cos_sin != NULL;
    t->taps = sac_arena_take(arena, tap_bytes(c, sac_qwen2vl_max_rows(s, c)));
    t->tap_weight = sac_arena_take(arena, tap_bytes(c, sac_qwen2vl_max_rows(s, c)));
    return t->tap_weight != NULL;
}

static bool take_host(sac_tower_state *s, const sac_tower_config *c, sac_arena *host) {
    sac_qwen2vl_tables t = {0}, *to = sac_arena_take(host, sizeof t);
    bool ok = take_tables(s, c, host, &t);
    t.window = sac_arena_take(host, ((size_t)s->max_segments + 1) * sizeof(int32_t));
    s->segment_start = t.window;
    s->at[SAC_QWEN2VL_HOST_TABLES] = to;
    if (!to || !t.window || !ok) return false;
    *to = t;
    return true;
}

/* The device's copy; its struct stays on the host. */
static bool take_device(sac_tower_state *s, const sac_tower_config *c, sac_arena *arena, sac_arena *host) {
    sac_qwen2vl_tables t = {0}, *to = sac_arena_take(host, sizeof t);
    bool ok = take_tables(s, c, arena, &t);
    s->at[SAC_QWEN2VL_TABLES] = to;
    if (!to || !ok) return false;
    *to = t;
    return true;
}

sac_status sac_qwen2vl_take(sac_tower_state *s, const sac_tower_config *c, const sac_stream *stream,
                            sac_arena *arena, sac_arena *host, sac_error *err) {
    (void)stream;
    bool ok = take_rows(s, c, arena);
    ok = take_host(s, c, host) && ok;
    if (s->on_device) ok = take_device(s, c, arena, host) && ok;
    if (!arena->base || ok) return SAC_OK;
    return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the vision tower");
}

/* ---------------------------------------------------------------- rows of a tile */

/* A grid in squares of merge x merge patches, which stay together, in windows of `window` squares a side. */
typedef struct squares {
    int h, w, merge, window;
} squares;

static squares squares_of(const sac_tower_config *c, sac_grid g) {
    int m = c->merge_size, h = g.h / m, w = g.w / m;
    int side = c->window_size / c->patch_size / m;
    return (squares){h, w, m, side > 0 ? side : h > w ? h : w};
}

/* Squares window by window, both row by row. */
static void order_rows(const squares *s, sac_qwen2vl_tables *t) {
    int area = s->merge * s->merge, n = 0;
    t->n_windows = 0;
    for (int top = 0; top < s->h; top += s->window)
        for (int left = 0; left < s->w; left += s->window) {
            t->window[t->n_windows++] = n;
            for (int y = top; y < top + s->window && y < s->h; y++)
                for (int x = left; x < left + s->window && x < s->w; x++)
                    for (int i = 0; i < area; i++) t->order[n++] = (y * s->w + x) * area + i;
        }
    t->window[t->n_windows] = n;
}

/* The row and column of a patch by its number, which goes square by square. */
static int row_of(const squares *s, int patch) {
    int area = s->merge * s->merge;
    return patch / area / s->w * s->merge + patch % area / s->merge;
}
static int column_of(const squares *s, int patch) {
    int area = s->merge * s->merge;
    return patch / area % s->w * s->merge + patch % area % s->merge;
}

/* Pair i of a head turns by the row, from the first quarter of its channels on by the column: both at the same rates, or
 * by turns at those of a rope of the whole head. Where pairs are neighbours, by turns by the column and by the row. What a patch of
 * the same row, or column, turns by is known already, or NULL. */
static void rotate_row(const sac_tower_config *c, const squares *s, int patch, const float *same_row, const float *same_column,
                       float *cos_sin) {
    int dim = c->hidden / c->n_heads, quarter = dim / 4, y = row_of(s, patch), x = column_of(s, patch);
    const int between = c->kind->rates_take_turns ? 1 : 0;
    const bool by_turns = c->kind->turns_neighbours;
    const float base = c->rope_theta > 0 ? c->rope_theta : 10000.0f;
    for (int i = 0; i < 2 * quarter; i++) {
        const bool by_row = by_turns ? i % 2 : i < quarter;
        const int rate = by_turns ? i / 2 : i % quarter;
        const float *known = by_row ? same_row : same_column;
        if (known) {
            cos_sin[2 * i] = known[2 * i];
            cos_sin[2 * i + 1] = known[2 * i + 1];
            continue;
        }
        float exponent = (float)(4 * rate + (by_row ? 0 : 2 * between)) / (float)dim;
        float angle = (float)(by_row ? y : x) * (1.0f / powf(base, exponent));
        cos_sin[2 * i] = cosf(angle);
        cos_sin[2 * i + 1] = sinf(angle);
    }
}

/* Place i of n on one axis of the table, whose ends are those of the axis, or whose cells cover it: the two rows that it lies
 * between, and how much of each, in f32 as transformers does. */
static void axis_taps(int i, int n, int side, bool by_cells, int tap[2], float weight[2]) {
    const float corners = (float)i * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1),
                cells = ((float)i + 0.5f) * (float)side / (float)n - 0.5f, at = by_cells ? cells : corners, low = floorf(at);
    for (int k = 0; k < 2; k++) {
        const int row = (int)low + k;
        tap[k] = row < 0 ? 0 : row < side ? row : side - 1;
        weight[k] = fmaxf(1 - fabsf(at - low - (float)k), 0);
    }
}

static void tap_patch(const sac_tower_config *c, const squares *s, int patch, int32_t *taps, float *weight) {
    int rows[2], columns[2];
    float of_row[2], of_column[2];
    axis_taps(row_of(s, patch), s->h * s->merge, c->table_side, c->table_by_cells, rows, of_row);
    axis_taps(column_of(s, patch), s->w * s->merge, c->table_side, c->table_by_cells, columns, of_column);
    for (int k = 0; k < SAC_BLEND_TAPS; k++) {
        taps[k] = rows[k / 2] * c->table_side + columns[k % 2];
        weight[k] = of_row[k / 2] * of_column[k % 2];
    }
}

/* Place i of n, cell to cell: the four rows around it, the outermost again beyond the ends, by Keys' cubic with a = -0.75
 * (torch's grid_sample). */
static void cubic_taps(int i, int n, int side, int tap[4], float weight[4]) {
    const float a = -0.75f, at = ((float)i + 0.5f) / (float)n * (float)side - 0.5f, low = floorf(at), t = at - low;
    for (int k = 0; k < 4; k++) {
        const int row = (int)low + k - 1;
        const float d = fabsf(t - (float)(k - 1));
        tap[k] = row < 0 ? 0 : row < side ? row : side - 1;
        weight[k] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
}

/* One blend for each of the four rows of the table. */
static void tap_patch_cubic(const sac_tower_config *c, const squares *s, int patch, sac_qwen2vl_tables *t) {
    int rows[4], columns[4];
    float of_row[4], of_column[4];
    const size_t n_taps = (size_t)(s->h * s->w * s->merge * s->merge) * SAC_BLEND_TAPS;
    cubic_taps(row_of(s, patch), s->h * s->merge, c->table_side, rows, of_row);
    cubic_taps(column_of(s, patch), s->w * s->merge, c->table_side, columns, of_column);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < SAC_BLEND_TAPS; k++) {
            const size_t at = (size_t)i * n_taps + SAC_BLEND_TAPS * (size_t)patch + (size_t)k;
            t->taps[at] = rows[i] * c->table_side + columns[k];
            t->tap_weight[at] = of_row[i] * of_column[k];
        }
}

/* The tables of further tiles are those of the first, moved on. */
static void repeat_tile(sac_qwen2vl_tables *t, int rows, int n_tiles) {
    int windows = t->n_windows;
    for (int i = rows; i < rows * n_tiles; i++) {
        t->order[i] = t->order[i - rows] + rows;
        t->rotation[i] = t->rotation[i - rows];
    }
    for (int k = 1; k < n_tiles; k++)
        for (int i = 0; i < windows; i++) t->window[k * windows + i] = t->window[i] + k * rows;
    t->n_windows = windows * n_tiles;
    t->window[t->n_windows] = rows * n_tiles;
    for (int i = 0; i < rows * n_tiles; i++) t->back[t->order[i]] = i;
}

/* Of a row before row i that shows a patch of the same row of the picture, or column, what it turns by; NULL: none that is near. */
static const float *turned_before(const squares *s, const sac_qwen2vl_tables *t, int i, size_t dim, int (*place)(const squares *, int)) {
    const int area = s->merge * s->merge, back[] = {1, s->merge, area, area * s->window, area * s->w};
    for (size_t k = 0; k < SAC_COUNT(back); k++)
        if (back[k] <= i && place(s, t->order[i - back[k]]) == place(s, t->order[i])) return t->cos_sin + (size_t)(i - back[k]) * dim;
    return NULL;
}

static void fill(const sac_tower_config *c, sac_qwen2vl_tables *t, sac_grid g, int n_tiles) {
    squares s = squares_of(c, g);
    int rows = g.h * g.w, dim = c->hidden / c->n_heads;
    order_rows(&s, t);
    for (int i = 0; i < rows; i++) {
        t->rotation[i] = i;
        rotate_row(c, &s, t->order[i], turned_before(&s, t, i, (size_t)dim, row_of), turned_before(&s, t, i, (size_t)dim, column_of),
                   t->cos_sin + (size_t)i * (size_t)dim);
        if (c->table_is_cubic)
            tap_patch_cubic(c, &s, i, t);
        else if (c->table_side)
            tap_patch(c, &s, i, t->taps + SAC_BLEND_TAPS * (size_t)i,
                      t->tap_weight + SAC_BLEND_TAPS * (size_t)i);
    }
    repeat_tile(t, rows, n_tiles);
    t->grid = g;
    t->n_tiles = n_tiles;
}

static sac_status upload(const sac_tower_run *r, const sac_qwen2vl_tables *from,
                         const sac_qwen2vl_tables *to) {
    const sac_device *d = r->stream->device;
    const sac_tower_config *c = &r->tower->config;
    int64_t tile = (int64_t)from->grid.h * from->grid.w, rows = tile * from->n_tiles;
    size_t n_bytes = (size_t)rows * sizeof(int32_t);
    SAC_TRY(d->upload(r->stream, to->order, from->order, n_bytes));
    SAC_TRY(d->upload(r->stream, to->back, from->back, n_bytes));
    SAC_TRY(d->upload(r->stream, to->rotation, from->rotation, n_bytes));
    if (c->table_side) SAC_TRY(d->upload(r->stream, to->taps, from->taps, tap_bytes(c, tile)));
    if (c->table_side) SAC_TRY(d->upload(r->stream, to->tap_weight, from->tap_weight, tap_bytes(c, tile)));
    return d->upload(r->stream, to->cos_sin, from->cos_sin, rotation_bytes(c, tile));
}

sac_status sac_qwen2vl_prepare(const sac_tower_run *r, sac_grid g, int n_tiles, sac_qwen2vl_tables *where) {
    const sac_tower_state *s = r->state;
    sac_qwen2vl_tables *t = s->at[SAC_QWEN2VL_HOST_TABLES];
    const sac_qwen2vl_tables *there = s->on_device ? s->at[SAC_QWEN2VL_TABLES] : t;
    if (t->grid.h != g.h || t->grid.w != g.w || t->n_tiles != n_tiles) {
        fill(&r->tower->config, t, g, n_tiles);
        if (s->on_device) {
            sac_status st = upload(r, t, there);
            if (st != SAC_OK) t->n_tiles = 0; /* what the device holds is not known */
            SAC_TRY(st);
        }
    }
    *where = *t;
    where->order = there->order;
    where->back = there->back;
    where->rotation = there->rotation;
    where->cos_sin = there->cos_sin;
    where->taps = there->taps;
    where->tap_weight = there->tap_weight;
    return SAC_OK;
}
