#define _GNU_SOURCE
#include "arena.h"
#include "cpu_quota.h"
#include "dtype.h"
#include "hash.h"
#include "json.h"
#include "status.h"
#include "test.h"
#include "thread_pool.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail_keeps_one_line(void **state) {
    (void)state;
    sac_error err = {0};
    assert_int_equal(sac_fail(&err, SAC_BAD_FILE, "name \x1b[31m\n%s", "x"), SAC_BAD_FILE);
    assert_string_equal(err.text, "name ?[31m?x");
    sac_fail_prefix(&err, SAC_BAD_FILE, "%s", "file");
    assert_string_equal(err.text, "file: name ?[31m?x");
    assert_int_equal(sac_fail(NULL, SAC_IO, "x"), SAC_IO);
    assert_string_equal(sac_status_name(SAC_TOO_LONG), "TOO_LONG");
    assert_int_equal(sac_status_exit_code(SAC_BAD_ARGUMENT), 64);
}

static void f16_round_trips_every_value(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = sac_f16_to_f32((uint16_t)h);
        if (isnan(f)) continue;
        assert_int_equal(sac_f32_to_f16(f), h);
    }
    assert_int_equal(sac_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(sac_f32_to_f16(1.0f + 0x1p-11f), 0x3c00);            /* tie to even: down */
    assert_int_equal(sac_f32_to_f16(1.0f + 0x1p-10f + 0x1p-11f), 0x3c02); /* tie to even: up */
    assert_int_equal(sac_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(sac_f32_to_f16(0x1.8p-25f), 1);
}

static void bf16_rounds_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = sac_bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(sac_f32_to_bf16(f), h);
    }
    assert_int_equal(sac_f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(sac_f32_to_bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);
    assert_true(isnan(sac_bf16_to_f32(sac_f32_to_bf16(NAN))));
}

static void arena_hands_out_aligned_blocks(void **state) {
    (void)state;
    sac_arena a;
    sac_error err;
    size_t need = sac_arena_block_bytes(1) + sac_arena_block_bytes(100);
    assert_ok(sac_arena_open(&a, need, &err), err);
    uint8_t *p = sac_arena_take(&a, 1), *q = sac_arena_take(&a, 100);
    assert_non_null(p);
    assert_non_null(q);
    assert_int_equal((uintptr_t)q % SAC_ARENA_ALIGN, 0);
    memset(q, 1, 100);
    assert_null(sac_arena_take(&a, 1));
    sac_arena_release(&a, 0);
    assert_ptr_equal(sac_arena_take(&a, 100), p);
    assert_int_equal(a.peak_bytes, need);
    sac_arena_free(&a);
    assert_int_equal(sac_arena_block_bytes(SIZE_MAX), SIZE_MAX);
}

static void count_task(void *ctx, int64_t task, int thread) {
    (void)thread;
    atomic_fetch_add(&((atomic_int *)ctx)[task], 1);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A made-up /sys/fs/cgroup and /proc/self/cgroup. */
static void quotas_are_found_in_both_kinds_of_cgroups(void **state) {
    (void)state;
    char root[] = "/tmp/saccade_cgroup_XXXXXX", at[600], process[600];
    assert_non_null(mkdtemp(root));
    static const char *const folders[] = {"",    "/job", "/job/step", "/cpu,cpuacct", "/cpu,cpuacct/job",
                                          "/cpu"};
    for (size_t i = 1; i < SAC_COUNT(folders); i++) {
        snprintf(at, sizeof at, "%s%s", root, folders[i]);
        assert_int_equal(mkdir(at, 0700), 0);
    }
    snprintf(process, sizeof process, "%s/process", root);
    assert_true(sac_cpu_quota_at(process, root) == 0); /* no such file */
    write_text(root, "process", "0::/job/step\n");
    assert_true(sac_cpu_quota_at(process, root) == 0);
    snprintf(at, sizeof at, "%s/job/step", root);
    write_text(at, "cpu.max", "max 100000\n");
    assert_true(sac_cpu_quota_at(process, root) == 0);
    snprintf(at, sizeof at, "%s/job", root);
    write_text(at, "cpu.max", "150000 100000\n"); /* the parent's limit holds */
    assert_true(sac_cpu_quota_at(process, root) == 1.5);
    write_text(root, "cpu.max", "50000 100000\n");
    assert_true(sac_cpu_quota_at(process, root) == 0.5);
    write_text(root, "process", "0::/not/seen/from/inside\n");
    assert_true(sac_cpu_quota_at(process, root) == 0.5);
    write_text(root, "process", "7:memory:/job\n4:cpu,cpuacct:/job\n");
    assert_true(sac_cpu_quota_at(process, root) == 0);
    snprintf(at, sizeof at, "%s/cpu,cpuacct/job", root);
    write_text(at, "cpu.cfs_quota_us", "-1\n");
    write_text(at, "cpu.cfs_period_us", "100000\n");
    assert_true(sac_cpu_quota_at(process, root) == 0);
    write_text(at, "cpu.cfs_quota_us", "300000\n");
    assert_true(sac_cpu_quota_at(process, root) == 3);
    snprintf(at, sizeof at, "%s/cpu", root);
    write_text(at, "cpu.cfs_quota_us", "200000\n");
    write_text(at, "cpu.cfs_period_us", "100000\n");
    assert_true(sac_cpu_quota_at(process, root) == 2);
    write_text(at, "cpu.cfs_quota_us", "nonsense\n");
    assert_true(sac_cpu_quota_at(process, root) == 3);
    assert_true(sac_memory_limit_at(process, root) == 0);
    snprintf(at, sizeof at, "%s/memory", root);
    assert_int_equal(mkdir(at, 0700), 0);
    write_text(at, "memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(sac_memory_limit_at(process, root) > 9e18);
    write_text(at, "memory.limit_in_bytes", "3221225472\n");
    assert_true(sac_memory_limit_at(process, root) == 3221225472.0);
    write_text(root, "process", "0::/job/step\n");
    snprintf(at, sizeof at, "%s/job/step", root);
    write_text(at, "memory.max", "max\n");
    assert_true(sac_memory_limit_at(process, root) == 0);
    snprintf(at, sizeof at, "%s/job", root);
    write_text(at, "memory.max", "1073741824\n");
    assert_true(sac_memory_limit_at(process, root) == 1073741824.0);
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    assert_true(sac_usable_processors() >= 1);
}

static void pool_runs_every_task_once(void **state) {
    (void)state;
    enum { n_tasks = 257 };
    static atomic_int seen[n_tasks];
    sac_pool *p;
    sac_error err;
    assert_ok(sac_pool_create(&p, 4, &err), err);
    for (int round = 1; round <= 300; round++) {
        sac_pool_run(p, n_tasks, count_task, seen);
        for (int i = 0; i < n_tasks; i++) assert_int_equal(seen[i], round);
    }
    sac_pool_free(p);
    assert_int_equal(sac_pool_create(&p, -1, &err), SAC_BAD_ARGUMENT);
}

static sac_status parse_as_file(json_t **j, const char *text, sac_error *err) {
    char path[] = "/tmp/sac_json_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    sac_status st = sac_json_parse_file(j, path, err);
    unlink(path);
    return st;
}

static void json_names_the_wrong_key(void **state) {
    (void)state;
    sac_error err;
    json_t *j;
    const char *text = "{\"a\": 14.0, \"b\": \"x\", \"c\": null}";
    assert_ok(sac_json_parse(&j, text, strlen(text), &err), err);
    int64_t v = 7;
    assert_ok(sac_json_get_int(j, "a", 0, 100, &v, &err), err);
    assert_int_equal(v, 14);
    v = 7;
    assert_ok(sac_json_get_int(j, "c", 0, 100, &v, &err), err);
    assert_int_equal(v, 7);
    assert_int_equal(sac_json_get_int(j, "b", 0, 100, &v, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "\"b\""));
    assert_int_equal(sac_json_get_int(j, "a", 0, 10, &v, &err), SAC_BAD_FILE);
    json_decref(j);
    assert_int_equal(sac_json_parse(&j, "{\"a\":1,\"a\":2}", 13, &err), SAC_BAD_FILE);
    const char *large = "{\"n\": [1000000000000000019884624838656, -99999999999999999999], "
                        "\"s\": \"\\\"1000000000000000019884624838656\", \"i\": 123456789012345678}";
    assert_int_equal(sac_json_parse(&j, large, strlen(large), &err), SAC_BAD_FILE);
    assert_ok(parse_as_file(&j, large, &err), err);
    assert_true(json_real_value(json_array_get(json_object_get(j, "n"), 0)) == 1e30);
    assert_true(json_real_value(json_array_get(json_object_get(j, "n"), 1)) == -1e20);
    assert_string_equal(json_string_value(json_object_get(j, "s")), "\"1000000000000000019884624838656");
    assert_int_equal(json_integer_value(json_object_get(j, "i")), 123456789012345678);
    json_decref(j);
    const char *bad = "{\"n\": 10000000000000000000000000, \"m\": 0100000000000000000000}";
    assert_int_equal(parse_as_file(&j, bad, &err), SAC_BAD_FILE);
    char deep[5000];
    memset(deep, '[', sizeof deep);
    assert_int_equal(sac_json_parse(&j, deep, sizeof deep, &err), SAC_BAD_FILE);
}

/* The published values of FNV-1a with 64 bits: journals hold them. */
static void quick_hash_is_fnv_1a(void **state) {
    (void)state;
    assert_true(sac_hash_quick(0, "", 0) == 0xcbf29ce484222325u);
    assert_true(sac_hash_quick(0, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(sac_hash_quick(0, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(sac_hash_quick(sac_hash_quick(0, "foo", 3), "bar", 3) == sac_hash_quick(0, "foobar", 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_keeps_one_line),
        cmocka_unit_test(f16_round_trips_every_value),
        cmocka_unit_test(bf16_rounds_to_even),
        cmocka_unit_test(arena_hands_out_aligned_blocks),
        cmocka_unit_test(quick_hash_is_fnv_1a),
        cmocka_unit_test(quotas_are_found_in_both_kinds_of_cgroups),
        cmocka_unit_test(pool_runs_every_task_once),
        cmocka_unit_test(json_names_the_wrong_key),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
