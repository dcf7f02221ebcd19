#define _GNU_SOURCE
#include "eval_bench.h"
#include "eval_row.h"
#include "eval_table.h"
#include "hash.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const eval_bench eval_bench_videomme = {
    .name = "videomme", .title = "Video-MME", .fields = "video_id,duration,domain,sub_category"};

#define DECLARE(set) extern const eval_bench eval_bench_##set;
SAC_EVAL_SETS(DECLARE)

#define ADDRESS(set) &eval_bench_##set,
static const eval_bench *const benches[] = {&eval_bench_videomme, SAC_EVAL_SETS(ADDRESS)};

const eval_bench *eval_bench_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(benches); i++)
        if (!strcmp(benches[i]->name, name)) return benches[i];
    return NULL;
}

/* ---------------------------------------------------------------- recognising */

/* The first row in one of a benchmark's places (eval_bench.within); NULL = nothing is there. */
static const json_t *row_within(const char *place, size_t n, const json_t *root) {
    const json_t *first = json_object_iter_value(json_object_iter((json_t *)root));
    if (n == 1 && *place == '*') return json_is_object(first) ? first : NULL;
    if (n == 2 && *place == '*') {
        const json_t *list = json_object_iter_value(json_object_iter((json_t *)first));
        return json_is_array(list) ? json_array_get(list, 0) : NULL;
    }
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)n, place);
    return json_array_get(json_object_get(root, name), 0);
}

/* The first row where this benchmark has its rows. */
static const json_t *first_row(const eval_bench *b, const json_t *root) {
    if (json_is_array(root)) return json_array_get(root, 0);
    for (const char *place = b->within; place && *place;) {
        size_t n = strcspn(place, "|");
        const json_t *row = row_within(place, n, root);
        if (row) return row;
        place += n + (place[n] == '|');
    }
    return root; /* JSONL of one line */
}

/* How many of the fields the row has, less how many it lacks; *whole: all. "!" behind them: and no others. */
static int fit(const char *fields, size_t n_bytes, const json_t *row, bool *whole, char lacks[64]) {
    int have = 0, missing = 0;
    for (const char *p = fields, *end = fields + n_bytes; p < end;) {
        size_t n = strcspn(p, ",|");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        bool alone = *name == '!' && json_object_size(row) == (size_t)have;
        if (alone || json_object_get(row, name))
            have++;
        else if (!missing++)
            snprintf(lacks, 64, "%s", name);
        p += n + 1;
    }
    *whole = !missing;
    return have - missing;
}

const eval_bench *eval_bench_recognise(const json_t *root, const eval_bench **nearest, char lacks[64]) {
    const eval_bench *best = NULL, *near = NULL;
    int most = 0, closest = -1000;
    for (size_t i = 0; i < SAC_COUNT(benches); i++) {
        const json_t *row = first_row(benches[i], root);
        for (const char *f = benches[i]->fields; *f;) {
            char missing[64] = "";
            bool whole;
            size_t n = strcspn(f, "|");
            int score = fit(f, n, row, &whole, missing);
            if (whole && score > most) best = benches[i], most = score;
            if (!whole && score > closest) {
                near = benches[i], closest = score;
                memcpy(lacks, missing, 64);
            }
            f += n + (f[n] == '|');
        }
    }
    if (nearest) *nearest = near;
    return best;
}

/* ---------------------------------------------------------------- reading */

static sac_status read_list(eval_reader *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        r->number = i + 1;
        if (!json_is_object(row)) return eval_row_refuse(r, r->bench->title, "expected an object");
        SAC_TRY(r->bench->read(r, row));
    }
    return SAC_OK;
}

static sac_status read_members(eval_reader *r, const json_t *root) {
    const char *key;
    json_t *row;
    json_object_foreach((json_t *)root, key, row) {
        r->key = key;
        r->number++;
        if (!json_is_object(row)) return eval_row_refuse(r, r->bench->title, "expected an object");
        SAC_TRY(r->bench->read(r, row));
    }
    return SAC_OK;
}

static sac_status read_root(eval_reader *r) {
    const json_t *root = r->root;
    const char *within = r->bench->within;
    if (r->bench->read_all) return r->bench->read_all(r, root);
    if (json_is_array(root)) return read_list(r, root);
    if (within && json_is_array(json_object_get(root, within)))
        return read_list(r, json_object_get(root, within));
    if (within && !strcmp(within, "*") && first_row(r->bench, root) != root) return read_members(r, root);
    r->number = 1;
    return r->bench->read(r, root);
}

static sac_status choose(const json_t *root, const char *file, const char *name, const eval_bench **out,
                         sac_error *err) {
    const eval_bench *nearest;
    char lacks[64] = "";
    if (name) {
        *out = eval_bench_find(name);
        return *out ? SAC_OK : sac_fail(err, SAC_BAD_ARGUMENT, "--benchmark: '%.40s' is not known", name);
    }
    *out = eval_bench_recognise(root, &nearest, lacks);
    if (*out) return SAC_OK;
    if (!json_array_size(root) && !json_object_size(root))
        return sac_fail(err, SAC_BAD_FILE, "%s: holds no question", file);
    return sac_fail(err, SAC_BAD_FILE,
                    "%s: fits no set that is known; the nearest is %s, whose rows have '%s' too (--benchmark "
                    "NAME says which it is)",
                    file, nearest->title, lacks);
}

static char *stem_of(const char *file) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
    return dot && dot != name ? strndup(name, (size_t)(dot - name)) : strdup(name);
}

/* Video-MME has a parser of its own: nothing is read here. */
static sac_status add_file(eval_set *set, json_t *root, const char *file, const char *folder,
                           const char *name, sac_error *err) {
    const eval_bench *b;
    SAC_TRY(choose(root, file, name, &b, err));
    if (set->bench && set->bench != b)
        return sac_fail(err, SAC_BAD_FILE, "%s: is of %s, files before it of %s", file, b->title,
                        set->bench->title);
    set->bench = b;
    if (b == &eval_bench_videomme) return SAC_OK;
    char *stem = stem_of(file);
    if (!stem || json_array_append(set->json, root)) {
        free(stem);
        return sac_fail_no_memory(err);
    }
    const char *kept = NULL;
    json_t *text = json_string(stem);
    if (text && !json_array_append_new(set->json, text)) kept = json_string_value(text);
    free(stem);
    eval_reader r = {
        .set = set, .bench = b, .file = file, .stem = kept, .folder = folder, .root = root, .err = err};
    if (!kept) return sac_fail_no_memory(err);
    return read_root(&r);
}

static sac_status begin(eval_set *set, sac_error *err) {
    *set = (eval_set){.json = json_array(), .video_index = json_object(), .question_index = json_object()};
    return set->json && set->video_index && set->question_index ? SAC_OK : sac_fail_no_memory(err);
}

static sac_status add_text(eval_set *set, const char *text, size_t n_bytes, const char *file,
                           const char *folder, const char *name, sac_error *err) {
    json_t *root;
    SAC_TRY(eval_table_parse(&root, text, n_bytes, file, err));
    set->fingerprint = sac_hash_quick(set->fingerprint, text, n_bytes);
    sac_status st = add_file(set, root, file, folder, name, err);
    json_decref(root);
    if (st != SAC_OK || set->bench != &eval_bench_videomme) return st;
    eval_set_free(set);
    return eval_set_parse(set, text, n_bytes, file, err);
}

static sac_status check_any(const eval_set *set, const char *path, sac_error *err) {
    return set->n_questions ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "%s: holds no question", path);
}

sac_status eval_bench_parse(eval_set *set, const char *text, size_t n_bytes, const char *file,
                            const char *folder, const char *name, sac_error *err) {
    SAC_TRY(begin(set, err));
    SAC_TRY(add_text(set, text, n_bytes, file, folder, name, err));
    return check_any(set, file, err);
}

static sac_status read_file(eval_set *set, const char *path, const char *folder, const char *name,
                            sac_error *err) {
    char *text;
    size_t n;
    SAC_TRY(eval_table_bytes(&text, &n, path, EVAL_TABLE_MAX_BYTES, err));
    sac_status st = add_text(set, text, n, path, folder, name, err);
    free(text);
    return st;
}

static sac_status read_named(eval_set *set, const char *folder, const char *file, const char *name,
                             sac_error *err) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, file) < 0) return sac_fail_no_memory(err);
    sac_status st = read_file(set, path, folder, name, err);
    free(path);
    return st;
}

/* What readers look for themselves (EgoSchema's answers), or need not see (ScienceQA's splits). */
static bool is_beside(const char *name) {
    static const char annotations[] = "_annotations.json"; /* VQAv2's answers */
    size_t n = strlen(name), k = sizeof annotations - 1;
    return !strcmp(name, "subset_answers.json") || !strcmp(name, "pid_splits.json") ||
           (n > k && !strcmp(name + n - k, annotations));
}

static int is_table(const struct dirent *d) {
    static const char *const endings[] = {".json", ".jsonl", ".csv", ".tsv"};
    const char *dot = strrchr(d->d_name, '.');
    if (is_beside(d->d_name)) return 0;
    for (size_t i = 0; dot && dot != d->d_name && i < SAC_COUNT(endings); i++)
        if (!strcmp(dot, endings[i])) return 1;
    return 0;
}

static sac_status read_folder(eval_set *set, const char *folder, const char *name, sac_error *err) {
    struct dirent **list;
    int n = scandir(folder, &list, is_table, alphasort);
    if (n < 0) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", folder, strerror(errno));
    sac_status st =
        n ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "%s: no .json, .jsonl, .csv or .tsv is in it", folder);
    for (int i = 0; i < n; i++) {
        if (st == SAC_OK) st = read_named(set, folder, list[i]->d_name, name, err);
        if (st == SAC_OK && !set->bench && n > 1)
            st = sac_fail(err, SAC_BAD_FILE, "%s: Video-MME is one file", folder);
        free(list[i]);
    }
    free(list);
    return st;
}

sac_status eval_bench_read(eval_set *set, const char *path, const char *name, sac_error *err) {
    struct stat s;
    *set = (eval_set){0};
    if (stat(path, &s)) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    SAC_TRY(begin(set, err));
    const char *slash = strrchr(path, '/');
    char *folder = S_ISDIR(s.st_mode) ? strdup(path)
                   : slash            ? strndup(path, (size_t)(slash - path) + 1)
                                      : strdup(".");
    sac_status st = !folder              ? sac_fail_no_memory(err)
                    : S_ISDIR(s.st_mode) ? read_folder(set, path, name, err)
                                         : read_file(set, path, folder, name, err);
    free(folder);
    return st == SAC_OK ? check_any(set, path, err) : st;
}
