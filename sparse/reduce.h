/* reduce.h - leaving visual tokens of pictures and videos out before the language model sees any of them.
 *
 * How many stay is known before the tower runs, so that prompts can be measured; which ones depends on the medium alone, never
 * on what is asked of it, so that rows of a prompt can be used again. A reducer is one file and one line in SAC_REDUCERS. */
#ifndef SAC_REDUCE_H
#define SAC_REDUCE_H

#include "device.h"
#include "method.h"
#include "thread_pool.h"

#include <stdint.h>

#define SAC_REDUCERS(X)      X(hired) X(evs) X(vidcom2) X(flashvid) X(uniform)

#define SAC_REDUCE_MAX_TILES 256

typedef struct sac_reducer sac_reducer;

/* A reducer with its settings. */
typedef struct sac_reduce {
    bool is_on;
    double p[SAC_METHOD_MAX_PARAMS];
    const sac_reducer *reducer; /* NULL where it is off */
} sac_reduce;

/* A picture cut into tiles of rows x columns tokens. With more than one tile the first is the whole picture, and
 * the others are its parts, tiles_w x tiles_h of them, row by row. */
typedef struct sac_reduce_picture {
    int n_tiles, rows, columns, tiles_w, tiles_h;
} sac_reduce_picture;

/* A video: n_tiles steps of its time with as many cells each, and what the tower and its merger make of a cell: a row of so
 * many numbers. Cell i of step t is cell t * cells + i of the video. n_tiles * cells is below 2^31. */
typedef struct sac_reduce_video {
    int64_t n_tiles, cells, cols;
} sac_reduce_video;

/* With what a reducer runs. NULL: on the caller's thread, to the end. */
typedef struct sac_reduce_run {
    sac_pool *pool;             /* NULL: the caller's thread alone; the answer is the same, bit for bit */
    bool (*stopped)(void *ctx); /* asked between pieces; true: it gives up. NULL: never */
    void *ctx;
} sac_reduce_run;

struct sac_reducer {
    const char *name, *source;
    const sac_method_param *params;
    bool (*is_off)(const double *p); /* everything stays */

    /* Of pictures; NULL: they are left alone. See sac_reduce_count, sac_reduce_choose. */
    int64_t (*count)(const double *p, const sac_reduce_picture *picture);
    void (*choose)(const double *p, const sac_reduce_picture *picture, const float *first, const float *last,
                   int64_t stride, int32_t *source);

    /* Of videos; NULL: they are left alone. Cells that stay: at least one. */
    int64_t (*count_video)(const double *p, const sac_reduce_video *v);
    bool needs_all;    /* chooses once, with the rows of all cells at hand, else by what it has seen of each tile */
    bool changes_rows; /* of those that stay: it is asked again where they are wanted again and kept nowhere */
    /* Of its memory for a video, which is zeroed before the first tile. */
    size_t (*state_bytes)(const double *p, const sac_reduce_video *v);
    /* Tiles come one by one: rows [cells][cols]. NULL: it wants none of them. */
    void (*see)(const double *p, const sac_reduce_video *v, void *state, int64_t tile, const float *rows);
    /* kept [n_kept], ascending: of the cells of the first n_seen tiles those that stay; n_kept is what count_video says or, of
     * fewer tiles, at most all their cells: then what is not among them does not stay in the end either. rows: with needs_all those
     * of all cells, [n_tiles * cells][cols] (the reducer may change those that stay); otherwise no data. False: it was
     * stopped, and neither kept nor rows say anything. */
    bool (*choose_video)(const sac_reduce_run *run, const double *p, const sac_reduce_video *v, void *state,
                         int64_t n_seen, sac_mat rows, int32_t *kept, int64_t n_kept);
    /* Multiplications of choose_video, about; NULL: no more than a few for each number of the rows. */
    double (*work)(const double *p, const sac_reduce_video *v);
};

#define X(name) extern const sac_reducer sac_reducer_##name;
SAC_REDUCERS(X)
#undef X

/* From a line "none" or "hired:rate=0.2,..."; what leaves nothing out is none. */
sac_status sac_reduce_parse(sac_reduce *r, const char *line, sac_error *err);
void sac_reduce_print(const sac_reduce *r, char *text, size_t capacity);
/* NULL-terminated, without none. */
const char *const *sac_reducer_names(void);

static inline bool sac_reduce_sees_pictures(const sac_reduce *r) {
    return r->is_on && r->reducer->count;
}
static inline bool sac_reduce_sees_videos(const sac_reduce *r) {
    return r->is_on && r->reducer->count_video;
}
/* Leaves the same out of equal media. */
bool sac_reduce_same(const sac_reduce *a, const sac_reduce *b);

/* Tokens of a picture that stay: at least one. */
int64_t sac_reduce_count(const sac_reduce *r, const sac_reduce_picture *p);

/* Which: rows of [n_tiles * rows * columns], tile by tile, ascending within a tile, sac_reduce_count of them.
 * first, last [n_tiles][stride]: attention that the class token gives to each patch, summed over heads, in
 * the tower's first layer and in the last one that runs. */
void sac_reduce_choose(const sac_reduce *r, const sac_reduce_picture *p, const float *first,
                       const float *last, int64_t stride, int32_t *source);

/* ---------------------------------------------------------------- what reducers share (reduce.c) */

/* fn for each of n tasks that do not look at one another, on the threads that there are. */
void sac_reduce_each(const sac_reduce_run *run, int64_t n, sac_task_fn fn, void *ctx);
bool sac_reduce_is_stopped(const sac_reduce_run *run);

/* Orders cells by score, the highest first, equal ones by their number: keys ascend. */
uint64_t sac_reduce_key(float score, int32_t cell);
void sac_reduce_sort(uint64_t *keys, int64_t n);
/* The cells of the first n_kept of n keys once they are sorted, ascending. */
void sac_reduce_take_best(uint64_t *keys, int64_t n, int32_t *kept, int64_t n_kept);

/* Shares `total` out over n: whole parts of want[] first, then one at a time where the most is missing, none more than `most`.
 * total <= n * most. */
void sac_reduce_split(int64_t total, const double *want, int64_t n, int64_t most, int64_t *budget);

/* Row i of a matrix of the host's, in any type, as floats. */
void sac_reduce_row(sac_mat rows, int64_t i, float *out);
/* The same the other way, rounded. */
void sac_reduce_put_row(sac_mat rows, int64_t i, const float *from);

#endif
