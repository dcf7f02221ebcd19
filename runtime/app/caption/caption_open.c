/* caption_open.c - what the words of a command line are: which kind of input, and its sources. */
#define _GNU_SOURCE
#include "caption_input.h"
#include "input.h"
#include "status.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static sac_status add_source(caption_input *in, const char *path, sac_error *err) {
    caption_source *sources = realloc(in->sources, (in->n_sources + 1) * sizeof *sources);
    if (!sources) return sac_fail_no_memory(err);
    in->sources = sources;
    char *copy = strdup(path);
    if (!copy) return sac_fail_no_memory(err);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/';) copy[--n] = 0;
    const char *slash = strrchr(copy, '/');
    sources[in->n_sources++] = (caption_source){.path = copy, .name = slash && slash[1] ? slash + 1 : copy};
    return SAC_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcasecmp(text + n - m, end);
}

static bool is_tar_name(const char *path) {
    return ends_with(path, ".tar") || ends_with(path, ".tar.gz") || ends_with(path, ".tgz") ||
           ends_with(path, ".tar.zst");
}

/* "name-{000..146}.tar", as WebDataset names shards; the numbers have as many digits as are written. */
static sac_status add_tars(caption_input *in, const char *path, sac_error *err) {
    enum { SHARDS_MAX = 1000000 };
    int head, digits, tail, to_digits;
    unsigned long from, to;
    const char *open = strchr(path, '{');
    if (!open) return add_source(in, path, err);
    if (sscanf(open, "{%n%lu%n..%n%lu%n}", &head, &from, &digits, &tail, &to, &to_digits) != 2 ||
        open[to_digits] != '}' || to < from || to - from >= SHARDS_MAX || strchr(open + to_digits, '{'))
        return sac_fail(err, SAC_BAD_ARGUMENT, "%s: expected one {FIRST..LAST}, like {000..146}", path);
    int width = digits - head > 20 ? 20 : digits - head;
    for (unsigned long i = from; i <= to; i++) {
        char *name;
        if (asprintf(&name, "%.*s%0*lu%s", (int)(open - path), path, width, i, open + to_digits + 1) < 0)
            return sac_fail_no_memory(err);
        sac_status st = add_source(in, name, err);
        free(name);
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

static sac_status check_tars(const caption_input *in, sac_error *err) {
    for (size_t i = 0; i < in->n_sources; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(in->sources[i].name, in->sources[k].name))
                return sac_fail(err, SAC_BAD_ARGUMENT, "%s and %s have the same name: results go by it",
                                in->sources[k].path, in->sources[i].path);
    return SAC_OK;
}

/* A batch file says so in its first line. */
static sac_status kind_of_lines(const char *path, caption_kind *kind, sac_error *err) {
    FILE *f;
    SAC_TRY(input_open(&f, path, false, err));
    char start[4096];
    size_t n = fread(start, 1, sizeof start - 1, f);
    fclose(f);
    start[n] = 0;
    start[strcspn(start, "\n")] = 0;
    *kind = strstr(start, "\"custom_id\"") ? CAPTION_REQUESTS : CAPTION_MANIFEST;
    return SAC_OK;
}

/* ---------------------------------------------------------------- words */

typedef struct words {
    caption_file *files;
    size_t n;
} words;

static sac_status add_word(words *w, const char *path, bool is_met, sac_error *err) {
    caption_file *files = realloc(w->files, (w->n + 1) * sizeof *files);
    if (!files) return sac_fail_no_memory(err);
    w->files = files;
    files[w->n].is_met = is_met;
    files[w->n].path = strdup(path);
    return files[w->n++].path ? SAC_OK : sac_fail_no_memory(err);
}

static void free_words(words *w) {
    for (size_t i = 0; i < w->n; i++) free(w->files[i].path);
    free(w->files);
    *w = (words){0};
}

/* A shell leaves a pattern that is quoted, or that meets nothing, as it is. A file of that very name comes first. */
static sac_status expand(words *w, const char *word, sac_error *err) {
    struct stat info;
    glob_t met = {0};
    if (!strpbrk(word, "*?[") || !lstat(word, &info)) return add_word(w, word, false, err);
    int got = glob(word, 0, NULL, &met);
    sac_status st = got == GLOB_NOSPACE   ? sac_fail_no_memory(err)
                    : got == GLOB_NOMATCH ? sac_fail(err, SAC_NOT_FOUND, "%s: no file has such a name", word)
                    : got                 ? sac_fail(err, SAC_IO, "%s: a folder cannot be read", word)
                                          : SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < met.gl_pathc; i++) st = add_word(w, met.gl_pathv[i], true, err);
    globfree(&met);
    return st;
}

/* ---------------------------------------------------------------- kinds */

static bool is_folder(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static bool is_media(const char *path) {
    return caption_media_of_path(path) != CAPTION_NO_MEDIA;
}

static sac_status one_input(caption_input *in, const char *path, const char *column, sac_error *err) {
    struct stat st;
    if (stat(path, &st)) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    bool tabs = ends_with(path, ".tsv");
    if (S_ISDIR(st.st_mode))
        in->kind = CAPTION_FOLDER;
    else if (ends_with(path, ".csv") || tabs)
        in->kind = CAPTION_CSV;
    else if (ends_with(path, ".txt") || ends_with(path, ".list") || ends_with(path, ".lst"))
        in->kind = CAPTION_LIST;
    else if (ends_with(path, ".jsonl") || ends_with(path, ".ndjson"))
        SAC_TRY(kind_of_lines(path, &in->kind, err));
    else
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "%s: expected a folder, a .jsonl, .csv or .txt file, tar shards (.tar, .tar.gz, "
                        ".tgz, .tar.zst), or "
                        "pictures and videos",
                        path);
    SAC_TRY(add_source(in, path, err));
    in->sources[0].separator = tabs ? '\t' : ',';
    in->sources[0].column = column;
    return SAC_OK;
}

static sac_status tar_inputs(caption_input *in, const words *w, sac_error *err) {
    in->kind = CAPTION_TAR;
    for (size_t i = 0; i < w->n; i++) {
        if (!is_tar_name(w->files[i].path))
            return sac_fail(err, SAC_BAD_ARGUMENT, "%s: not a tar, as '%.60s' is", w->files[i].path,
                            w->files[0].path);
        SAC_TRY(add_tars(in, w->files[i].path, err));
    }
    return check_tars(in, err);
}

/* Takes the words. */
static sac_status file_inputs(caption_input *in, words *w, sac_error *err) {
    for (size_t i = 0; i < w->n; i++) {
        const char *path = w->files[i].path;
        if (w->files[i].is_met) continue;
        if (is_folder(path) || !is_media(path))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "one folder, one .jsonl, .csv or .txt file, tar shards, or pictures and videos "
                            "are expected, found "
                            "'%.60s' and '%.60s'",
                            path, w->files[i ? 0 : 1].path);
    }
    struct stat info;
    bool any = false; /* one that is missing is an error item */
    for (size_t i = 0; i < w->n && !any; i++) any = !stat(w->files[i].path, &info);
    if (!any)
        return sac_fail(err, SAC_NOT_FOUND, "%s: no such file%s", w->files[0].path,
                        w->n > 1 ? ", nor any other" : "");
    in->kind = CAPTION_FILES;
    SAC_TRY(add_source(in, "files", err));
    in->sources[0].files = w->files;
    in->sources[0].n_files = w->n;
    *w = (words){0};
    return SAC_OK;
}

static sac_status open_words(caption_input *in, words *w, const char *column, sac_error *err) {
    const char *first = w->files[0].path;
    for (size_t i = 0; i < w->n; i++)
        if (ends_with(w->files[i].path, ".parquet"))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "%s: Parquet is read by saccade-parquet (of Saccade's Python package, with "
                            "pyarrow), which runs "
                            "this command",
                            w->files[i].path);
    if (is_tar_name(first)) return tar_inputs(in, w, err);
    return w->n > 1 || (is_media(first) && !is_folder(first)) ? file_inputs(in, w, err)
                                                              : one_input(in, first, column, err);
}

sac_status caption_input_open(caption_input *in, char **paths, int n_paths, const char *column,
                              sac_error *err) {
    *in = (caption_input){0};
    words w = {0};
    sac_status st = SAC_OK;
    if (n_paths < 1)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "no input: a folder, a .jsonl, .csv or .txt file, tar shards, or pictures and videos");
    for (int i = 0; i < n_paths && st == SAC_OK; i++) st = expand(&w, paths[i], err);
    if (st == SAC_OK) st = open_words(in, &w, column, err);
    free_words(&w);
    if (st == SAC_OK && column && in->kind != CAPTION_CSV)
        st = sac_fail(err, SAC_BAD_ARGUMENT, "--column: only a CSV file has columns");
    return st;
}
