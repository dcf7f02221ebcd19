/* mmproj_find.c - which file is the vision half of a GGUF language model: the one that is asked for, or the one that lies
 * beside it under a name that llama.cpp's converter gives, mmproj*.gguf. */
#define _DEFAULT_SOURCE
#include "file_map.h"
#include "model_load.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SHOWN = 3 };

static bool is_mmproj(const char *name) {
    static const char begin[] = "mmproj", end[] = ".gguf";
    const size_t n = strlen(name), n_end = sizeof end - 1;
    return strncmp(name, begin, sizeof begin - 1) == 0 && n > n_end && strcmp(name + n - n_end, end) == 0;
}

/* The folder that a file is in. */
static void folder_of(const char *path, char folder[SAC_MODEL_PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + (slash == path) : 0;
    snprintf(folder, SAC_MODEL_PATH_BYTES, "%.*s", (int)n, path);
    if (!n) strcpy(folder, ".");
}

/* Candidates are kept in the order of their names, whatever order the folder has. */
typedef struct found {
    char name[MOST_SHOWN][256];
    int n;
} found;

static void add(found *f, const char *name) {
    char here[256];
    snprintf(here, sizeof here, "%.255s", name);
    for (int i = 0; i < f->n && i < MOST_SHOWN; i++) {
        if (strcmp(f->name[i], here) < 0) continue;
        char next[256];
        strcpy(next, f->name[i]);
        strcpy(f->name[i], here);
        strcpy(here, next);
    }
    if (f->n < MOST_SHOWN) strcpy(f->name[f->n], here);
    f->n++;
}

static sac_status find_beside(const char *model, char path[SAC_MODEL_PATH_BYTES], sac_error *err) {
    char folder[SAC_MODEL_PATH_BYTES];
    const char *slash = strrchr(model, '/'), *own = slash ? slash + 1 : model;
    found f = {.n = 0};
    folder_of(model, folder);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_mmproj(e->d_name) && strcmp(e->d_name, own) != 0) add(&f, e->d_name);
    if (d) closedir(d);
    if (f.n == 0) return SAC_OK;
    if (f.n > 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "%d vision halves lie beside the model (%.60s, %.60s%s%.60s%s): choose one with "
                        "--mmproj FILE, or "
                        "none with --mmproj none",
                        f.n, f.name[0], f.name[1], f.n > 2 ? ", " : "", f.n > 2 ? f.name[2] : "",
                        f.n > 3 ? ", ..." : "");
    if (!slash) { /* as the model is named */
        snprintf(path, SAC_MODEL_PATH_BYTES, "%s", f.name[0]);
        return SAC_OK;
    }
    return sac_path_join(path, SAC_MODEL_PATH_BYTES, folder, f.name[0], err);
}

sac_status sac_load_find_mmproj(const sac_load_context *l, char path[SAC_MODEL_PATH_BYTES], sac_error *err) {
    const char *asked = l->options->mmproj;
    path[0] = 0;
    if (!asked) return find_beside(l->path, path, err);
    if (strcmp(asked, "none") == 0) return SAC_OK;
    if (strlen(asked) >= SAC_MODEL_PATH_BYTES || !*asked)
        return sac_fail(err, SAC_NOT_FOUND, "--mmproj: give a .gguf file, or none");
    strcpy(path, asked);
    if (sac_file_exists(asked)) return SAC_OK;
    return sac_fail(err, SAC_NOT_FOUND, "--mmproj %.300s: no such file", asked);
}
