#include "model_path.h"

#include "file_map.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* "llava-hf/llava-1.5-7b-hf": two names as the hub allows them. */
static bool is_hub_name(const char *path) {
    int n_slashes = 0;
    for (const char *p = path; *p; p++) {
        n_slashes += *p == '/';
        if (*p != '/' && !isalnum((unsigned char)*p) && !strchr("-_.", *p)) return false;
    }
    const char *slash = strchr(path, '/');
    return n_slashes == 1 && slash[1] && isalnum((unsigned char)path[0]) && !ends_in(path, ".gguf");
}

/* The snapshot that refs/main of a cache folder names; *there is false for any other folder. */
static sac_status follow_snapshot(char found[SAC_MODEL_PATH_BYTES], const char *folder, bool *there,
                                  sac_error *err) {
    char path[SAC_MODEL_PATH_BYTES], name[16 + 128];
    char *revision;
    size_t n_bytes;
    *there = false;
    SAC_TRY(sac_path_join(path, sizeof path, folder, "refs/main", err));
    if (!sac_file_exists(path)) return SAC_OK;
    SAC_TRY(sac_file_read(&revision, &n_bytes, path, 1 << 10, err));
    size_t n = strcspn(revision, "\r\n");
    bool is_plain = n > 0 && n <= 128 && strspn(revision, "0123456789abcdef") == n;
    snprintf(name, sizeof name, "snapshots/%.*s", (int)(is_plain ? n : 0), revision);
    free(revision);
    if (!is_plain)
        return sac_fail(err, SAC_BAD_FILE, "%s: not the name of a snapshot: fetch the model again", path);
    SAC_TRY(sac_path_join(found, SAC_MODEL_PATH_BYTES, folder, name, err));
    *there = true;
    return SAC_OK;
}

static sac_status find_folder(char found[SAC_MODEL_PATH_BYTES], const char *path, sac_error *err) {
    char config[SAC_MODEL_PATH_BYTES];
    bool is_cache = false;
    SAC_TRY(sac_path_join(config, sizeof config, path, "config.json", err));
    if (!sac_file_exists(config)) SAC_TRY(follow_snapshot(found, path, &is_cache, err));
    if (!is_cache) return SAC_OK;
    SAC_TRY(sac_path_join(config, sizeof config, found, "config.json", err));
    if (sac_file_exists(config)) return SAC_OK;
    return sac_fail(err, SAC_NOT_FOUND,
                    "%s: no config.json there: download incomplete, fetch the model again", found);
}

sac_status sac_model_path_find(char found[SAC_MODEL_PATH_BYTES], bool *is_folder, const char *path,
                               sac_error *err) {
    if (strlen(path) >= SAC_MODEL_PATH_BYTES)
        return sac_fail(err, SAC_NOT_FOUND,
                        "the name of the model is too long: give a folder or a .gguf file");
    strcpy(found, path);
    *is_folder = sac_folder_exists(path);
    if (*is_folder) return find_folder(found, path, err);
    if (sac_file_exists(path)) {
        static const char *const parts[] = {".safetensors", ".json",  ".bin",  ".pt",
                                            ".pth",         ".jinja", ".model"};
        for (size_t i = 0; i < SAC_COUNT(parts); i++)
            if (ends_in(path, parts[i]))
                return sac_fail(err, SAC_BAD_FILE,
                                "%s: one file of a checkpoint; give the folder that it is in", path);
        return SAC_OK;
    }
    if (is_hub_name(path))
        return sac_fail(
            err, SAC_NOT_FOUND,
            "%s: no such folder; if it is a model of the Hugging Face hub, fetch it with \"hf download %s "
            "--local-dir %s\" and give that folder",
            path, path, strchr(path, '/') + 1);
    return sac_fail(err, SAC_NOT_FOUND,
                    "%s: no such file or folder; give a Hugging Face folder or a .gguf file", path);
}
