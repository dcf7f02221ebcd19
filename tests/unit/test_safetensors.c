#define _POSIX_C_SOURCE 200809L
/* Reading safetensors: what is right, and every way of being wrong. */
#include "safetensors.h"
#include "test.h"

#include <unistd.h>

/* A file of a header text and n_data bytes 0, 1, 2, ... as a fresh block of exactly its size, so that a read
 * beyond it is one beyond the block. */
static uint8_t *file_of(const char *header, size_t n_data, size_t *n_bytes) {
    size_t n = strlen(header);
    uint8_t *f = malloc(8 + n + n_data);
    for (int i = 0; i < 8; i++) f[i] = (uint8_t)((uint64_t)n >> (8 * i));
    memcpy(f + 8, header, n);
    for (size_t i = 0; i < n_data; i++) f[8 + n + i] = (uint8_t)i;
    *n_bytes = 8 + n + n_data;
    return f;
}

static const char *const good = "{\"__metadata__\":{\"format\":\"pt\"},"
                                "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                "\"a.bias\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]},"
                                "\"ids\":{\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[30,38]},"
                                "\"scalar\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[38,40]},"
                                "\"none\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[40,40]}}";

static void lists_tensors(void **state) {
    (void)state;
    size_t n, header_bytes;
    uint8_t *f = file_of(good, 40, &n);
    sac_checkpoint c = {0};
    sac_error err;
    assert_ok(sac_safetensors_parse(&c, 0, f, n, &header_bytes, &err), err);
    assert_ok(sac_checkpoint_seal(&c, &err), err);
    assert_int_equal(c.n_tensors, 5);
    assert_int_equal(header_bytes, 8 + strlen(good));
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&c, "b.weight");
    assert_int_equal(t->dtype, SAC_DTYPE_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dim[1], 3);
    assert_ptr_equal(t->data, f + header_bytes);
    t = sac_checkpoint_find(&c, "a.bias");
    assert_int_equal(t->data[0], 24);
    assert_int_equal(t->n_bytes, 6);
    t = sac_checkpoint_find(&c, "ids");
    assert_int_equal(t->dtype, -1);
    assert_string_equal(t->dtype_name, "i64");
    assert_int_equal(sac_checkpoint_find(&c, "scalar")->n_dims, 0);
    assert_null(sac_checkpoint_find(&c, "c"));
    assert_null(sac_checkpoint_find(&c, ""));
    sac_checkpoint_free(&c);
    free(f);
}

/* Parses and seals; the text of the error must contain `expect`. */
static void refused(const uint8_t *f, size_t n, const char *expect) {
    sac_checkpoint c = {0};
    sac_error err = {0};
    sac_status st = sac_safetensors_parse(&c, 0, f, n, NULL, &err);
    if (st == SAC_OK) st = sac_checkpoint_seal(&c, &err);
    sac_checkpoint_free(&c);
    assert_int_not_equal(st, SAC_OK);
    assert_int_equal(err.status, st);
    if (!strstr(err.text, expect)) fail_msg("\"%s\" does not say \"%s\"", err.text, expect);
}

static void refuses_what_is_cut_at_any_byte(void **state) {
    (void)state;
    size_t n;
    uint8_t *f = file_of(good, 40, &n);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, f, cut);
        refused(part, cut, "");
        free(part);
    }
    free(f);
}

static void refuses_wrong_headers(void **state) {
    (void)state;
    static const struct {
        const char *header, *expect;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{", "not valid JSON"},
        {"{}x", "not valid JSON"},
        {"{\"a\":1}", "must be an object"},
        {"{\"a\":{}}", "\"dtype\""},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", "unknown dtype \"F99\""},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "\"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "size 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "size 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "at most 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "\"data_offsets\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "\"data_offsets\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[11],\"data_offsets\":[0,44]}}", "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]}}", "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,92233720368547758070]}}",
         "not valid JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "does not take that many"},
        /* 2^62 * 4 * 4 bytes is 2^66: 0 modulo 2^64 */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
         "does not take"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "duplicate"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        size_t n;
        uint8_t *f = file_of(cases[i].header, 40, &n);
        refused(f, n, cases[i].expect);
        free(f);
    }
}

static void refuses_a_header_of_two_to_the_sixty(void **state) {
    (void)state;
    uint8_t f[64] = {0};
    f[7] = 0x10;
    refused(f, sizeof f, "header of 1152921504606846976 bytes");
    memset(f, 0xff, 8); /* 2^64 - 1: adding 8 would wrap */
    refused(f, sizeof f, "header of");
}

static void refuses_deep_nesting(void **state) {
    (void)state;
    size_t depth = 100000, n;
    char *header = malloc(depth + 8);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', depth);
    header[5 + depth] = 0;
    uint8_t *f = file_of(header, 0, &n);
    refused(f, n, "not valid JSON");
    free(f);
    free(header);
}

/* ---- folders ---- */

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/sac_safetensors_XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void put(const char *name, const void *bytes, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_shard(const char *name, const char *tensor) {
    char header[256];
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
             tensor);
    size_t n;
    uint8_t *f = file_of(header, 8, &n);
    put(name, f, n);
    free(f);
}

static void folder_refused(const char *index, const char *expect) {
    if (index) put("model.safetensors.index.json", index, strlen(index));
    sac_checkpoint c = {0};
    sac_error err = {0};
    assert_int_not_equal(sac_safetensors_open_folder(&c, folder, &err), SAC_OK);
    sac_checkpoint_free(&c);
    if (!strstr(err.text, expect)) fail_msg("\"%s\" does not say \"%s\"", err.text, expect);
}

static void reads_shards(void **state) {
    (void)state;
    folder_refused(NULL, "no model.safetensors and no model.safetensors.index.json");
    put_shard("one.safetensors", "x");
    put_shard("two.safetensors", "y");
    put_shard("again.safetensors", "x");
    const char *index = "{\"weight_map\":{\"x\":\"one.safetensors\",\"y\":\"two.safetensors\"}}";
    put("model.safetensors.index.json", index, strlen(index));
    sac_checkpoint c = {0};
    sac_error err;
    assert_ok(sac_safetensors_open_folder(&c, folder, &err), err);
    assert_int_equal(c.n_files, 2);
    assert_int_equal(c.n_tensors, 2);
    assert_int_equal(sac_checkpoint_find(&c, "y")->data[7], 7);
    sac_checkpoint_free(&c);

    folder_refused("{\"weight_map\":[]}", "must be an object");
    folder_refused("{\"weight_map\":{\"x\":1}}", "no plain file name");
    folder_refused("{\"weight_map\":{\"x\":\"../one.safetensors\"}}", "no plain file name");
    folder_refused("{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "no plain file name");
    folder_refused("{\"weight_map\":{\"x\":\"..\"}}", "no plain file name");
    folder_refused("{\"weight_map\":{\"x\":\"\"}}", "no plain file name");
    folder_refused("{\"weight_map\":{\"x\":\"three.safetensors\"}}", "three.safetensors: No such file");
    folder_refused("{\"weight_map\":{\"x\":\"two.safetensors\"}}", "x is in two.safetensors, but it is not");
    folder_refused("{\"weight_map\":{\"x\":\"one.safetensors\",\"x2\":\"again.safetensors\"}}",
                   "x is there twice");
    folder_refused("not json", "not valid JSON");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_tensors),
        cmocka_unit_test(refuses_what_is_cut_at_any_byte),
        cmocka_unit_test(refuses_wrong_headers),
        cmocka_unit_test(refuses_a_header_of_two_to_the_sixty),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test_setup_teardown(reads_shards, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
