/* resize.c - weights, and the order in which rows pass through the two kernels.
 *
 * Where the horizontal pass comes first it runs just ahead of the vertical one: only the rows under the
 * vertical filter are kept, in a ring, so that they stay in the cache and memory does not grow with the
 * picture. Where the vertical pass comes first, each of its rows goes through the horizontal one at once.
 * Values are those of two whole passes. */
#include "resize.h"

#include "cpu_flags.h"
#include "resize_kernels.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PI             3.14159265358979323846
#define PILLOW_BITS    22
#define TORCH_MAX_BITS 22

static double box(double x) {
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}
static double bilinear(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}
static double hamming(double x) {
    x = fabs(x);
    if (x == 0.0) return 1.0;
    if (x >= 1.0) return 0.0;
    x *= PI;
    return sin(x) / x * ((double)0.54f + (double)0.46f * cos(x)); /* Pillow's constants are floats */
}
static double bicubic(double x) { /* Keys 1981 with a = -1/2 */
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}
static double sinc(double x) {
    if (x == 0.0) return 1.0;
    x *= PI;
    return sin(x) / x;
}
static double lanczos(double x) {
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

typedef struct kernel_shape {
    double (*at)(double x);
    double support; /* half width */
} kernel_shape;

static const kernel_shape shapes[] = {[SAC_FILTER_LANCZOS] = {lanczos, 3.0},
                                      [SAC_FILTER_BILINEAR] = {bilinear, 1.0},
                                      [SAC_FILTER_BICUBIC] = {bicubic, 2.0},
                                      [SAC_FILTER_BOX] = {box, 0.5},
                                      [SAC_FILTER_HAMMING] = {hamming, 1.0}};

/* One direction: n_out outputs from number `from` on, of `whole` outputs over n_in inputs. */
typedef struct axis_spec {
    int n_in, whole, from, n_out;
} axis_spec;

static double scale_of(const axis_spec *s) {
    return (double)s->n_in / s->whole;
}
static double center_of(const axis_spec *s, int i) {
    return (s->from + i + 0.5) * scale_of(s);
}

/* How many inputs output i is made of, from input *first on. */
static int taps_of(const axis_spec *s, const kernel_shape *shape, int i, int *first) {
    double scale = scale_of(s), support = shape->support * (scale < 1.0 ? 1.0 : scale),
           center = center_of(s, i);
    int begin = (int)(center - support + 0.5), end = (int)(center + support + 0.5);
    if (begin < 0) begin = 0;
    if (end > s->n_in) end = s->n_in;
    *first = begin;
    return end - begin;
}

/* Their weights, normalised. */
static int weights_of(const axis_spec *s, const kernel_shape *shape, int i, double *w, int *first) {
    double scale = scale_of(s), inverse = 1.0 / (scale < 1.0 ? 1.0 : scale), center = center_of(s, i),
           sum = 0.0;
    int n = taps_of(s, shape, i, first);
    for (int t = 0; t < n; t++) {
        w[t] = shape->at((t + *first - center + 0.5) * inverse);
        sum += w[t];
    }
    for (int t = 0; t < n && sum != 0.0; t++) w[t] /= sum;
    return n;
}

/* After so many outputs all repeats, *step inputs further on. 0 where positions are rounded, as weights then are not the same
 * to the last bit. */
static int period_of(const axis_spec *s, int *step) {
    int a = s->n_in, b = s->whole;
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    int period = s->whole / a;
    *step = s->n_in / a;
    return (period & (period - 1)) == 0 ? period : 0;
}

static int32_t to_fixed(double w, int bits) {
    return (int32_t)(w < 0 ? -0.5 + w * (1 << bits) : 0.5 + w * (1 << bits));
}

/* As many fraction bits as leave the greatest weight an int16 (torch: UpSampleKernel.cpp). */
static int torch_bits(double greatest) {
    int bits = 0;
    while (bits < TORCH_MAX_BITS && (int)(0.5 + greatest * (1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

static void axis_free(sac_resize_axis *a) {
    free(a->first);
    free(a->taps);
    free(a->high);
    free(a->low);
    free(a->digits);
    *a = (sac_resize_axis){0};
}

/* torch takes the bits from the greatest weight of the whole axis, also when a part of it is computed.
 * Outputs go through the same few phases again and again, so of very long axes the beginning tells. */
static double greatest_weight(const axis_spec *s, const kernel_shape *shape, double *w) {
    axis_spec whole = {s->n_in, s->whole, 0, s->whole < 1 << 16 ? s->whole : 1 << 16};
    double greatest = 0.0;
    int first;
    for (int i = 0; i < whole.n_out; i++)
        for (int t = weights_of(&whole, shape, i, w, &first); t-- > 0;)
            if (w[t] > greatest) greatest = w[t];
    return greatest;
}

/* Digits from -128 to 127, the last first. */
static void store_digits(sac_resize_axis *a, size_t k, int32_t w) {
    int8_t *four = a->digits + k / 4 * (4 * SAC_RESIZE_DIGITS) + k % 4;
    for (int d = SAC_RESIZE_DIGITS - 1; d >= 0; d--) {
        four[d * 4] = (int8_t)(((w + 128) & 255) - 128);
        w = (w - four[d * 4]) / 256;
    }
    assert(w == 0);
}

static void store_weight(sac_resize_axis *a, size_t k, int32_t w) {
    a->high[k] = (int16_t)(a->low ? w >> SAC_RESIZE_LOW_BITS : w);
    if (a->low) a->low[k] = (int16_t)(w & ((1 << SAC_RESIZE_LOW_BITS) - 1));
    if (a->digits) store_digits(a, k, w);
}

static void copy_weights(sac_resize_axis *a, int to, int from) {
    const size_t n = (size_t)a->n_taps_max, at = (size_t)to * n, of = (size_t)from * n;
    memcpy(a->high + at, a->high + of, n * sizeof *a->high);
    if (a->low) memcpy(a->low + at, a->low + of, n * sizeof *a->low);
    if (a->digits)
        memcpy(a->digits + at * SAC_RESIZE_DIGITS, a->digits + of * SAC_RESIZE_DIGITS, n * SAC_RESIZE_DIGITS);
}

static void make_weights(sac_resize_axis *a, const axis_spec *s, const kernel_shape *shape, bool torch,
                         double *w) {
    int step, period = period_of(s, &step);
    for (int i = 0; i < s->n_out; i++) {
        int before = i - period;
        a->taps[i] = taps_of(s, shape, i, &a->first[i]);
        if (period && before >= 0 && a->taps[before] == a->taps[i] &&
            a->first[before] + step == a->first[i]) {
            copy_weights(a, i, before);
            continue;
        }
        weights_of(s, shape, i, w, &a->first[i]);
        for (int t = 0; t < a->taps[i]; t++) {
            int32_t fixed = to_fixed(w[t], a->fraction_bits);
            assert(torch ? fixed == (int16_t)fixed : abs(fixed) < 1 << 26);
            store_weight(a, (size_t)i * (size_t)a->n_taps_max + (size_t)t, fixed);
        }
    }
    (void)torch;
}

static sac_status axis_make(sac_resize_axis *a, const axis_spec *s, const kernel_shape *shape, bool torch,
                            bool digits, sac_error *err) {
    double widen = s->n_in > s->whole ? (double)s->n_in / s->whole : 1.0;
    size_t n_max = (size_t)(ceil(shape->support * widen) * 2 + 1 + 3) & ~(size_t)3,
           n = (size_t)s->n_out * n_max;
    *a = (sac_resize_axis){.n_out = s->n_out, .n_taps_max = (int)n_max};
    a->first = calloc((size_t)s->n_out, sizeof *a->first);
    a->taps = calloc((size_t)s->n_out, sizeof *a->taps);
    a->high = calloc(n, sizeof *a->high);
    a->low = torch ? NULL : calloc(n, sizeof *a->low);
    a->digits = digits ? calloc(n, SAC_RESIZE_DIGITS) : NULL;
    double *w = malloc(n_max * sizeof *w);
    if (!a->first || !a->taps || !a->high || (!torch && !a->low) || (digits && !a->digits) || !w) {
        free(w);
        axis_free(a);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for the weights of a resize from %d to %d pixels",
                        s->n_in, s->whole);
    }
    a->fraction_bits = torch ? torch_bits(greatest_weight(s, shape, w)) : PILLOW_BITS;
    make_weights(a, s, shape, torch, w);
    free(w);
    return SAC_OK;
}

typedef struct job {
    const sac_resize_args *a;
    const sac_resize_kernels *kernels;
    sac_resize_axis h, v; /* of size 0 where the pass is skipped */
    int in_w, in_h;       /* border included */
    int n_slots, made;    /* rows of the ring; the next input row to go in */
    size_t line_bytes, slot_bytes;
    uint8_t *border_line;               /* [line_bytes] an input row of border */
    uint8_t *line[SAC_RESIZE_MAX_ROWS]; /* [line_bytes] input rows that cannot be used in place */
    uint8_t *border_slot;               /* [slot_bytes] border_line after the horizontal pass */
    uint8_t *ring;                      /* [n_slots][slot_bytes] */
    const uint8_t **rows;               /* [n_slots] under the vertical filter */
    void *memory;
} job;

static void fill_color(uint8_t *rgb, const uint8_t color[3], int n) {
    for (int i = 0; i < n; i++) memcpy(rgb + (size_t)i * 3, color, 3);
}

static bool is_border(const job *j, int y) {
    return y < j->a->border_top || y >= j->a->border_top + j->a->src_h;
}

/* Input row y with slack behind it, in place or in `line`. */
static const uint8_t *input_row(const job *j, int y, uint8_t *line) {
    const sac_resize_args *a = j->a;
    size_t row_bytes = (size_t)a->src_w * 3, total = row_bytes * (size_t)a->src_h;
    size_t at = (size_t)(y - a->border_top) * row_bytes;
    bool sides = a->border_left || a->border_right;
    if (!sides && total - at >= row_bytes + SAC_RESIZE_ROW_SLACK) return a->src + at;
    /* The sides of the line were coloured by job_open. */
    memcpy(line + (size_t)a->border_left * 3, a->src + at, row_bytes);
    return line;
}

static uint8_t *slot_of(const job *j, int y) {
    return j->ring + (size_t)(y % j->n_slots) * j->slot_bytes;
}

static void horizontal_pass(const job *j, uint8_t *const *out, const uint8_t *const *in, int n) {
    if (j->h.n_out)
        j->kernels->horizontal(&j->h, out, in, n);
    else
        for (int r = 0; r < n; r++) memcpy(out[r], in[r] + (size_t)j->a->x * 3, (size_t)j->a->w * 3);
}

/* Input rows made .. made + n - 1, none of them border, through the horizontal pass. */
static void make_rows(job *j, int n) {
    const uint8_t *in[SAC_RESIZE_MAX_ROWS];
    uint8_t *out[SAC_RESIZE_MAX_ROWS];
    for (int r = 0; r < n; r++) {
        in[r] = input_row(j, j->made + r, j->line[r]);
        out[r] = slot_of(j, j->made + r);
    }
    horizontal_pass(j, out, in, n);
}

/* Fills the ring up to input row `end`, of which `last` is the end of all that will be asked for. */
static void make_until(job *j, int begin, int end, int last) {
    if (j->made < begin) j->made = begin;
    while (j->made < end) {
        int n = 1;
        if (is_border(j, j->made)) {
            memcpy(slot_of(j, j->made), j->border_slot, j->slot_bytes);
        } else {
            while (n < SAC_RESIZE_MAX_ROWS && j->made + n < last && !is_border(j, j->made + n)) n++;
            make_rows(j, n);
        }
        j->made += n;
    }
}

static void run_horizontal_first(job *j) {
    const sac_resize_args *a = j->a;
    size_t row_bytes = (size_t)a->w * 3;
    int n = a->h, last = j->v.n_out ? j->v.first[n - 1] + j->v.taps[n - 1] : a->y + n;
    for (int i = 0; i < n; i++) {
        uint8_t *out = a->dst + (size_t)i * a->dst_row_bytes;
        int begin = j->v.n_out ? j->v.first[i] : a->y + i, taps = j->v.n_out ? j->v.taps[i] : 1;
        make_until(j, begin, begin + taps, last);
        for (int t = 0; t < taps; t++) j->rows[t] = slot_of(j, begin + t);
        if (j->v.n_out)
            j->kernels->vertical(&j->v, i, out, j->rows, row_bytes);
        else
            memcpy(out, j->rows[0], row_bytes);
    }
}

/* What the vertical pass makes of a border of one colour is that colour, but for rounding in very long
 * filters. */
static void vertical_sides(const job *j, int i, uint8_t *line) {
    const sac_resize_args *a = j->a;
    uint8_t color[3];
    for (int t = 0; t < j->v.taps[i]; t++) j->rows[t] = j->border_line;
    j->kernels->vertical(&j->v, i, color, j->rows, 3);
    fill_color(line, color, a->border_left);
    fill_color(line + (size_t)(a->border_left + a->src_w) * 3, color, a->border_right);
}

static void run_vertical_first(job *j) {
    const sac_resize_args *a = j->a;
    size_t src_bytes = (size_t)a->src_w * 3;
    for (int i = 0; i < a->h; i += SAC_RESIZE_MAX_ROWS) {
        int n = a->h - i < SAC_RESIZE_MAX_ROWS ? a->h - i : SAC_RESIZE_MAX_ROWS;
        uint8_t *out[SAC_RESIZE_MAX_ROWS];
        for (int r = 0; r < n; r++) {
            out[r] = slot_of(j, r);
            if (a->border_left || a->border_right) vertical_sides(j, i + r, j->line[r]);
            for (int t = 0; t < j->v.taps[i + r]; t++) {
                int y = j->v.first[i + r] + t;
                j->rows[t] =
                    is_border(j, y) ? j->border_line : a->src + (size_t)(y - a->border_top) * src_bytes;
            }
            j->kernels->vertical(&j->v, i + r, j->line[r] + (size_t)a->border_left * 3, j->rows, src_bytes);
        }
        horizontal_pass(j, out, (const uint8_t *const *)j->line, n);
        for (int r = 0; r < n; r++)
            memcpy(a->dst + (size_t)(i + r) * a->dst_row_bytes, out[r], (size_t)a->w * 3);
    }
}

static sac_status check(const sac_resize_args *a, sac_error *err) {
    int64_t in_w = (int64_t)a->src_w + a->border_left + a->border_right;
    int64_t in_h = (int64_t)a->src_h + a->border_top + a->border_bottom;
    if (a->src_w < 1 || a->src_h < 1 || a->border_left < 0 || a->border_right < 0 || a->border_top < 0 ||
        a->border_bottom < 0 || in_w > SAC_RESIZE_MAX_SIDE || in_h > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "a picture of %lld x %lld pixels cannot be resized: sides are 1 to %d",
                        (long long)in_w, (long long)in_h, SAC_RESIZE_MAX_SIDE);
    if (a->x < 0 || a->y < 0 || a->w < 1 || a->h < 1 || a->w > SAC_RESIZE_MAX_SIDE ||
        a->h > SAC_RESIZE_MAX_SIDE || a->x > a->dst_w - a->w || a->y > a->dst_h - a->h)
        return sac_fail(err, SAC_BAD_ARGUMENT, "resize to the part %d x %d at %d, %d of %d x %d pixels", a->w,
                        a->h, a->x, a->y, a->dst_w, a->dst_h);
    if (a->filter < SAC_FILTER_LANCZOS || a->filter > SAC_FILTER_HAMMING)
        return sac_fail(err, SAC_BAD_ARGUMENT, "unknown resize filter %d", (int)a->filter);
    return SAC_OK;
}

static const sac_resize_kernels *best_kernels(void) {
#ifdef __x86_64__
    unsigned flags = sac_cpu_flags();
    if (flags & SAC_CPU_AVX512_VNNI) return &sac_resize_vnni;
    if (flags & SAC_CPU_AVX2) return &sac_resize_avx2;
#endif
    return &sac_resize_ref;
}

static void job_close(job *j) {
    axis_free(&j->h);
    axis_free(&j->v);
    free(j->memory);
}

static sac_status job_open(job *j, const sac_resize_args *a, sac_error *err) {
    const kernel_shape *shape = &shapes[a->filter];
    bool torch = a->arithmetic == SAC_RESIZE_TORCHVISION;
    *j = (job){.a = a, .kernels = a->kernels ? a->kernels : best_kernels()};
    const bool digits = j->kernels->reads_digits;
    j->in_w = a->src_w + a->border_left + a->border_right;
    j->in_h = a->src_h + a->border_top + a->border_bottom;
    if (j->in_w != a->dst_w)
        SAC_TRY(axis_make(&j->h, &(axis_spec){j->in_w, a->dst_w, a->x, a->w}, shape, torch, digits, err));
    if (j->in_h != a->dst_h)
        SAC_TRY(axis_make(&j->v, &(axis_spec){j->in_h, a->dst_h, a->y, a->h}, shape, torch, digits, err));
    int n_taps = j->v.n_out ? j->v.n_taps_max : 1;
    j->n_slots = (n_taps < j->in_h ? n_taps : j->in_h) + SAC_RESIZE_MAX_ROWS;
    j->line_bytes = ((size_t)j->in_w * 3 + SAC_RESIZE_ROW_SLACK + 63) & ~(size_t)63;
    j->slot_bytes = ((size_t)a->w * 3 + SAC_RESIZE_ROW_SLACK + 63) & ~(size_t)63;
    size_t n_slots = (size_t)j->n_slots, pointer_bytes = n_slots * sizeof *j->rows;
    uint8_t *p =
        malloc(pointer_bytes + (1 + SAC_RESIZE_MAX_ROWS) * j->line_bytes + (1 + n_slots) * j->slot_bytes);
    if (!p)
        return sac_fail(err, SAC_NO_MEMORY, "no memory to resize %d x %d to %d x %d pixels", a->src_w,
                        a->src_h, a->w, a->h);
    j->memory = p;
    j->rows = (const uint8_t **)p;
    j->border_line = p += pointer_bytes;
    for (int r = 0; r < SAC_RESIZE_MAX_ROWS; r++) j->line[r] = p += j->line_bytes;
    j->border_slot = p += j->line_bytes;
    j->ring = p + j->slot_bytes;
    fill_color(j->border_line, a->border_rgb, j->in_w);
    for (int r = 0; r < SAC_RESIZE_MAX_ROWS; r++) memcpy(j->line[r], j->border_line, j->line_bytes);
    horizontal_pass(j, &j->border_slot, &(const uint8_t *){j->border_line}, 1);
    return SAC_OK;
}

static bool vertical_first(const job *j) {
    int64_t less_h = (int64_t)j->in_h - j->a->dst_h, less_w = (int64_t)j->in_w - j->a->dst_w;
    return j->a->arithmetic == SAC_RESIZE_PILLOW && less_h > 0 && less_h > less_w * 2;
}

sac_status sac_resize_run(const sac_resize_args *a, sac_error *err) {
    SAC_TRY(check(a, err));
    job j;
    sac_status st = job_open(&j, a, err);
    if (st == SAC_OK && vertical_first(&j))
        run_vertical_first(&j);
    else if (st == SAC_OK)
        run_horizontal_first(&j);
    job_close(&j);
    return st;
}

sac_status sac_resize(uint8_t *dst, int dst_w, int dst_h, const uint8_t *src, int src_w, int src_h,
                      sac_filter filter, sac_resize_arithmetic arithmetic, sac_error *err) {
    return sac_resize_run(&(sac_resize_args){.dst = dst,
                                             .dst_row_bytes = dst_w > 0 ? (size_t)dst_w * 3 : 0,
                                             .src = src,
                                             .src_w = src_w,
                                             .src_h = src_h,
                                             .dst_w = dst_w,
                                             .dst_h = dst_h,
                                             .w = dst_w,
                                             .h = dst_h,
                                             .filter = filter,
                                             .arithmetic = arithmetic},
                          err);
}
