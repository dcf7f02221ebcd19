#define _GNU_SOURCE
#include "caption_shard.h"
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole number without sign, and nothing behind it but `end`. */
static bool parse_number(const char *text, char end, int64_t *value, const char **rest) {
    size_t n = strspn(text, "0123456789");
    if (!n || n > 9 || text[n] != end) return false;
    *value = strtoll(text, NULL, 10);
    if (rest) *rest = text + n + 1;
    return true;
}

static bool variable(const char *name, int64_t *value) {
    const char *text = getenv(name);
    return text && parse_number(text, 0, value, NULL);
}

/* Tasks of an srun step. Outside of one (in a batch script) these variables describe the whole allocation. */
static bool slurm_step(int64_t *index, int64_t *count) {
    return getenv("SLURM_STEP_ID") && variable("SLURM_PROCID", index) &&
           variable("SLURM_STEP_NUM_TASKS", count);
}

static bool slurm_array(caption_shard *s, bool known, sac_error *err) {
    int64_t id, min = 0, max = 0, count = 0, step = 1, task = 0, tasks = 1;
    if (!variable("SLURM_ARRAY_TASK_ID", &id)) return false;
    if (!slurm_step(&task, &tasks)) task = 0, tasks = 1;
    snprintf(s->origin, sizeof s->origin, "SLURM_ARRAY_TASK_ID");
    if (known) { /* --shards: the array's numbers are those of the shards */
        s->index = id * tasks + task;
        return true;
    }
    variable("SLURM_ARRAY_TASK_STEP", &step);
    bool whole = variable("SLURM_ARRAY_TASK_MIN", &min) && variable("SLURM_ARRAY_TASK_MAX", &max) &&
                 variable("SLURM_ARRAY_TASK_COUNT", &count) && step > 0 && id >= min &&
                 (max - min) / step + 1 == count;
    if (!whole)
        sac_fail(err, SAC_BAD_ARGUMENT,
                 "SLURM_ARRAY_TASK_ID: the array has gaps, so that it does not tell how many "
                 "shards there are; give --shards N");
    s->index = (id - min) / step * tasks + task;
    s->count = count * tasks;
    return true;
}

static bool pair(caption_shard *s, const char *index_name, const char *count_name) {
    int64_t index, count;
    if (!variable(index_name, &index) || !variable(count_name, &count)) return false;
    s->index = index;
    s->count = count;
    snprintf(s->origin, sizeof s->origin, "%s", index_name);
    return true;
}

static void from_environment(caption_shard *s, bool known, sac_error *err) {
    if (variable("JOB_COMPLETION_INDEX", &s->index)) {
        snprintf(s->origin, sizeof s->origin, "JOB_COMPLETION_INDEX");
        if (!known)
            sac_fail(err, SAC_BAD_ARGUMENT,
                     "JOB_COMPLETION_INDEX: how many shards there are is not in the "
                     "environment; give --shards N");
        return;
    }
    if (slurm_array(s, known, err)) return;
    int64_t index, count;
    if (slurm_step(&index, &count)) {
        s->index = index;
        s->count = count;
        snprintf(s->origin, sizeof s->origin, "SLURM_PROCID");
        return;
    }
    if (pair(s, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) return;
    pair(s, "PMI_RANK", "PMI_SIZE");
}

static sac_status check(caption_shard *s, sac_error *err) {
    if (s->count >= 1 && s->count <= CAPTION_SHARDS_MAX && s->index >= 0 && s->index < s->count)
        return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "%s: shard %" PRId64 " of %" PRId64 ": expected 0 to N-1 of at most %d", s->origin,
                    s->index, s->count, CAPTION_SHARDS_MAX);
}

sac_status caption_shard_find(caption_shard *s, const char *text, int64_t n_shards, sac_error *err) {
    *s = (caption_shard){.index = 0, .count = 1, .origin = "--shards"};
    if (text) {
        const char *rest;
        snprintf(s->origin, sizeof s->origin, "--shard");
        if (!parse_number(text, '/', &s->index, &rest) || !parse_number(rest, 0, &s->count, NULL))
            return sac_fail(err, SAC_BAD_ARGUMENT, "--shard: expected I/N, like 0/4, found '%.60s'", text);
        if (n_shards && n_shards != s->count)
            return sac_fail(err, SAC_BAD_ARGUMENT, "--shard %.40s and --shards %" PRId64 " differ", text,
                            n_shards);
        return check(s, err);
    }
    sac_error why = {0};
    caption_shard found = {.index = -1};
    from_environment(&found, n_shards > 0, &why);
    if (why.status != SAC_OK) {
        *err = why;
        return why.status;
    }
    if (found.index < 0 && n_shards > 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--shards %" PRId64 ": which of them is this? give --shard I/%" PRId64
                        ", or run it as an array",
                        n_shards, n_shards);
    if (found.index >= 0) *s = found;
    if (n_shards) s->count = n_shards;
    return check(s, err);
}

void caption_shard_folder(const caption_shard *shard, char *name, size_t n_bytes) {
    snprintf(name, n_bytes, "shard-%05" PRId64 "-of-%05" PRId64, shard->index, shard->count);
}

bool caption_shard_parse_folder(const char *name, caption_shard *shard) {
    const char *rest;
    char back[60];
    *shard = (caption_shard){0};
    if (strncmp(name, "shard-", 6) || !parse_number(name + 6, '-', &shard->index, &rest) ||
        strncmp(rest, "of-", 3) || !parse_number(rest + 3, 0, &shard->count, NULL))
        return false;
    caption_shard_folder(shard, back, sizeof back);
    return !strcmp(back, name);
}
