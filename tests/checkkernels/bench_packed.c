#include "bench.h"

#include "packed_rows.h"

/* a: rows, 4-bit rows of them, query heads, key-value heads, head size. The other rows are in 2 bits; ranges
 * are as in the mixed format. Codes are what is streamed. */
void bench_packed(bench *b, const int64_t a[8]) {
    int64_t n[2] = {a[1], a[0] - a[1]}, d = a[4], n_words = 0;
    int kv_heads = (int)a[3];
    b->c.op = CHECK_packed_attention;
    for (int i = 0; i < 2; i++) {
        b->c.parts[i] = (sac_packed_rows){.n = n[i],
                                          .capacity = n[i],
                                          .n_heads = kv_heads,
                                          .head_dim = (int)d,
                                          .bits = i ? 2 : 4,
                                          .k_group = n[i],
                                          .v_group = (int)(kv_heads * d)};
        n_words += (int64_t)sac_packed_key_words(kv_heads, (int)d, i ? 2 : 4, n[i]) +
                   (int64_t)sac_packed_value_words(kv_heads, (int)d, i ? 2 : 4, n[i]);
    }
    b->first_copy = b->copy = bench_copies(b, SAC_DTYPE_F32, n_words / 64, 64, true);
    uint32_t *words = (uint32_t *)(uintptr_t)b->first_copy;
    uint16_t *half = bench_pages((size_t)(5 * d * kv_heads + 2 * a[0]) * 2 * sizeof(uint16_t));
    for (int64_t i = 0; i < 2 * (5 * d * kv_heads + 2 * a[0]); i++) half[i] = sac_f32_to_f16(0.05f);
    for (int i = 0; i < 2; i++) {
        sac_packed_rows *p = &b->c.parts[i];
        p->k = words;
        p->v = p->k + sac_packed_key_words(kv_heads, (int)d, p->bits, n[i]);
        words = p->v + sac_packed_value_words(kv_heads, (int)d, p->bits, n[i]);
        p->k_scale = p->k_min = p->v_channel = half;
        p->v_scale = p->v_min = half;
    }
    b->c.packed_attention = (sac_packed_attention_args){.o = bench_floats(b, a[2] * d),
                                                        .q = bench_floats(b, a[2] * d),
                                                        .parts = b->c.parts,
                                                        .n_parts = 2,
                                                        .n_heads = (int)a[2],
                                                        .scale = 0.125f};
    b->flops = 4.0 * (double)(a[0] * a[2] * d);
    b->bytes = (double)b->copy_bytes + 4.0 * (double)a[0];
}

/* The parts at another copy of their codes. */
void bench_packed_turn(bench *b, const char *copy) {
    for (int i = 0; i < b->c.packed_attention.n_parts; i++) {
        sac_packed_rows *p = &b->c.parts[i];
        p->k = (uint32_t *)(void *)((char *)p->k + (copy - b->copy));
        p->v = (uint32_t *)(void *)((char *)p->v + (copy - b->copy));
    }
    b->copy = copy;
}
