#include "frame_table.h"

#include <stdlib.h>
#include <string.h>

void sac_frame_table_free(sac_frame_table *t) {
    free(t->pts);
    free(t->keys);
    memset(t, 0, sizeof *t);
}

/* Room for one more element of n. */
static sac_status grow(void **array, int64_t n, int64_t *capacity, size_t element_bytes, sac_error *err) {
    if (n < *capacity) return SAC_OK;
    int64_t wanted = *capacity ? *capacity * 2 : 256;
    size_t n_bytes;
    void *p = NULL;
    if (sac_mul_size((size_t)wanted, element_bytes, &n_bytes)) p = realloc(*array, n_bytes);
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for a table of %lld frames", (long long)wanted);
    *array = p;
    *capacity = wanted;
    return SAC_OK;
}

sac_status sac_frame_table_add(sac_frame_table *t, int64_t pts, sac_error *err) {
    void *array = t->pts;
    SAC_TRY(grow(&array, t->n_frames, &t->frame_capacity, sizeof *t->pts, err));
    t->pts = array;
    t->pts[t->n_frames++] = pts;
    return SAC_OK;
}

sac_status sac_frame_table_add_key(sac_frame_table *t, int64_t pts, int64_t seek_ts, sac_error *err) {
    void *array = t->keys;
    SAC_TRY(grow(&array, t->n_keys, &t->key_capacity, sizeof *t->keys, err));
    t->keys = array;
    t->keys[t->n_keys++] = (sac_key_frame){pts, seek_ts};
    return SAC_OK;
}

static int compare_pts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* pts is the first member, so that one comparison serves both arrays. */
static int compare_keys(const void *a, const void *b) {
    return compare_pts(a, b);
}

bool sac_frame_table_finish(sac_frame_table *t) {
    if (t->n_frames) qsort(t->pts, (size_t)t->n_frames, sizeof *t->pts, compare_pts);
    if (t->n_keys) qsort(t->keys, (size_t)t->n_keys, sizeof *t->keys, compare_keys);
    int64_t *fitted = t->n_frames ? realloc(t->pts, (size_t)t->n_frames * sizeof *t->pts) : NULL;
    if (fitted) {
        t->pts = fitted;
        t->frame_capacity = t->n_frames;
    }
    for (int64_t k = 1; k < t->n_frames; k++)
        if (t->pts[k] == t->pts[k - 1]) return false;
    return true;
}

int64_t sac_frame_table_rank(const sac_frame_table *t, int64_t pts) {
    int64_t low = 0, high = t->n_frames;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->pts[middle] < pts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sac_frame_table_has(const sac_frame_table *t, int64_t pts) {
    int64_t k = sac_frame_table_rank(t, pts);
    return k < t->n_frames && t->pts[k] == pts;
}

int64_t sac_frame_table_key_for(const sac_frame_table *t, int64_t pts) {
    int64_t low = 0, high = t->n_keys;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (t->keys[middle].pts <= pts)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

bool sac_frame_table_keep(sac_frame_table *t, int64_t from, int64_t to, const int64_t *shown,
                          int64_t n_shown) {
    for (int64_t i = 0; i < n_shown; i++)
        if (shown[i] >= from && shown[i] < to && !sac_frame_table_has(t, shown[i])) return false;
    int64_t kept = 0, i = 0;
    for (int64_t k = 0; k < t->n_frames; k++) {
        int64_t pts = t->pts[k];
        while (i < n_shown && shown[i] < pts) i++;
        bool seen = i < n_shown && shown[i] == pts;
        if (seen || pts < from || pts >= to) t->pts[kept++] = pts;
    }
    t->n_frames = kept;
    return true;
}

void sac_frame_table_take_keys(sac_frame_table *to, sac_frame_table *from) {
    to->keys = from->keys;
    to->n_keys = from->n_keys;
    to->key_capacity = from->key_capacity;
    from->keys = NULL;
    from->n_keys = from->key_capacity = 0;
}

bool sac_frame_table_steps(const sac_frame_table *t, double *mean, int64_t *shortest, int64_t *longest) {
    if (t->n_frames < 2) return false;
    *shortest = INT64_MAX;
    *longest = 0;
    for (int64_t k = 1; k < t->n_frames; k++) {
        int64_t step = t->pts[k] - t->pts[k - 1];
        if (step < *shortest) *shortest = step;
        if (step > *longest) *longest = step;
    }
    *mean = (double)(t->pts[t->n_frames - 1] - t->pts[0]) / (double)(t->n_frames - 1);
    return true;
}
