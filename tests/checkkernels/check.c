#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include "cpu_flags.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CANARY_BYTES 256

uint64_t check_rand(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
int64_t check_rand_int(check_case *c, int64_t min, int64_t max) {
    return min + (int64_t)(check_rand(&c->rng) % (uint64_t)(max - min + 1));
}
double check_rand_unit(check_case *c) {
    return (double)(check_rand(&c->rng) >> 11) * 0x1p-53;
}

static void *take(size_t n) {
    void *p = calloc(1, n ? n : 1);
    if (!p) {
        fprintf(stderr, "checkkernels: no memory for %zu bytes\n", n);
        exit(1);
    }
    return p;
}

uint8_t check_canary(size_t i) {
    return (uint8_t)(0xa5u ^ (i * 37u));
}

static check_buffer *add(check_case *c, bool output, sac_dtype t, int64_t rows, int64_t cols,
                         int64_t stride) {
    if (c->n_buffers == CHECK_MAX_BUFFERS) {
        fprintf(stderr, "checkkernels: a case has more than %d buffers\n", CHECK_MAX_BUFFERS);
        abort();
    }
    check_buffer *b = &c->buffer[c->n_buffers++];
    *b = (check_buffer){.rows = rows, .output = output, .dtype = t};
    b->row_bytes = sac_dtype_row_bytes(t, cols);
    b->stride_bytes = sac_dtype_row_bytes(t, stride);
    size_t n = (size_t)rows * b->row_bytes;
    b->start = take(n);
    b->want = take(output ? n : 0);
    b->got = take(output ? n : 0);
    return b;
}

/* The data end where the last row ends, not where its stride does: an op may not touch what follows. */
size_t check_extent(const check_buffer *b) {
    return b->rows ? (size_t)(b->rows - 1) * b->stride_bytes + b->row_bytes : 0;
}

void *check_buffer_add(check_case *c, bool output, sac_dtype t, int64_t rows, int64_t cols, int64_t stride,
                       size_t misalign) {
    check_buffer *b = add(c, output, t, rows, cols, stride);
    b->block_bytes = check_extent(b) + 2 * CANARY_BYTES + misalign;
    b->block = take(b->block_bytes + 64);
    b->data = b->block + 64 - (uintptr_t)b->block % 64 + CANARY_BYTES + misalign;
    b->block_bytes += 64;
    for (size_t i = 0; i < b->block_bytes; i++) b->block[i] = check_canary(i);
    for (int64_t r = 0; r < rows; r++) memset(b->data + (size_t)r * b->stride_bytes, 0, b->row_bytes);
    return b->data;
}

void *check_buffer_add_sparse(check_case *c, bool output, sac_dtype t, int64_t rows, int64_t cols,
                              int64_t stride) {
    size_t bytes = sac_dtype_row_bytes(t, stride) * (size_t)rows;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    check_buffer *b = add(c, output, t, rows, cols, stride);
    b->sparse = true;
    b->block = b->data = p;
    b->block_bytes = bytes;
    return p;
}

void check_case_free(check_case *c) {
    for (int i = 0; i < c->n_buffers; i++) {
        check_buffer *b = &c->buffer[i];
        if (b->sparse)
            munmap(b->block, b->block_bytes);
        else
            free(b->block);
        free(b->start);
        free(b->want);
        free(b->got);
    }
    free(c->allowed);
}

double *check_allow(check_case *c, int64_t n) {
    return c->allowed = take((size_t)n * sizeof(double));
}

void check_fill(check_case *c, float *x, int64_t n, check_values v) {
    for (int64_t i = 0; i < n; i++) {
        double u = 2 * check_rand_unit(c) - 1;
        if (v == CHECK_OUTLIERS && check_rand(&c->rng) % 50 == 0) u *= 100;
        if (v == CHECK_TINY) u *= 1e-18;
        if (v == CHECK_LARGE) u *= 30;
        if (v == CHECK_TIES) u = (double)check_rand_int(c, -1, 1);
        float f = (float)u;
        memcpy((char *)x + i * 4, &f, 4); /* x may be misaligned */
    }
}

sac_mat check_mat(check_case *c, bool output, int64_t rows, int64_t cols, int64_t gap, size_t misalign,
                  check_values v) {
    float *x = check_buffer_add(c, output, SAC_DTYPE_F32, rows, cols, cols + gap, misalign);
    for (int64_t r = 0; r < rows; r++) check_fill(c, x + r * (cols + gap), cols, v);
    return (sac_mat){x, rows, cols, cols + gap, SAC_DTYPE_F32};
}

/* Block formats: random codes, with scales that give values about 1 in size. */
static void fill_blocks(check_case *c, sac_dtype t, uint8_t *w, size_t n_bytes) {
    size_t block = (size_t)sac_dtype_block_bytes(t);
    for (size_t i = 0; i < n_bytes; i++) w[i] = (uint8_t)check_rand(&c->rng);
    for (size_t i = 0; i < n_bytes; i += block) {
        const block_numbers numbers = block_numbers_of(t);
        const double per_unit = 1.0 / numbers.span, d = per_unit * (0.5 + check_rand_unit(c));
        const double m = sac_dtype_block(t) == 256 ? per_unit : -0.5 * check_rand_unit(c);
        block_put_numbers(t, w + i, (float)d, (float)m);
    }
}

sac_weight check_weights(check_case *c, sac_dtype t, int64_t n, int64_t k, size_t misalign, check_values v) {
    uint8_t *w = check_buffer_add(c, false, t, n, k, k, misalign);
    if (sac_dtype_block(t) > 1) fill_blocks(c, t, w, sac_dtype_row_bytes(t, k) * (size_t)n);
    for (int64_t i = 0; i < n * k && sac_dtype_block(t) == 1; i++) {
        float f;
        check_fill(c, &f, 1, v);
        uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        if (t == SAC_DTYPE_F32)
            memcpy(w + i * 4, &f, 4);
        else
            memcpy(w + i * 2, &h, 2);
    }
    return sac_weight_of((sac_tensor){w, t, 2, {n, k}});
}

const char *check_values_name(check_values v) {
    static const char *const names[] = {"uniform", "outliers", "tiny", "ties", "large"};
    return names[v];
}
const char *check_op_name(check_op op) {
    static const char *const names[] = {
#define X(op) #op,
        SAC_OPS(X)
#undef X
    };
    return names[op];
}

sac_status check_call(const sac_ops *t, const sac_stream *s, check_case *c) {
    switch (c->op) {
#define X(op)                                                                                                \
    case CHECK_##op: return t->op(s, &c->op);
        SAC_OPS(X)
#undef X
    case CHECK_N_OPS: break;
    }
    return SAC_INTERNAL;
}

static void copy_rows(const check_buffer *b, uint8_t *to) {
    for (int64_t r = 0; r < b->rows; r++)
        memcpy(to + (size_t)r * b->row_bytes, b->data + (size_t)r * b->stride_bytes, b->row_bytes);
}
static void restore(check_case *c) {
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        for (int64_t r = 0; r < b->rows; r++)
            memcpy(b->data + (size_t)r * b->stride_bytes, b->start + (size_t)r * b->row_bytes, b->row_bytes);
    }
}

static int64_t n_elements(const check_buffer *b) {
    return b->rows * (int64_t)(b->row_bytes / sac_dtype_row_bytes(b->dtype, 1));
}

void check_keep_start(check_case *c) {
    for (int i = 0; i < c->n_buffers; i++) copy_rows(&c->buffer[i], c->buffer[i].start);
}

void check_reference(check_case *c, const sac_stream *s) {
    sac_ops ref;
    sac_ops_init_ref(&ref);
    check_keep_start(c);
    c->reference_status = check_call(&ref, s, c);
    int64_t n = 0;
    for (int i = 0; i < c->n_buffers; i++) {
        check_buffer *b = &c->buffer[i];
        if (!b->output) continue;
        copy_rows(b, b->want);
        b->allowed_at = n;
        n += n_elements(b);
    }
}

static bool is_canary(const check_buffer *b, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (b->block[i] != check_canary(i)) return false;
    return true;
}

/* Canaries, gaps between rows and inputs. */
static void check_guards(const check_buffer *b, check_result *r) {
    const char *what = NULL;
    for (int64_t row = 0; !b->output && row < b->rows; row++)
        if (memcmp(b->data + (size_t)row * b->stride_bytes, b->start + (size_t)row * b->row_bytes,
                   b->row_bytes) != 0)
            what = "an input changed";
    const size_t first = (size_t)(b->data - b->block);
    bool kept = b->sparse || (is_canary(b, 0, first) && is_canary(b, first + check_extent(b), b->block_bytes));
    for (int64_t row = 0; !b->sparse && kept && row + 1 < b->rows; row++) {
        const size_t at = first + (size_t)row * b->stride_bytes;
        kept = is_canary(b, at + b->row_bytes, at + b->stride_bytes);
    }
    if (!kept) what = "wrote outside of a row";
    if (what && !r->text[0]) snprintf(r->text, sizeof r->text, "%s", what);
}

double check_element(sac_dtype t, const uint8_t *p, int64_t i) {
    float f;
    uint16_t h;
    if (t == SAC_DTYPE_F32) {
        memcpy(&f, p + i * 4, 4);
        return (double)f;
    }
    memcpy(&h, p + i * 2, 2);
    return (double)(t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h));
}

double check_number(const check_buffer *b, const uint8_t *p, int64_t i) {
    int32_t number;
    if (!b->integers) return check_element(b->dtype, p, i);
    memcpy(&number, p + i * 4, 4);
    return number;
}

static void compare(const check_case *c, const check_buffer *b, check_result *r) {
    int64_t n_row = (int64_t)(b->row_bytes / sac_dtype_row_bytes(b->dtype, 1));
    for (int64_t i = 0; i < b->rows * n_row; i++) {
        double want = check_number(b, b->want, i), got = check_number(b, b->got, i);
        double allowed = c->exact ? 0 : c->allowed[b->allowed_at + i] + c->relative * fabs(want),
               diff = fabs(got - want);
        bool lost = isfinite(want) && !isfinite(got);
        double ratio = lost       ? INFINITY
                       : c->exact ? (diff > 0 ? INFINITY : 0)
                       : diff > 0 ? diff / allowed
                                  : diff;
        r->n_nan += lost;
        if (ratio > r->worst) r->worst = ratio;
        if (diff <= allowed || (!isfinite(want) && memcmp(&want, &got, sizeof want) == 0)) continue;
        if (!r->n_bad++ && !r->text[0])
            snprintf(r->text, sizeof r->text, "[%lld,%lld] got %.9g want %.9g, allowed %.3g",
                     (long long)(i / n_row), (long long)(i % n_row), got, want, allowed);
    }
}

/* What the last call has left. */
static void look(check_case *c, sac_status st, check_result *r) {
    memset(r, 0, sizeof *r);
    if (st != SAC_OK) snprintf(r->text, sizeof r->text, "failed");
    for (int i = 0; i < c->n_buffers; i++) {
        check_buffer *b = &c->buffer[i];
        check_guards(b, r);
        if (b->output) {
            copy_rows(b, b->got);
            compare(c, b, r);
        }
    }
    if (r->text[0]) /* a stray write would be reported for every later run */
        for (int i = 0; i < c->n_buffers; i++) {
            check_buffer *b = &c->buffer[i];
            if (!b->sparse)
                for (size_t j = 0; j < b->block_bytes; j++) b->block[j] = check_canary(j);
        }
}

void check_run(check_case *c, const sac_ops *t, const sac_stream *s, check_result *r) {
    restore(c);
    look(c, check_call(t, s, c), r);
}

void check_reference_run(check_case *c, check_result *r) {
    look(c, c->reference_status, r);
}

bool check_is_wanted(const check_case *c) {
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        if (b->output && memcmp(b->got, b->want, (size_t)b->rows * b->row_bytes) != 0) return false;
    }
    return true;
}

bool check_same_bits(check_case *c, const sac_ops *t, const sac_stream *s) {
    restore(c);
    if (check_call(t, s, c) != SAC_OK) return false;
    for (int i = 0; i < c->n_buffers; i++) {
        const check_buffer *b = &c->buffer[i];
        for (int64_t r = 0; b->output && r < b->rows; r++)
            if (memcmp(b->data + (size_t)r * b->stride_bytes, b->got + (size_t)r * b->row_bytes,
                       b->row_bytes) != 0)
                return false;
    }
    return true;
}

bool check_stream_open(check_stream *cs, int n_threads) {
    sac_error err;
    sac_pool *pool;
    size_t shared = (size_t)24 << 20;
    if (sac_pool_create(&pool, n_threads, &err) != SAC_OK ||
        sac_arena_open(&cs->arena, sac_stream_bytes(n_threads, shared), &err) != SAC_OK ||
        sac_stream_init(&cs->s, pool, &cs->arena, shared, &err) != SAC_OK) {
        fprintf(stderr, "checkkernels: %s\n", err.text);
        return false;
    }
    return true;
}
void check_stream_free(check_stream *cs) {
    sac_pool_free(cs->s.pool);
    sac_arena_free(&cs->arena);
}

int check_variants(check_variant v[8]) {
    static const check_variant levels[] = {
        {"ref", 0},
        {"avx2", SAC_CPU_AVX2},
        {"avx512", SAC_CPU_AVX2 | SAC_CPU_AVX512},
        {"vnni", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_BF16},
        {"vbmi", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_BF16 | SAC_CPU_AVX512_VBMI},
        {"amx", SAC_CPU_AVX2 | SAC_CPU_AVX512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_BF16 | SAC_CPU_AVX512_VBMI |
                    SAC_CPU_AMX_INT8 | SAC_CPU_AMX_BF16},
    };
    unsigned have = sac_cpu_flags();
    int n = 0;
    for (size_t i = 0; i < SAC_COUNT(levels); i++)
        if ((levels[i].flags & have) == levels[i].flags) v[n++] = levels[i];
    return n;
}
