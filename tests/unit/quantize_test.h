/* quantize_test.h - the demo model quantised into a folder of the program's own, on a disk that has what room the test says. Of programs
 * that define _GNU_SOURCE. */
#ifndef SAC_QUANTIZE_TEST_H
#define SAC_QUANTIZE_TEST_H

#include "model.h"
#include "quantize.h"
#include "test.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEMO "models/demo"
static char folder[] = "/tmp/test_quantize.XXXXXX";

/* The disk of these tests: it stands in for the library's. */
static uint64_t bytes_free = (uint64_t)1 << 40;

int statvfs(const char *path, struct statvfs *fs) {
    struct stat st;
    *fs = (struct statvfs){.f_bsize = 1, .f_frsize = 1, .f_bavail = bytes_free, .f_bfree = bytes_free};
    return stat(path, &st);
}

static inline int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static inline int remove_folder(void **state) {
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

static const char *at(const char *name) {
    static char paths[16][300];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void shell(const char *format, const char *a, const char *b) {
    char line[900];
    snprintf(line, sizeof line, format, a, b);
    assert_int_equal(system(line), 0);
}

/* What was planned, and at which byte a run gives up as if it were killed. */
typedef struct watch {
    sac_quantize_plan plan;
    int n_planned;
} watch;

static inline void planned(void *ctx, const sac_quantize_plan *plan) {
    watch *w = ctx;
    w->plan = *plan;
    w->n_planned++;
}

static inline sac_status quantize(const char *in, const char *out, const char *format, watch *w, sac_error *err) {
    const sac_quantize_options o = {.format = format, .n_threads = 2, .planned = planned, .ctx = w};
    *w = (watch){0};
    return sac_quantize(in, out, &o, err);
}

static inline void open_model(sac_loaded_model *m, const char *path, const char *weights) {
    sac_error err;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = weights};
    assert_ok(sac_loaded_model_open_with(m, path, &o, &err), err);
}

static inline uint64_t size_of(const char *path) {
    char line[400];
    snprintf(line, sizeof line, "find %s -type f -printf '%%s\\n' | awk '{n += $1} END {print n}'", path);
    FILE *f = popen(line, "r");
    unsigned long long n = 0;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu", &n), 1);
    pclose(f);
    return n;
}

/* A copy of the demo model in which some bytes of a tensor are others. */
static inline void damage(const char *to, const char *tensor, const void *bytes, size_t n_bytes) {
    sac_loaded_model m;
    shell("cp -r " DEMO " %s%s", to, "");
    open_model(&m, to, NULL);
    for (int i = 0; i < m.n_tensors; i++) {
        if (!strstr(m.tensors[i].name, tensor)) continue;
        for (int shard = 1; shard <= 3; shard++) { /* where its first bytes are */
            char path[400];
            snprintf(path, sizeof path, "%s/model-0000%d-of-00003.safetensors", to, shard);
            FILE *f = fopen(path, "r+b");
            assert_non_null(f);
            fseek(f, 0, SEEK_END);
            const long size = ftell(f);
            uint8_t *all = malloc((size_t)size);
            rewind(f);
            assert_int_equal(fread(all, 1, (size_t)size, f), size);
            uint8_t *found = memmem(all, (size_t)size, m.tensors[i].tensor.data, 64);
            if (found) {
                fseek(f, found - all, SEEK_SET);
                fwrite(bytes, 1, n_bytes, f);
            }
            free(all);
            fclose(f);
        }
        break;
    }
    sac_loaded_model_free(&m);
}

#endif
