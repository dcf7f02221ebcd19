/* packed_attention_tmpl.h - one query over packed rows, codes multiplied as they lie.
 *
 * Ranges are taken out of the products. Keys: q.(u s + m) = (q s).u + q.m, and with q s rounded to 16 bits a
 * word's pairs of codes meet pairs of q in integer arithmetic, 16 rows at a time (a lane is a row). Values:
 * sum p (u s + m) = (p s).u + sum p m, with p s rounded to 15 bits of a stretch's largest, a lane being a
 * channel. So a code costs half an instruction to unpack for all heads of a group, and half (a quarter with
 * VNNI) to multiply for each; as floats it would be two and one. */
#include "packed_attention.h"
#include "ref/ref.h"
#include "simd_math.h"

#include <float.h>
#include <math.h>

#define ROWS_AT_ONCE 8 /* query heads that share unpacked codes */
#define SCORE_STRIDE (PACKED_STRETCH + 32)
#define LOG2_E       1.44269504f
#define LN_2         0.693147181f

#if defined(__AVX512F__)
SAC_INLINE vi words_load(const uint32_t *p, int64_t n) {
    return _mm512_maskz_loadu_epi32(vf_first_lanes(n), p);
}
SAC_INLINE vi words_pair(vi w, int shift, int mask) {
    return _mm512_and_si512(_mm512_srli_epi32(w, (unsigned)shift), _mm512_set1_epi32(mask));
}
SAC_INLINE vi words_dot(vi sum, vi codes, int32_t pair) {
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(sum, codes, _mm512_set1_epi32(pair));
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(codes, _mm512_set1_epi32(pair)));
#endif
}
SAC_INLINE vi words_zero(void) {
    return _mm512_setzero_si512();
}
SAC_INLINE vf words_to_float(vi v) {
    return _mm512_cvtepi32_ps(v);
}
/* rounded to nearest, VF of them */
SAC_INLINE void store_i16(int16_t *p, vf v) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
}
#else
SAC_INLINE vi words_load(const uint32_t *p, int64_t n) {
    return n >= 8 ? vi_load(p) : _mm256_maskload_epi32((const int *)(const void *)p, vf_first_lanes(n));
}
SAC_INLINE vi words_pair(vi w, int shift, int mask) {
    return _mm256_and_si256(_mm256_srli_epi32(w, shift), _mm256_set1_epi32(mask));
}
SAC_INLINE vi words_dot(vi sum, vi codes, int32_t pair) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, _mm256_set1_epi32(pair)));
}
SAC_INLINE vi words_zero(void) {
    return _mm256_setzero_si256();
}
SAC_INLINE vf words_to_float(vi v) {
    return _mm256_cvtepi32_ps(v);
}
SAC_INLINE void store_i16(int16_t *p, vf v) {
    vi i = _mm256_cvtps_epi32(v);
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1)));
}
#endif

SAC_INLINE int32_t pair_at(const int16_t *p, int64_t i) {
    int32_t pair;
    memcpy(&pair, p + 2 * i, sizeof pair);
    return pair;
}

typedef struct packed_state {
    const packed_job *job;
    int head;           /* key-value head */
    int64_t d, d_pad;   /* head size, and up to a multiple of 16: what words may reach over */
    float *q, *o;       /* [group][d_pad]; q in units of log2, scaled */
    float *max, *sum;   /* [group] of what was seen so far, with room for a whole vector after the last */
    float *scores;      /* [group][SCORE_STRIDE], then weights */
    float *wide;        /* [max(d_pad, SCORE_STRIDE)] */
    int16_t *q16, *w16; /* [group][d_pad], [ROWS_AT_ONCE][SCORE_STRIDE] */
    float q_unit[PACKED_MAX_GROUP], q_min[PACKED_MAX_GROUP]; /* one unit of q16; what the minima add */
    const uint16_t *ranges;                                  /* of the keys that q16 is made for */
    bool prepared;
} packed_state;

_Static_assert(sizeof(float) * (PACKED_MAX_GROUP * (3 * PACKED_MAX_D + SCORE_STRIDE + 64) +
                                ROWS_AT_ONCE * SCORE_STRIDE + 2 * PACKED_MAX_D) <=
                   SAC_THREAD_SCRATCH_BYTES / 2,
               "a task fits half the scratch of a thread");

static void packed_open(packed_state *st, const packed_job *job, int64_t task, int thread) {
    int64_t group = job->group, d = job->d, d_pad = sac_div_up(d, 16) * 16;
    *st = (packed_state){.job = job, .head = (int)(task % job->n_kv_heads), .d = d, .d_pad = d_pad};
    st->q = sac_stream_thread_scratch(job->s, thread);
    st->o = st->q + group * d_pad;
    st->max = st->o + group * d_pad;
    st->sum = st->max + group + 16;
    st->scores = st->sum + group + 16;
    st->wide = st->scores + group * SCORE_STRIDE;
    st->w16 = (int16_t *)(void *)(st->wide + SCORE_STRIDE + PACKED_MAX_D);
    st->q16 = st->w16 + ROWS_AT_ONCE * SCORE_STRIDE;
    memset(st->o, 0, (size_t)(group * d_pad) * sizeof(float));
    memset(st->q16, 0, (size_t)(group * d_pad) * sizeof(int16_t));
    vf scale = vf_set1(job->a->scale * LOG2_E);
    for (int64_t r = 0; r < group; r++) {
        const float *q = job->a->q + (st->head * group + r) * d;
        for (int64_t c = 0; c < d; c += VF)
            vf_store(st->q + r * d_pad + c, vf_mul(vf_load_part(q + c, d - c), scale));
        st->max[r] = job->a->o && job->a->weights ? 0 : -FLT_MAX;
        st->sum[r] = 0;
    }
}

/* x to 16 bits of its largest, which is `most`; returns the unit. */
static float round_i16(const float *x, int64_t n, float most, int16_t *out) {
    vf per_unit = vf_set1(most > 0 ? 32767.0f / most : 0.0f);
    for (int64_t i = 0; i < n; i += VF) store_i16(out + i, vf_mul(vf_load(x + i), per_unit));
    return most / 32767.0f;
}

/* q times the keys' scales in 16 bits, and what the keys' minima add to every score. Keys with ranges of
 * their own a row leave q as it is: q_min is then its sum. */
static void prepare_query(packed_state *st, const packed_stretch *t) {
    const sac_packed_rows *p = t->p;
    bool by_row = p->k_group == 0;
    int64_t at = by_row ? 0 : sac_packed_key_param(p, st->head, t->row, 0);
    const uint16_t *ranges = by_row ? NULL : p->k_scale + at;
    if (st->prepared && st->ranges == ranges) return;
    st->prepared = true;
    st->ranges = ranges;
    for (int64_t r = 0; r < st->job->group; r++) {
        const float *q = st->q + r * st->d_pad;
        vf most = vf_zero(), minima = vf_zero();
        for (int64_t c = 0; c < st->d; c += VF) {
            vf x = vf_load(q + c), scale = vf_set1(1), min = vf_set1(1);
            if (!by_row) {
                scale = vf_load_f16_part(ranges + c, st->d - c);
                min = vf_load_f16_part(p->k_min + at + c, st->d - c);
            }
            minima = vf_fma(x, min, minima);
            x = vf_mul(x, scale);
            most = vf_max(most, vf_abs(x));
            vf_store(st->wide + c, x);
        }
        st->q_unit[r] = round_i16(st->wide, st->d, vf_max_lane(most), st->q16 + r * st->d_pad);
        st->q_min[r] = vf_sum(minima);
    }
}

/* ---------------------------------------------------------------- scores */

/* Integer products of `rows` queries with the tile's rows, VF at a time. words: of the tile, `width` apart
 * from one group of channels to the next. */
SAC_INLINE void tile_scores(const int bits, const int rows, const packed_state *st, int64_t row,
                            const uint32_t *words, int64_t width, float *out) {
    const int pairs = 16 / bits, mask = (1 << bits) - 1;
    const int64_t n_words = sac_div_up(st->d, 2 * pairs);
    const int16_t *q = st->q16 + row * st->d_pad;
    for (int64_t lane = 0; lane < width; lane += VF) {
        vi sum[ROWS_AT_ONCE];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) sum[r] = words_zero();
        for (int64_t w = 0; w < n_words; w++) {
            vi word = words_load(words + w * width + lane, width - lane);
#pragma GCC unroll 8
            for (int i = 0; i < pairs; i++) {
                vi codes = words_pair(word, bits * i, mask | mask << 16);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++)
                    sum[r] = words_dot(sum[r], codes, pair_at(q + r * st->d_pad, w * pairs + i));
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) vf_store(out + r * SCORE_STRIDE + lane, words_to_float(sum[r]));
    }
}

SAC_INLINE void part_scores(const int bits, const int rows, const packed_state *st, int64_t row,
                            const packed_stretch *t) {
    const sac_packed_rows *p = t->p;
    const int64_t n_words = sac_div_up(st->d, 32 / bits);
    for (int64_t j = 0; j < t->n; j += SAC_PACKED_TILE) {
        int64_t width = sac_min_i64(SAC_PACKED_TILE, p->capacity - t->row - j);
        tile_scores(bits, rows, st, row, p->k + (st->head * p->capacity + t->row + j) * n_words, width,
                    st->scores + row * SCORE_STRIDE + j);
    }
}

#define PACKED_ROWS_CASES(bits, rows, fn, ...)                                                               \
    switch (rows) {                                                                                          \
    case 1: fn(bits, 1, __VA_ARGS__); break;                                                                 \
    case 2: fn(bits, 2, __VA_ARGS__); break;                                                                 \
    case 3: fn(bits, 3, __VA_ARGS__); break;                                                                 \
    case 4: fn(bits, 4, __VA_ARGS__); break;                                                                 \
    case 5: fn(bits, 5, __VA_ARGS__); break;                                                                 \
    case 6: fn(bits, 6, __VA_ARGS__); break;                                                                 \
    case 7: fn(bits, 7, __VA_ARGS__); break;                                                                 \
    default: fn(bits, 8, __VA_ARGS__); break;                                                                \
    }
#define PACKED_CASES(bits, rows, fn, ...)                                                                    \
    switch (bits) {                                                                                          \
    case 2: PACKED_ROWS_CASES(2, rows, fn, __VA_ARGS__) break;                                               \
    case 4: PACKED_ROWS_CASES(4, rows, fn, __VA_ARGS__) break;                                               \
    default: PACKED_ROWS_CASES(8, rows, fn, __VA_ARGS__) break;                                              \
    }

/* Scores of the stretch in units of log2. */
static void compute_scores(packed_state *st, const packed_stretch *t) {
    const sac_packed_rows *p = t->p;
    int64_t at = st->head * p->capacity + t->row;
    prepare_query(st, t);
    for (int64_t row = 0; row < st->job->group; row += ROWS_AT_ONCE) {
        int64_t rows = sac_min_i64(ROWS_AT_ONCE, st->job->group - row);
        PACKED_CASES(p->bits, rows, part_scores, st, row, t)
    }
    for (int64_t r = 0; r < st->job->group; r++) {
        float *s = st->scores + r * SCORE_STRIDE;
        vf unit = vf_set1(st->q_unit[r]), min = vf_set1(st->q_min[r]);
        for (int64_t j = 0; j < t->n; j += VF) {
            vf u = vf_mul(vf_load(s + j), unit), m = min;
            if (p->k_group == 0) {
                u = vf_mul(u, vf_load_f16_part(p->k_scale + at + j, t->n - j));
                m = vf_mul(m, vf_load_f16_part(p->k_min + at + j, t->n - j));
            }
            vf_store(s + j, vf_add(u, m));
        }
    }
}

/* To and from the caller's scores, and what is below min_score. */
static void exchange_scores(packed_state *st, const packed_stretch *t) {
    const sac_packed_attention_args *a = st->job->a;
    for (int64_t r = 0; r < st->job->group; r++) {
        int64_t head = st->head * st->job->group + r;
        float *s = st->scores + r * SCORE_STRIDE;
        float *theirs = a->scores ? a->scores + head * a->stride + t->scores : NULL;
        if (theirs && a->o)
            for (int64_t j = 0; j < t->n; j++) s[j] = theirs[j] * LOG2_E;
        else if (theirs)
            for (int64_t j = 0; j < t->n; j++) theirs[j] = s[j] * LN_2;
        if (!a->min_score) continue;
        float least = a->min_score[head];
        if (theirs)
            for (int64_t j = 0; j < t->n; j++) s[j] = theirs[j] < least ? -INFINITY : s[j];
        else
            for (int64_t j = 0; j < t->n; j++) s[j] = s[j] * LN_2 < least ? -INFINITY : s[j];
    }
}

/* Scores to weights 2^(score - max), zero for what the last vector has beyond the stretch; the output so far
 * is rescaled to the new maximum. */
static void soften(packed_state *st, int64_t n) {
    for (int64_t r = 0; r < st->job->group; r++) {
        float *s = st->scores + r * SCORE_STRIDE, *o = st->o + r * st->d_pad;
        vf top = vf_set1(-FLT_MAX), total = vf_zero();
        for (int64_t j = n; j < n + VF; j++) s[j] = -INFINITY;
        for (int64_t j = 0; j < n; j += VF) top = vf_max(vf_load(s + j), top);
        float old = st->max[r], max = vf_max_lane(top);
        max = max > old ? max : old;
        for (int64_t j = 0; j < n; j += VF) {
            vf w = vf_exp2(vf_sub(vf_load(s + j), vf_set1(max)));
            total = vf_add(total, w);
            vf_store(s + j, w);
        }
        if (max > old) {
            vf rescale = vf_exp2(vf_set1(old - max));
            for (int64_t c = 0; c < st->d_pad; c += VF) vf_store(o + c, vf_mul(vf_load(o + c), rescale));
            st->sum[r] *= vf_max_lane(rescale);
            st->max[r] = max;
        }
        st->sum[r] += vf_sum(total);
    }
}

/* The caller's weights instead. */
static void take_weights(packed_state *st, const packed_stretch *t) {
    const sac_packed_attention_args *a = st->job->a;
    for (int64_t r = 0; r < st->job->group; r++) {
        int64_t head = st->head * st->job->group + r;
        const float *w = a->scores + head * a->stride + t->scores;
        float *s = st->scores + r * SCORE_STRIDE, least = a->min_score ? a->min_score[head] : 0;
        vf total = vf_zero();
        for (int64_t j = 0; j < t->n; j++) s[j] = w[j] < least ? 0 : w[j];
        for (int64_t j = t->n; j < t->n + VF; j++) s[j] = 0;
        for (int64_t j = 0; j < t->n; j += VF) total = vf_add(total, vf_load(s + j));
        st->sum[r] += vf_sum(total);
    }
}

/* ---------------------------------------------------------------- values */

/* Channels [first, end) of a head that share the rows' ranges, for `rows` heads from `row` on. */
typedef struct packed_mix {
    const packed_stretch *t;
    int64_t row, first, end;
    float unit[ROWS_AT_ONCE], min[ROWS_AT_ONCE]; /* one unit of w16; what the minima add */
    uint16_t word[PACKED_STRETCH / 4];           /* words of rows whose weights are not all zero */
    int64_t n_words;
} packed_mix;

/* Whether any of `rows` heads gives weight to the rows of a word. */
static bool any_weight(const int16_t *w, int64_t rows, int64_t per_word) {
    uint64_t any = 0, four;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < per_word; j += 4) {
            memcpy(&four, w + r * SCORE_STRIDE + j, sizeof four);
            any |= four;
        }
    return any != 0;
}

/* Weights times the values' scales, in 15 bits; padded with zeros to whole words. */
static void prepare_weights(packed_state *st, packed_mix *m, int64_t rows) {
    const sac_packed_rows *p = m->t->p;
    int64_t at = sac_packed_value_param(p, st->head, m->t->row, (int)m->first), n = m->t->n;
    int64_t per_word = 32 / p->bits, padded = sac_div_up(n, 16) * 16;
    for (int64_t r = 0; r < rows; r++) {
        const float *w = st->scores + (m->row + r) * SCORE_STRIDE;
        vf most = vf_zero(), minima = vf_zero();
        vf_store(st->wide + padded - VF, vf_zero());
        for (int64_t j = 0; j < n; j += VF) {
            vf x = vf_load(w + j); /* zero past n */
            minima = vf_fma(x, vf_load_f16_part(p->v_min + at + j, n - j), minima);
            x = vf_mul(x, vf_load_f16_part(p->v_scale + at + j, n - j));
            most = vf_max(most, x);
            vf_store(st->wide + j, x);
        }
        m->unit[r] = round_i16(st->wide, padded, vf_max_lane(most), st->w16 + r * SCORE_STRIDE);
        m->min[r] = vf_sum(minima);
    }
    m->n_words = 0;
    for (int64_t i = 0; i * per_word < n; i++) {
        m->word[m->n_words] = (uint16_t)i;
        m->n_words += any_weight(st->w16 + i * per_word, rows, per_word);
    }
}

/* Adds the stretch to channels [c, c + n_vectors * VF) of the outputs (the last vector may be a part). */
SAC_INLINE void mix_channels(const int bits, const int rows, const int n_vectors, packed_state *st,
                             const packed_mix *m, int64_t c) {
    const sac_packed_rows *p = m->t->p;
    const int pairs = 16 / bits, mask = (1 << bits) - 1;
    const int64_t per_head = sac_div_up(p->capacity, 2 * pairs);
    const uint32_t *words = p->v + (st->head * per_head + m->t->row / (2 * pairs)) * st->d + c;
    vi sum[ROWS_AT_ONCE][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) sum[r][v] = words_zero();
    for (int64_t k = 0; k < m->n_words; k++) {
        int64_t w = m->word[k];
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v++) {
            vi word = words_load(words + w * st->d + v * VF, m->end - c - v * VF);
#pragma GCC unroll 8
            for (int i = 0; i < pairs; i++) {
                vi codes = words_pair(word, bits * i, mask | mask << 16);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++)
                    sum[r][v] =
                        words_dot(sum[r][v], codes, pair_at(st->w16 + r * SCORE_STRIDE, w * pairs + i));
            }
        }
    }
    for (int v = 0; v < n_vectors; v++) {
        int64_t at = c + v * VF;
        vf channel = vf_set1(1);
        if (p->v_channel) channel = vf_load_f16_part(p->v_channel + st->head * st->d + at, m->end - at);
        for (int r = 0; r < rows; r++) {
            float *o = st->o + (m->row + r) * st->d_pad + at;
            vf x = vf_fma(words_to_float(sum[r][v]), vf_set1(m->unit[r]), vf_set1(m->min[r]));
            vf_store_part(o, vf_fma(x, channel, vf_load_part(o, m->end - at)), m->end - at);
        }
    }
}

SAC_INLINE void mix_rows(const int bits, const int rows, packed_state *st, const packed_mix *m) {
    int64_t c = m->first;
    for (; c + 2 * VF <= m->end; c += 2 * VF) mix_channels(bits, rows, 2, st, m, c);
    for (; c < m->end; c += VF) mix_channels(bits, rows, 1, st, m, c);
}

static void mix(packed_state *st, const packed_stretch *t) {
    int64_t width = sac_min_i64(t->p->v_group, st->d);
    packed_mix m = {.t = t};
    for (m.row = 0; m.row < st->job->group; m.row += ROWS_AT_ONCE) {
        int64_t rows = sac_min_i64(ROWS_AT_ONCE, st->job->group - m.row);
        for (m.first = 0; m.first < st->d; m.first += width) {
            m.end = sac_min_i64(m.first + width, st->d);
            prepare_weights(st, &m, rows);
            PACKED_CASES(t->p->bits, rows, mix_rows, st, &m)
        }
    }
}

/* ---------------------------------------------------------------- tasks */

static void packed_task(void *ctx, int64_t task, int thread) {
    const packed_job *job = ctx;
    const sac_packed_attention_args *a = job->a;
    int64_t chunk = task / job->n_kv_heads, d = job->d;
    int64_t first = chunk * job->n_stretches / job->n_chunks;
    int64_t end = (chunk + 1) * job->n_stretches / job->n_chunks;
    packed_state st;
    packed_open(&st, job, task, thread);
    packed_stretch t = sac_packed_stretch_at(job, first);
    for (int64_t i = first; i < end; i++, sac_packed_stretch_next(job, &t)) {
        if (a->o && a->weights) {
            take_weights(&st, &t);
        } else {
            if (!a->scores || !a->o) compute_scores(&st, &t);
            exchange_scores(&st, &t);
            soften(&st, t.n);
        }
        if (a->o) mix(&st, &t);
    }
    for (int64_t r = 0; r < job->group; r++) {
        float *partial = job->partial + (chunk * a->n_heads + st.head * job->group + r) * (d + 2);
        partial[0] = st.max[r];
        partial[1] = st.sum[r];
        memcpy(partial + 2, st.o + r * st.d_pad, (size_t)d * sizeof(float));
    }
}

static void scores_to_weights(float *scores, int64_t n, float log2_sum) {
    vf scale = vf_set1(LOG2_E), sum = vf_set1(log2_sum);
    for (int64_t i = 0; i < n; i += VF) {
        vf s = vf_sub(vf_mul(vf_load_part(scores + i, n - i), scale), sum);
        vf_store_part(scores + i, vf_exp2(s), n - i);
    }
}

/* Joins the chunks of heads [first, end): each in units of its own maximum, first to last. */
static void packed_join(const void *args, int64_t first, int64_t end) {
    const packed_job *job = args;
    const sac_packed_attention_args *a = job->a;
    int64_t d = job->d, next = a->n_heads * (d + 2);
    for (int64_t h = first; h < end; h++) {
        const float *part = job->partial + h * (d + 2);
        float weight[PACKED_MAX_CHUNKS], max = -FLT_MAX, sum = 0;
        for (int64_t i = 0; i < job->n_chunks; i++) max = part[i * next] > max ? part[i * next] : max;
        for (int64_t i = 0; i < job->n_chunks; i++) {
            weight[i] = vf_max_lane(vf_exp2(vf_set1(part[i * next] - max)));
            sum += weight[i] * part[i * next + 1];
        }
        float log2_sum = sum > 0 ? max + log2f(sum) : -INFINITY;
        if (a->lse) a->lse[h] = log2_sum * LN_2;
        if (!a->o && a->weights) scores_to_weights(a->scores + h * a->stride, job->n_rows, log2_sum);
        vf scale = vf_set1(sum > 0 ? 1.0f / sum : 0.0f);
        for (int64_t c = 0; a->o && c < d; c += VF) {
            vf o = vf_zero();
            for (int64_t i = 0; i < job->n_chunks; i++)
                o = vf_fma(vf_set1(weight[i]), vf_load_part(part + i * next + 2 + c, d - c), o);
            vf_store_part(a->o + h * d + c, vf_mul(o, scale), d - c);
        }
    }
}

sac_status PACKED_ATTENTION(const sac_stream *s, const sac_packed_attention_args *a) {
    packed_job job;
    if (!sac_packed_plan(&job, s, a)) return sac_ref_packed_attention(s, a);
    sac_packed_run(&job, packed_task);
    int64_t floats = job.n_chunks * (job.d + 2) + (a->o ? 0 : 2 * job.n_rows);
    sac_for_rows(s, a->n_heads, floats * (int64_t)sizeof(float), packed_join, &job);
    return SAC_OK;
}

/* ---------------------------------------------------------------- scores alone */

typedef struct scores_job {
    packed_job job; /* of all rows up to the last that is asked for */
    const sac_packed_scores_args *a;
} scores_job;

/* The first of n ascending numbers that is at least `least`. */
static int64_t first_from(const int32_t *rows, int64_t n, int64_t least) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rows[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of a stretch, the places that query head `head` asks for: [*begin, *end) of its scores; *rows their rows, or
 * NULL where place i is row first + i. */
static void asked_places(const scores_job *x, const packed_stretch *t, int64_t head, const int32_t **rows,
                         int64_t *begin, int64_t *end) {
    const sac_packed_scores_args *a = x->a;
    *rows = a->rows ? a->rows + head / (a->n_heads / a->n_lists) * a->n : NULL;
    *begin = a->rows ? first_from(*rows, a->n, t->row) : sac_max_i64(t->row - a->first, 0);
    *end = a->rows ? first_from(*rows, a->n, t->row + t->n) : sac_min_i64(t->row + t->n - a->first, a->n);
}

static bool is_asked(const scores_job *x, const packed_state *st, const packed_stretch *t) {
    const int32_t *rows;
    int64_t begin = 0, end = 0;
    for (int64_t r = 0; r < x->job.group && begin >= end; r++)
        asked_places(x, t, st->head * x->job.group + r, &rows, &begin, &end);
    return begin < end;
}

static void put_scores(const scores_job *x, const packed_state *st, const packed_stretch *t) {
    const int32_t *rows;
    int64_t begin, end;
    for (int64_t r = 0; r < x->job.group; r++) {
        int64_t head = st->head * x->job.group + r;
        const float *s = st->scores + r * SCORE_STRIDE;
        float *to = x->a->scores + head * x->a->stride;
        asked_places(x, t, head, &rows, &begin, &end);
        for (int64_t i = begin; i < end; i++) to[i] = s[(rows ? rows[i] : x->a->first + i) - t->row] * LN_2;
    }
}

static void scores_task(void *ctx, int64_t task, int thread) {
    const scores_job *x = ctx;
    const packed_job *job = &x->job;
    int64_t chunk = task / job->n_kv_heads, first = chunk * job->n_stretches / job->n_chunks;
    int64_t end = (chunk + 1) * job->n_stretches / job->n_chunks;
    packed_state st;
    packed_open(&st, job, task, thread);
    packed_stretch t = sac_packed_stretch_at(job, first);
    for (int64_t i = first; i < end; i++, sac_packed_stretch_next(job, &t)) {
        if (!is_asked(x, &st, &t)) continue;
        compute_scores(&st, &t);
        put_scores(x, &st, &t);
    }
}

sac_status PACKED_SCORES(const sac_stream *s, const sac_packed_scores_args *a) {
    sac_packed_rows keys = a->keys;
    const sac_packed_attention_args args = {.q = sac_mat_row_f32(a->q, 0),
                                            .parts = &keys,
                                            .n_parts = 1,
                                            .n_heads = a->n_heads,
                                            .scale = a->scale};
    scores_job x = {.a = a};
    if (sac_is_skipped(a->skip)) return SAC_OK;
    if (!a->rows) keys.n = a->first + a->n;
    if (a->turn_back || !sac_packed_plan(&x.job, s, &args)) return sac_ref_packed_scores(s, a);
    sac_packed_run(&x.job, scores_task);
    if (!a->lse) return SAC_OK;
    return sac_ref_softmax(
        s, &(sac_softmax_args){
               .scores = a->scores, .stride = a->stride, .n = a->n, .n_rows = a->n_heads, .lse = a->lse});
}
