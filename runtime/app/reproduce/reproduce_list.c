#define _GNU_SOURCE
#include "reproduce_list.h"
#include "installed.h"
#include "output.h"
#include "report.h"
#include "reproduce_file.h"
#include "status.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* {"table": "zipvl:table1", "says", "model", "set"} or {"table", "lacks"}. */
static json_t *describe(const char *paper, size_t n_paper, const json_t *table) {
    static const char *const fields[] = {"says", "model", "set", "lacks"};
    const char *name = json_string_value(json_object_get(table, "name"));
    json_t *j = json_pack("{s:o}", "table", json_sprintf("%.*s:%s", (int)n_paper, paper, name ? name : "?"));
    for (size_t i = 0; j && i < SAC_COUNT(fields); i++) {
        const char *text = json_string_value(json_object_get(table, fields[i]));
        if (text) json_object_set_new(j, fields[i], report_text(text));
    }
    return j;
}

static sac_status add_file(json_t *list, const char *path, sac_error *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t i, n = strlen(name), ending = n > 5 && !strcmp(name + n - 5, ".yaml") ? 5 : 0;
    const json_t *table;
    json_t *file = reproduce_file_read(path, err);
    if (!file) return err->status;
    bool ok = true;
    json_array_foreach(json_object_get(file, "tables"), i, table) ok =
        ok && !json_array_append_new(list, describe(name, n - ending, table));
    json_decref(file);
    return ok ? SAC_OK : sac_fail_no_memory(err);
}

static int is_yaml(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".yaml");
}

static sac_status add_folder(json_t *list, const char *folder, sac_error *err) {
    struct dirent **found;
    int n = scandir(folder, &found, is_yaml, alphasort);
    if (n < 0) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", folder, strerror(errno));
    sac_status st = SAC_OK;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (st == SAC_OK && asprintf(&path, "%s/%s", folder, found[i]->d_name) < 0)
            st = sac_fail_no_memory(err);
        if (st == SAC_OK) st = add_file(list, path, err);
        free(path);
        free(found[i]);
    }
    free(found);
    return st;
}

static sac_status print(const json_t *list, sac_error *err) {
    size_t i;
    const json_t *t;
    json_array_foreach(list, i, t) {
        char *line;
        const char *lacks = json_string_value(json_object_get(t, "lacks"));
        const char *says = json_string_value(json_object_get(t, "says")),
                   *set = json_string_value(json_object_get(t, "set"));
        const char *model = json_string_value(json_object_get(t, "model"));
        int n = lacks ? asprintf(&line, "%-28s not yet: %s\n", json_string_value(json_object_get(t, "table")),
                                 lacks)
                      : asprintf(&line, "%-28s %s (%s; %s)\n", json_string_value(json_object_get(t, "table")),
                                 says ? says : "", model ? model : "?", set ? set : "?");
        if (n < 0) return sac_fail_no_memory(err);
        output_piece(line, (size_t)n);
        free(line);
    }
    return output_finish(err);
}

sac_status reproduce_list(const settings *s, char **words, int n_words, sac_error *err) {
    if (n_words > 1) return sac_fail(err, SAC_BAD_ARGUMENT, "--list takes no table, or one FILE.yaml");
    char own[4096];
    const char *folder = installed_find(own, sizeof own, "reproduce", SAC_REPRODUCE_DIR);
    if (!n_words && !folder)
        return sac_fail(err, SAC_NOT_FOUND,
                        "the papers' tables (share/saccade/reproduce) are not installed here; --list FILE.yaml names a file");
    json_t *list = json_array();
    sac_status st = !list     ? sac_fail_no_memory(err)
                    : n_words ? add_file(list, words[0], err)
                              : add_folder(list, folder, err);
    if (st == SAC_OK && s->json) return report_print(list, err);
    if (st == SAC_OK) st = print(list, err);
    json_decref(list);
    return st;
}
