#include "media_reduce.h"

#include "hash.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

struct sac_reduction {
    sac_reduce_video video;
    sac_dtype dtype;              /* of the rows: f32 from the host, the decoder's from a device */
    size_t row_bytes, deep_bytes; /* of a cell */
    int64_t n_seen;               /* tiles */
    int64_t n_held, capacity;     /* cells whose rows wait */
    int32_t *cell;                /* [capacity] which, ascending */
    uint8_t *rows, *deep;         /* [capacity] of them */
    int32_t *kept;                /* [n_kept] the reducer's answer */
    float *tile;                  /* [cells][cols] of the tile at hand, or NULL */
    void *state;                  /* the reducer's */
    bool is_known;                /* which stay, and that is all there is to know: no reducer is asked */
    bool is_broken;               /* the reducer kept a cell whose row is not here */
};

void sac_reduction_free(struct sac_reduction *r) {
    if (!r) return;
    free(r->cell);
    free(r->rows);
    free(r->deep);
    free(r->kept);
    free(r->tile);
    free(r->state);
    free(r);
}

/* ---------------------------------------------------------------- how many, and which are known */

static sac_reduce_video video_of(const sac_session *s, const sac_media *m) {
    return (sac_reduce_video){m->report.n_tiles, sac_grid_cells(m->plan.tokens), s->model->loaded.merger.out};
}

sac_status sac_media_reduce_plan(const sac_session *s, sac_media *m, sac_error *err) {
    if (!sac_reduce_sees_videos(&s->reduce)) return SAC_OK;
    const sac_reduce_video v = video_of(s, m);
    if (v.cells < 1 || v.n_tiles > INT32_MAX / v.cells)
        return sac_fail(err, SAC_TOO_LONG, "a video of %lld frames is too long for a reducer: give fewer",
                        (long long)m->report.n_frames);
    const int64_t n = s->reduce.reducer->count_video(s->reduce.p, &v);
    m->n_cells = v.n_tiles * v.cells;
    if (n < m->n_cells) m->n_kept = n;
    return SAC_OK;
}

/* Of what is remembered: a bit for each cell. */
static sac_status memo_key(const sac_media *m, sac_vision_key *key) {
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, NULL));
    sac_sha256_update(h, "kept", 4);
    sac_sha256_update(h, m->key.hash, sizeof m->key.hash);
    sac_sha256_finish(h, key->hash);
    return SAC_OK;
}

static size_t memo_bytes(const sac_media *m) {
    return ((size_t)m->n_cells + 7) / 8;
}

void sac_media_recall_kept(const sac_session *s, sac_media *m) {
    sac_vision_key key;
    size_t n_bytes = 0;
    if (!m->n_kept || m->kept || memo_key(m, &key) != SAC_OK) return;
    uint8_t *bits = sac_memo_get(s->model->memo, &key, &n_bytes);
    int32_t *kept = bits && n_bytes == memo_bytes(m) ? malloc((size_t)m->n_kept * sizeof *kept) : NULL;
    int64_t n = 0;
    for (int64_t i = 0; kept && i < m->n_cells && n < m->n_kept; i++)
        if (bits[i / 8] >> (i % 8) & 1) kept[n++] = (int32_t)i;
    free(bits);
    if (n == m->n_kept)
        m->kept = kept;
    else
        free(kept);
}

static void remember_kept(const sac_session *s, const sac_media *m) {
    sac_vision_key key;
    uint8_t *bits = calloc(memo_bytes(m), 1);
    for (int64_t i = 0; bits && i < m->n_kept; i++) bits[m->kept[i] / 8] |= (uint8_t)(1 << (m->kept[i] % 8));
    if (bits && memo_key(m, &key) == SAC_OK) sac_memo_put(s->model->memo, &key, bits, memo_bytes(m));
    free(bits);
}

/* The first cell behind block b. */
static int64_t block_end(const sac_media *m, int64_t b) {
    return m->block_tokens ? (b + 1) * (m->n_cells / m->n_blocks) : sac_media_block_first(m, b + 1);
}

void sac_media_lay_out_spans(const sac_session *s, sac_media *m) {
    if (!m->n_kept) return;
    int64_t at = 0;
    for (int64_t b = 0; b < m->n_blocks; b++) {
        const int64_t first = at;
        if (m->kept)
            while (at < m->n_kept && m->kept[at] < block_end(m, b)) at++;
        else
            at = m->n_kept * (b + 1) / m->n_blocks;
        m->spans[b].n = at - first;
        m->spans[b].cells = m->kept ? m->kept + first : NULL;
    }
    m->spans[m->n_blocks - 1].n += s->model->loaded.video_newline;
}

/* ---------------------------------------------------------------- rows that wait */

/* As many as the reducer needs at once. */
static int64_t capacity_of(const sac_session *s, const sac_media *m, const sac_reduce_video *v) {
    enum { TILES = 4, A_PART = 4 };
    if (m->reduction->is_known) return m->n_kept;
    const int64_t some = m->n_kept / A_PART > TILES * v->cells ? m->n_kept / A_PART : TILES * v->cells;
    return s->reduce.reducer->needs_all || m->n_kept + some > m->n_cells ? m->n_cells : m->n_kept + some;
}

static bool take(struct sac_reduction *r, const sac_session *s, const sac_media *m) {
    const sac_reducer *reducer = s->reduce.reducer;
    const size_t n = (size_t)r->capacity, tile = (size_t)(r->video.cells * r->video.cols);
    r->cell = malloc(n * sizeof *r->cell);
    r->rows = malloc(n * r->row_bytes);
    r->deep = r->deep_bytes ? malloc(n * r->deep_bytes) : NULL;
    if (!r->cell || !r->rows || (r->deep_bytes && !r->deep)) return false;
    if (r->is_known) return true;
    r->kept = malloc((size_t)m->n_kept * sizeof *r->kept);
    r->tile = reducer->see ? malloc(tile * sizeof *r->tile) : NULL;
    r->state = calloc(1, reducer->state_bytes(s->reduce.p, &r->video));
    return r->kept && r->state && (r->tile || !reducer->see);
}

/* What one video may take while others wait: bytes of rows, and multiplications of the choice (half a minute of one thread). */
#define MOST_BYTES ((double)((int64_t)4 << 30))
#define MOST_WORK 4e10

static sac_status check_size(const sac_session *s, const sac_media *m, const struct sac_reduction *r, sac_error *err) {
    const sac_reducer *reducer = s->reduce.reducer;
    if (r->is_known) return SAC_OK;
    const double n_bytes = (double)r->capacity * (double)(r->row_bytes + r->deep_bytes) +
                           (double)reducer->state_bytes(s->reduce.p, &r->video);
    const double work = reducer->work ? reducer->work(s->reduce.p, &r->video) : 0;
    if (n_bytes > MOST_BYTES)
        return sac_fail(err, SAC_TOO_LONG, "%s: %lld frames of a video would wait in %.1f GB, %.1f may be taken: give fewer frames",
                        reducer->name, (long long)m->report.n_frames, n_bytes / 1e9, MOST_BYTES / 1e9);
    if (work > MOST_WORK)
        return sac_fail(err, SAC_TOO_LONG, "%s: to choose among %lld tokens takes too long: give fewer frames, about %lld",
                        reducer->name, (long long)m->n_cells,
                        (long long)((double)m->report.n_frames * MOST_WORK / work));
    return SAC_OK;
}

sac_status sac_reduction_begin(const sac_session *s, sac_media *m, sac_error *err) {
    const sac_merger *merger = &s->model->loaded.merger;
    sac_reduction_free(m->reduction);
    struct sac_reduction *r = m->reduction = calloc(1, sizeof *r);
    if (!r) return sac_fail(err, SAC_NO_MEMORY, "no memory for a video's reducer");
    r->is_known = m->kept && !s->reduce.reducer->changes_rows;
    r->video = video_of(s, m);
    r->dtype = s->device_vision.is_open ? s->decoder.dtype : SAC_DTYPE_F32;
    r->row_bytes = sac_dtype_row_bytes(r->dtype, merger->out);
    r->deep_bytes = sac_dtype_row_bytes(r->dtype, (int64_t)merger->out * merger->n_deep);
    r->capacity = capacity_of(s, m, &r->video);
    sac_status st = check_size(s, m, r, err);
    if (st == SAC_OK && take(r, s, m)) return SAC_OK;
    sac_reduction_free(r);
    m->reduction = NULL;
    if (st != SAC_OK) return st;
    return sac_fail(
        err, SAC_NO_MEMORY,
        "no memory for the rows of a video of %lld tokens, which wait for the reducer: give fewer frames",
        (long long)m->n_cells);
}

/* Rows of the cells in `kept`, which are held, come to the front. */
static void keep_only(struct sac_reduction *r, const int32_t *kept, int64_t n) {
    int64_t from = 0;
    for (int64_t i = 0; i < n; i++, from++) {
        while (from < r->n_held && r->cell[from] != kept[i]) from++;
        r->is_broken |= from == r->n_held;
        if (r->is_broken) return;
        if (from == i) continue;
        r->cell[i] = r->cell[from];
        memcpy(r->rows + (size_t)i * r->row_bytes, r->rows + (size_t)from * r->row_bytes, r->row_bytes);
        if (r->deep)
            memcpy(r->deep + (size_t)i * r->deep_bytes, r->deep + (size_t)from * r->deep_bytes,
                   r->deep_bytes);
    }
    r->n_held = n;
}

static sac_mat held_rows(const struct sac_reduction *r) {
    return (sac_mat){r->rows, r->n_held, r->video.cols, r->video.cols, r->dtype};
}

static bool is_cancelled(void *session) {
    return sac_session_check_cancel(session, NULL) != SAC_OK;
}

/* What cannot stay any more makes room. */
static void make_room(const sac_session *s, const sac_media *m, struct sac_reduction *r) {
    const int64_t seen = r->n_seen * r->video.cells, n = seen < m->n_kept ? seen : m->n_kept;
    if (r->n_held + r->video.cells <= r->capacity) return;
    s->reduce.reducer->choose_video(NULL, s->reduce.p, &r->video, r->state, r->n_seen, (sac_mat){0}, r->kept, n);
    keep_only(r, r->kept, n);
}

static bool wants(const struct sac_reduction *r, const sac_media *m, int32_t cell) {
    return !r->is_known || (r->n_held < m->n_kept && m->kept[r->n_held] == cell);
}

/* The rows of a tile's tokens, of which those that are no cells are left out. */
static void add_tile(const sac_session *s, const sac_media *m, const uint8_t *rows, const uint8_t *deep) {
    struct sac_reduction *r = m->reduction;
    const int64_t n_cells = r->video.cells;
    const int64_t n_class = m->plan.tokens_per_tile - n_cells - sac_visual_newlines(&m->plan);
    const sac_mat all = {(void *)(uintptr_t)rows, m->plan.tokens_per_tile, r->video.cols, r->video.cols,
                         r->dtype};
    if (!r->is_known) make_room(s, m, r);
    for (int64_t t = n_class; t < m->plan.tokens_per_tile; t++) {
        const int64_t cell = sac_visual_cell(&m->plan, t - n_class);
        if (cell < 0) continue;
        if (r->tile) sac_reduce_row(all, t, r->tile + cell * r->video.cols);
        if (!wants(r, m, (int32_t)(r->n_seen * n_cells + cell))) continue;
        r->cell[r->n_held] = (int32_t)(r->n_seen * n_cells + cell);
        memcpy(r->rows + (size_t)r->n_held * r->row_bytes, rows + (size_t)t * r->row_bytes, r->row_bytes);
        if (r->deep)
            memcpy(r->deep + (size_t)r->n_held * r->deep_bytes, deep + (size_t)t * r->deep_bytes,
                   r->deep_bytes);
        r->n_held++;
    }
    if (r->tile) s->reduce.reducer->see(s->reduce.p, &r->video, r->state, r->n_seen, r->tile);
    r->n_seen++;
}

/* Rows of a device to the host. */
static sac_status fetch(const sac_session *s, sac_mat from, uint8_t *to, size_t row_bytes) {
    return from.data
               ? s->model->device.download(&s->device_stream, to, from.data, (size_t)from.rows * row_bytes)
               : SAC_OK;
}

static sac_status fetch_both(const sac_session *s, const struct sac_reduction *r, sac_visual_mat from,
                             uint8_t *rows, uint8_t *deep, sac_error *err) {
    SAC_TRY(fetch(s, from.rows, rows, r->row_bytes));
    SAC_TRY(fetch(s, from.deep, deep, r->deep_bytes));
    return s->model->device.stream_sync(&s->device_stream, err);
}

static void add_tiles(const sac_session *s, const sac_media *m, int64_t n, const uint8_t *rows,
                      const uint8_t *deep) {
    const struct sac_reduction *r = m->reduction;
    const size_t each = (size_t)m->plan.tokens_per_tile;
    for (size_t i = 0; i < (size_t)n; i++)
        add_tile(s, m, rows + i * each * r->row_bytes, deep ? deep + i * each * r->deep_bytes : NULL);
}

sac_status sac_reduction_add(const sac_session *s, sac_media *m, int64_t n, sac_visual_mat from, bool on_host,
                             sac_error *err) {
    const struct sac_reduction *r = m->reduction;
    if (on_host && r->dtype == SAC_DTYPE_F32) {
        add_tiles(s, m, n, from.rows.data, from.deep.data);
        return SAC_OK;
    }
    const size_t n_rows = (size_t)from.rows.rows;
    uint8_t *rows = malloc(n_rows * (r->row_bytes + r->deep_bytes));
    if (!rows) return sac_fail(err, SAC_NO_MEMORY, "no memory for the rows of %lld frames", (long long)n);
    uint8_t *deep = r->deep_bytes ? rows + n_rows * r->row_bytes : NULL;
    sac_status st = fetch_both(s, r, from, rows, deep, err);
    if (st == SAC_OK) add_tiles(s, m, n, rows, deep);
    free(rows);
    return st;
}

sac_status sac_reduction_end(sac_session *s, sac_media *m, sac_error *err) {
    struct sac_reduction *r = m->reduction;
    if (r->is_known) {
        if (r->n_held == m->n_kept) return SAC_OK;
        return sac_fail(err, SAC_INTERNAL, "a video had fewer frames than were measured");
    }
    const sac_mat all = s->reduce.reducer->needs_all ? held_rows(r) : (sac_mat){0};
    const sac_reduce_run run = {.pool = s->model->pool, .stopped = is_cancelled, .ctx = s};
    if (!s->reduce.reducer->choose_video(&run, s->reduce.p, &r->video, r->state, r->n_seen, all, r->kept, m->n_kept))
        return sac_fail(err, SAC_CANCELLED, "cancelled");
    keep_only(r, m->kept ? m->kept : r->kept, m->n_kept);
    if (r->is_broken) return sac_fail(err, SAC_INTERNAL, "%s kept tokens that are none of the video's", s->reduce.reducer->name);
    free(r->state);
    free(r->tile);
    r->state = r->tile = NULL;
    if (m->kept) return SAC_OK; /* the prompt is placed by it */
    m->kept = r->kept;
    r->kept = NULL;
    if (sac_source_is_unchanged(m)) remember_kept(s, m); /* else it is of another file than the key's */
    sac_media_lay_out_spans(s, m);
    return SAC_OK;
}

/* ---------------------------------------------------------------- to the prompt */

static sac_status send(const sac_session *s, sac_mat to, uint8_t *rows) {
    if (!to.data) return SAC_OK;
    return s->model->device.upload(&s->device_stream, to.data, rows,
                                   (size_t)to.rows * sac_dtype_row_bytes(to.dtype, to.cols));
}

static sac_status send_all(const sac_session *s, const sac_media *m, struct sac_reduction *r) {
    for (int64_t at = 0; at < m->n_kept;) {
        sac_visual_mat run = sac_visual_run(s, m, at, m->n_kept - at);
        SAC_TRY(send(s, run.rows, r->rows + (size_t)at * r->row_bytes));
        if (r->deep) SAC_TRY(send(s, run.deep, r->deep + (size_t)at * r->deep_bytes));
        at += run.rows.rows;
    }
    return SAC_OK;
}

sac_status sac_reduction_write(const sac_session *s, const sac_media *m, sac_error *err) {
    struct sac_reduction *r = m->reduction;
    const int64_t cols = r->video.cols, deep = cols * s->model->loaded.merger.n_deep;
    const sac_visual_mat from = {held_rows(r), {r->deep, r->n_held, deep, deep, r->dtype}};
    sac_status st = r->dtype == SAC_DTYPE_F32 && !s->device_vision.is_open
                        ? sac_visual_write_tokens(s, m, 0, from)
                        : send_all(s, m, r);
    if (st == SAC_DEVICE) {
        SAC_TRY(s->model->device.stream_sync(&s->device_stream, err));
        return sac_fail(err, st, "%s refused a copy of visual rows", s->model->device.name);
    }
    return st;
}
