/* Reading GGUF: metadata of every type, tensors, and every way of being wrong. */
#include "block_numbers.h"
#include "gguf.h"
#include "test.h"
#include "weight_reader.h"

/* A file being written. */
typedef struct writer {
    uint8_t bytes[1 << 16];
    size_t n;
} writer;

static void put_uint(writer *w, uint64_t v, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) w->bytes[w->n++] = (uint8_t)(v >> (8 * i));
}
static void put_text(writer *w, const char *s) {
    put_uint(w, strlen(s), 8);
    memcpy(w->bytes + w->n, s, strlen(s));
    w->n += strlen(s);
}
static void begin(writer *w, uint64_t n_tensors, uint64_t n_values) {
    w->n = 0;
    put_uint(w, 0x46554747, 4);
    put_uint(w, 3, 4);
    put_uint(w, n_tensors, 8);
    put_uint(w, n_values, 8);
}
static void put_key(writer *w, const char *key, sac_gguf_type type) {
    put_text(w, key);
    put_uint(w, type, 4);
}
static void put_int(writer *w, const char *key, sac_gguf_type type, uint64_t v, int n_bytes) {
    put_key(w, key, type);
    put_uint(w, v, n_bytes);
}
static void put_array(writer *w, const char *key, sac_gguf_type item, uint64_t n) {
    put_key(w, key, SAC_GGUF_ARRAY);
    put_uint(w, item, 4);
    put_uint(w, n, 8);
}
/* dims innermost first, as the file has them */
static void put_tensor(writer *w, const char *name, int n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset) {
    put_text(w, name);
    put_uint(w, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) put_uint(w, dims[i], 8);
    put_uint(w, type, 4);
    put_uint(w, offset, 8);
}
static void pad(writer *w, size_t alignment) {
    while (w->n % alignment) w->bytes[w->n++] = 0;
}
static void put_zeros(writer *w, size_t n) {
    memset(w->bytes + w->n, 0, n);
    w->n += n;
}

static void write_good(writer *w) {
    begin(w, 3, 14);
    put_int(w, "u8", SAC_GGUF_U8, 200, 1);
    put_int(w, "i8", SAC_GGUF_I8, 0xfe, 1);
    put_int(w, "u16", SAC_GGUF_U16, 60000, 2);
    put_int(w, "i16", SAC_GGUF_I16, 0xfffd, 2);
    put_int(w, "u32", SAC_GGUF_U32, 4000000000u, 4);
    put_int(w, "i32", SAC_GGUF_I32, 0xfffffffcu, 4);
    put_int(w, "f32", SAC_GGUF_F32, 0x3fc00000u, 4);
    put_int(w, "bool", SAC_GGUF_BOOL, 1, 1);
    put_key(w, "string", SAC_GGUF_STRING);
    put_text(w, "h\xc3\xa9llo");
    put_int(w, "u64", SAC_GGUF_U64, 1ull << 40, 8);
    put_int(w, "i64", SAC_GGUF_I64, (uint64_t)-5, 8);
    put_int(w, "f64", SAC_GGUF_F64, 0x4004000000000000ull, 8);
    put_array(w, "words", SAC_GGUF_STRING, 3);
    put_text(w, "a");
    put_text(w, "");
    put_text(w, "ccc");
    put_array(w, "nested", SAC_GGUF_ARRAY, 2);
    for (int i = 0; i < 2; i++) {
        put_uint(w, SAC_GGUF_F32, 4);
        put_uint(w, 1, 8);
        put_uint(w, 0x40000000u, 4);
    }
    put_tensor(w, "w", 2, (uint64_t[]){64, 3}, 2, 0);     /* q4_0: 3 rows of 2 blocks of 18 = 108 */
    put_tensor(w, "n", 1, (uint64_t[]){5}, 0, 128);       /* f32: 20 */
    put_tensor(w, "x", 2, (uint64_t[]){256, 1}, 17, 160); /* iq2_xs, listed only: 74 */
    pad(w, 32);
    put_zeros(w, 160 + 74);
}

typedef struct parsed {
    sac_gguf g;
    sac_checkpoint c;
    sac_error err;
    sac_status st;
    uint8_t *copy; /* of exactly the file's size */
} parsed;

static void parse(parsed *p, const uint8_t *bytes, size_t n) {
    memset(p, 0, sizeof *p);
    p->copy = malloc(n ? n : 1);
    memcpy(p->copy, bytes, n);
    p->st = sac_gguf_parse(&p->g, &p->c, 0, p->copy, n, NULL, &p->err);
}
static void release(parsed *p) {
    sac_gguf_free(&p->g);
    sac_checkpoint_free(&p->c);
    free(p->copy);
}
static void refused(const writer *w, const char *expect) {
    parsed p;
    parse(&p, w->bytes, w->n);
    assert_int_not_equal(p.st, SAC_OK);
    assert_says(p.err, expect);
    release(&p);
}

static void reads_values_of_every_type(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    parsed p;
    parse(&p, w.bytes, w.n);
    assert_ok(p.st, p.err);
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"u8", 200}, {"i8", -2},         {"u16", 60000}, {"i16", -3}, {"u32", 4000000000},
                {"i32", -4}, {"u64", 1ll << 40}, {"i64", -5},    {"bool", 1}};
    for (size_t i = 0; i < SAC_COUNT(ints); i++) {
        int64_t v = 77;
        assert_ok(sac_gguf_get_int(&p.g, ints[i].key, INT64_MIN, INT64_MAX, &v, &p.err), p.err);
        assert_int_equal(v, ints[i].value);
    }
    double d = 0;
    assert_ok(sac_gguf_get_float(&p.g, "f32", &d, &p.err), p.err);
    assert_true(d == 1.5);
    assert_ok(sac_gguf_get_float(&p.g, "f64", &d, &p.err), p.err);
    assert_true(d == 2.5);
    assert_ok(sac_gguf_get_float(&p.g, "absent", &d, &p.err), p.err);
    assert_true(d == 2.5);
    int flag = -1;
    assert_ok(sac_gguf_get_bool(&p.g, "bool", &flag, &p.err), p.err);
    assert_int_equal(flag, 1);
    sac_text_span s = {0};
    assert_ok(sac_gguf_get_string(&p.g, "string", &s, &p.err), p.err);
    assert_int_equal(s.n_bytes, 6);
    assert_memory_equal(s.text, "h\xc3\xa9llo", 6);
    sac_text_span *words;
    size_t n;
    assert_ok(sac_gguf_get_strings(&p.g, "words", &words, &n, &p.err), p.err);
    assert_int_equal(n, 3);
    assert_int_equal(words[1].n_bytes, 0);
    assert_memory_equal(words[2].text, "ccc", 3);
    free(words);
    assert_ok(sac_gguf_get_strings(&p.g, "absent", &words, &n, &p.err), p.err);
    assert_null(words);
    release(&p);
}

static void getters_name_the_key(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    parsed p;
    parse(&p, w.bytes, w.n);
    int64_t v = 1;
    double d;
    int flag;
    sac_text_span s, *spans;
    float *floats;
    int32_t *ints;
    size_t n;
    assert_int_equal(sac_gguf_get_int(&p.g, "string", 0, 9, &v, &p.err), SAC_BAD_FILE);
    assert_string_equal(p.err.text, "string must be an integer");
    assert_int_equal(sac_gguf_get_int(&p.g, "u16", 0, 9, &v, &p.err), SAC_BAD_FILE);
    assert_string_equal(p.err.text, "u16 is 60000, must be 0 to 9");
    assert_int_equal(v, 1);
    assert_int_equal(sac_gguf_get_float(&p.g, "words", &d, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_bool(&p.g, "u8", &flag, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_string(&p.g, "u8", &s, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_strings(&p.g, "nested", &spans, &n, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_floats(&p.g, "words", &floats, &n, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_ints(&p.g, "words", &ints, &n, &p.err), SAC_BAD_FILE);
    assert_int_equal(sac_gguf_get_ints(&p.g, "u8", &ints, &n, &p.err), SAC_BAD_FILE);
    release(&p);
}

static void lists_tensors(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    parsed p;
    parse(&p, w.bytes, w.n);
    assert_ok(p.st, p.err);
    assert_int_equal(p.c.n_tensors, 3);
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&p.c, "w");
    assert_int_equal(t->dtype, SAC_DTYPE_Q4_0);
    assert_int_equal(t->dim[0], 3); /* rows: the file has 64, 3 */
    assert_int_equal(t->dim[1], 64);
    assert_int_equal(t->n_bytes, 108);
    assert_int_equal((t->data - p.copy) % 32, 0);
    t = sac_checkpoint_find(&p.c, "x");
    assert_int_equal(t->dtype, -1);
    assert_string_equal(t->dtype_name, "iq2_xs");
    release(&p);
}

/* Every type of blocks: its number in the file. */
static const struct {
    sac_dtype dtype;
    uint32_t number;
} block_types[] = {
    {SAC_DTYPE_Q8_0, 8},    {SAC_DTYPE_Q4_0, 2},    {SAC_DTYPE_Q4_1, 3},   {SAC_DTYPE_Q5_0, 6},
    {SAC_DTYPE_Q5_1, 7},    {SAC_DTYPE_IQ4_NL, 20}, {SAC_DTYPE_MXFP4, 39}, {SAC_DTYPE_Q2_K, 10},
    {SAC_DTYPE_Q3_K, 11},   {SAC_DTYPE_Q4_K, 12},   {SAC_DTYPE_Q5_K, 13},  {SAC_DTYPE_Q6_K, 14},
    {SAC_DTYPE_IQ4_XS, 23},
};

/* Two rows of k elements, and n bytes of tensors. */
static void write_blocks(writer *w, uint32_t number, uint64_t k, size_t n_bytes) {
    begin(w, 1, 0);
    put_tensor(w, "t", 2, (uint64_t[]){k, 2}, number, 0);
    pad(w, 32);
    put_zeros(w, n_bytes);
}

static void reads_blocks_of_every_type(void **state) {
    (void)state;
    static writer w;
    assert_int_equal(SAC_COUNT(block_types), N_BLOCK_DTYPES);
    for (size_t i = 0; i < SAC_COUNT(block_types); i++) {
        const sac_dtype t = block_types[i].dtype;
        const uint64_t block = (uint64_t)sac_dtype_block(t);
        const size_t n_bytes = 6 * (size_t)sac_dtype_block_bytes(t);
        char expect[64];
        write_blocks(&w, block_types[i].number, 3 * block, n_bytes);
        parsed p;
        parse(&p, w.bytes, w.n);
        assert_ok(p.st, p.err);
        sac_weight weight;
        sac_error err;
        assert_ok(sac_weight_read(&(sac_weight_source){&p.c, NULL}, &p.c.tensors[0], &weight, &err), err);
        assert_int_equal(weight.tensor.dtype, t);
        assert_string_equal(sac_weight_name(&weight), sac_dtype_name(t));
        assert_int_equal(p.c.tensors[0].n_bytes, n_bytes);
        release(&p);
        write_blocks(&w, block_types[i].number, 3 * block, n_bytes - 1);
        refused(&w, "outside the file's");
        write_blocks(&w, block_types[i].number, 3 * block + block / 2, n_bytes);
        snprintf(expect, sizeof expect, "do not divide into %s blocks of %d", sac_dtype_name(t), (int)block);
        refused(&w, expect);
    }
}

static void refuses_types_that_it_cannot_compute_with(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    parsed p;
    parse(&p, w.bytes, w.n);
    sac_weight weight;
    sac_error err;
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&p.c, "x");
    assert_int_equal(sac_weight_read(&(sac_weight_source){&p.c, NULL}, t, &weight, &err), SAC_UNSUPPORTED);
    assert_non_null(
        strstr(err.text, "tensor x is iq2_xs, a type that cannot be computed with here (known: f32, "));
    assert_non_null(strstr(err.text, ", q5_k, q6_k, iq4_xs)"));
    release(&p);
}

static void refuses_what_is_cut_at_any_byte(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    for (size_t cut = 0; cut < w.n; cut++) {
        parsed p;
        parse(&p, w.bytes, cut);
        assert_int_not_equal(p.st, SAC_OK);
        assert_true(p.err.text[0]);
        release(&p);
    }
}

/* Any byte changed to any of a few values: a status or success, never a read outside (for the sanitizers). */
static void survives_changed_bytes(void **state) {
    (void)state;
    static writer w;
    write_good(&w);
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < w.n; at++)
        for (size_t k = 0; k < sizeof values; k++) {
            uint8_t old = w.bytes[at];
            w.bytes[at] = values[k];
            parsed p;
            parse(&p, w.bytes, w.n);
            release(&p);
            w.bytes[at] = old;
        }
}

static void refuses_wrong_headers(void **state) {
    (void)state;
    static writer w;
    begin(&w, 0, 0);
    w.bytes[0] = 'X';
    refused(&w, "not a GGUF file");
    begin(&w, 0, 0);
    w.bytes[4] = 1;
    refused(&w, "GGUF version 1");
    begin(&w, 0, 0);
    memcpy(w.bytes + 4, "\0\0\0\3", 4);
    refused(&w, "big endian?");
    begin(&w, 0, 1ull << 60);
    refused(&w, "ends inside its metadata");
    begin(&w, 1ull << 60, 0);
    refused(&w, "ends inside its tensor list");
    begin(&w, 0, 1);
    put_int(&w, "general.alignment", SAC_GGUF_U32, 24, 4);
    refused(&w, "power of two");
    begin(&w, 0, 1);
    put_int(&w, "general.alignment", SAC_GGUF_U32, 0, 4);
    refused(&w, "general.alignment is 0");
    begin(&w, 0, 2);
    put_int(&w, "k", SAC_GGUF_U32, 1, 4);
    put_int(&w, "k", SAC_GGUF_U32, 2, 4);
    refused(&w, "key k is there twice");
    begin(&w, 0, 1);
    put_int(&w, "k", (sac_gguf_type)13, 1, 4);
    refused(&w, "k: unknown type 13");
    begin(&w, 0, 1);
    put_array(&w, "k", (sac_gguf_type)99, 1);
    put_uint(&w, 0, 8);
    refused(&w, "unknown type 99");
    begin(&w, 0, 1);
    put_array(&w, "k", SAC_GGUF_U64, 1ull << 61); /* times 8 is 0 modulo 2^64 */
    put_uint(&w, 0, 8);
    refused(&w, "ends inside an array");
    begin(&w, 0, 1);
    put_array(&w, "k", SAC_GGUF_STRING, 1ull << 62);
    put_uint(&w, 0, 8);
    refused(&w, "ends inside an array of strings");
}

static void refuses_deep_nesting(void **state) {
    (void)state;
    static writer w;
    begin(&w, 0, 1);
    put_key(&w, "k", SAC_GGUF_ARRAY);
    for (int i = 0; i < 1000; i++) {
        put_uint(&w, SAC_GGUF_ARRAY, 4);
        put_uint(&w, 1, 8);
    }
    refused(&w, "nested deeper than 4");
}

static void refuses_wrong_tensors(void **state) {
    (void)state;
    static writer w;
    static const struct {
        int n_dims;
        uint64_t dims[5];
        uint32_t type;
        uint64_t offset;
        const char *expect;
    } cases[] = {
        {0, {0}, 0, 0, "0 dimensions"},
        {5, {1, 1, 1, 1, 1}, 0, 0, "5 dimensions"},
        {1, {4}, 4, 0, "tensor type 4 is not known"},
        {1, {4}, 4000, 0, "tensor type 4000 is not known"},
        {1, {1ull << 63}, 0, 0, "dimension 0 is"},
        {1, {33}, 2, 0, "do not divide into q4_0 blocks"},
        {2, {1ull << 32, 1ull << 32}, 0, 0, "overflows"},
        {3, {1ull << 31, 1ull << 31, 4}, 0, 0, "overflows"},
        {1, {4}, 0, 8, "not a multiple of 32"},
        {1, {4}, 0, 64, "outside the file's"},
        {1, {1000}, 0, 0, "outside the file's"},
        {1, {4}, 0, 1ull << 63, "outside the file's"},
        {1, {4}, 0, 0xffffffffffffffe0ull, "outside the file's"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        begin(&w, 1, 0);
        put_tensor(&w, "t", cases[i].n_dims, cases[i].dims, cases[i].type, cases[i].offset);
        pad(&w, 32);
        put_zeros(&w, 64);
        refused(&w, cases[i].expect);
    }
    begin(&w, 2, 0);
    put_tensor(&w, "a", 1, (uint64_t[]){9}, 0, 0);
    put_tensor(&w, "b", 1, (uint64_t[]){8}, 0, 32);
    pad(&w, 32);
    put_zeros(&w, 64);
    refused(&w, "tensors a and b overlap");
    begin(&w, 2, 0);
    put_tensor(&w, "a", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&w, "a", 1, (uint64_t[]){8}, 0, 32);
    pad(&w, 32);
    put_zeros(&w, 64);
    refused(&w, "tensor a is there twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values_of_every_type),
        cmocka_unit_test(getters_name_the_key),
        cmocka_unit_test(lists_tensors),
        cmocka_unit_test(refuses_what_is_cut_at_any_byte),
        cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(refuses_wrong_headers),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(refuses_wrong_tensors),
        cmocka_unit_test(reads_blocks_of_every_type),
        cmocka_unit_test(refuses_types_that_it_cannot_compute_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
