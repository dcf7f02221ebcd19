#define _GNU_SOURCE
/* Which shard a process is: from --shard, or from what Slurm, Kubernetes and MPI put into the environment. */
#include "test.h"

#include "caption_shard.h"

static sac_error err;
static caption_shard shard;

/* "NAME=VALUE NAME=VALUE", and nothing else of the kind. */
static sac_status find(const char *variables, const char *text, int64_t n_shards) {
    static const char *const all[] = {"JOB_COMPLETION_INDEX",
                                      "SLURM_ARRAY_TASK_ID",
                                      "SLURM_ARRAY_TASK_MIN",
                                      "SLURM_ARRAY_TASK_MAX",
                                      "SLURM_ARRAY_TASK_COUNT",
                                      "SLURM_ARRAY_TASK_STEP",
                                      "SLURM_STEP_ID",
                                      "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE"};
    char copy[400];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
    snprintf(copy, sizeof copy, "%s", variables);
    for (char *one = strtok(copy, " "); one; one = strtok(NULL, " ")) {
        char *value = strchr(one, '=');
        *value = 0;
        setenv(one, value + 1, 1);
    }
    err = (sac_error){0};
    return caption_shard_find(&shard, text, n_shards, &err);
}

static void assert_shard(const char *variables, const char *text, int64_t n_shards, int64_t index,
                         int64_t count) {
    if (find(variables, text, n_shards) != SAC_OK) fail_msg("%s: %s", variables, err.text);
    assert_int_equal(shard.index, index);
    assert_int_equal(shard.count, count);
}

static void assert_refused(const char *variables, const char *text, int64_t n_shards, const char *needle) {
    assert_int_equal(find(variables, text, n_shards), SAC_BAD_ARGUMENT);
    if (!strstr(err.text, needle)) fail_msg("'%s' is not in '%s'", needle, err.text);
}

#define ARRAY "SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=15 SLURM_ARRAY_TASK_COUNT=16 "

static void given(void **state) {
    (void)state;
    assert_shard("", NULL, 0, 0, 1);
    assert_shard("", "0/1", 0, 0, 1);
    assert_shard("", "3/4", 0, 3, 4);
    assert_shard("", "3/4", 4, 3, 4);
    assert_shard(ARRAY "SLURM_ARRAY_TASK_ID=5", "0/1", 0, 0, 1); /* what is given wins */
    assert_refused("", "4/4", 0, "0 to N-1");
    assert_refused("", "-1/4", 0, "I/N");
    assert_refused("", "1/", 0, "I/N");
    assert_refused("", "1/4x", 0, "I/N");
    assert_refused("", "1", 0, "I/N");
    assert_refused("", "0/0", 0, "0 to N-1");
    assert_refused("", "0/9999999999999", 0, "I/N");
    assert_refused("", "1/4", 5, "differ");
    assert_refused("", NULL, 4, "which of them");
    assert_shard("", NULL, 1, 0, 1);
}

static void slurm(void **state) {
    (void)state;
    assert_shard(ARRAY "SLURM_ARRAY_TASK_ID=5", NULL, 0, 5, 16);
    assert_shard(
        "SLURM_ARRAY_TASK_ID=14 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=16 SLURM_ARRAY_TASK_COUNT=4 "
        "SLURM_ARRAY_TASK_STEP=2",
        NULL, 0, 2, 4);
    assert_shard(ARRAY "SLURM_ARRAY_TASK_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", NULL, 0,
                 11, 32);
    /* 3 and 7 again: the array alone does not tell of how many */
    assert_refused(
        "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=2", NULL,
        0, "--shards N");
    assert_shard(
        "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=2", NULL,
        16, 7, 16);
    assert_refused("SLURM_ARRAY_TASK_ID=16", NULL, 16, "0 to N-1");
    assert_shard("SLURM_STEP_ID=3 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4", NULL, 0, 2, 4);
    assert_shard("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4", NULL, 0, 0,
                 1); /* a batch script, not a step of it */
}

static void others(void **state) {
    (void)state;
    assert_refused("JOB_COMPLETION_INDEX=2", NULL, 0, "--shards N");
    assert_shard("JOB_COMPLETION_INDEX=2", NULL, 8, 2, 8);
    assert_shard("JOB_COMPLETION_INDEX=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", NULL, 8, 2, 8);
    assert_shard("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", NULL, 0, 1, 3);
    assert_shard("PMI_RANK=0 PMI_SIZE=2", NULL, 0, 0, 2);
    assert_shard("PMI_RANK=0", NULL, 0, 0, 1);
    assert_shard("PMI_RANK=x PMI_SIZE=2", NULL, 0, 0, 1);
}

static void folders(void **state) {
    (void)state;
    char name[60];
    caption_shard s = {.index = 3, .count = 16};
    caption_shard_folder(&s, name, sizeof name);
    assert_string_equal(name, "shard-00003-of-00016");
    assert_true(caption_shard_parse_folder(name, &s) && s.index == 3 && s.count == 16);
    assert_false(caption_shard_parse_folder("shard-3-of-16", &s));
    assert_false(caption_shard_parse_folder("shard-00003-of-00016.old", &s));
    assert_false(caption_shard_parse_folder("text", &s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(given), cmocka_unit_test(slurm),
                                       cmocka_unit_test(others), cmocka_unit_test(folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
