#define _GNU_SOURCE
#include "needle_table.h"
#include "compare_row.h"
#include "interrupt.h"
#include "journal.h"
#include "report.h"
#include "run_files.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lines */

/* All that the answers depend on. */
static json_t *make_header(const needle_table *t, sac_error *err) {
    char model[17], set[17];
    if (run_files_fingerprint(t->r->model_path, model, err) != SAC_OK) return NULL;
    snprintf(set, sizeof set, "%016" PRIx64, t->set.fingerprint);
    json_t *j =
        json_pack("{s:i, s:s, s:s, s:{s:s}, s:s, s:o?, s:o}", "saccade_needles", 1, "version", SAC_VERSION,
                  "set", set, "model", "fingerprint", model, "machine", t->r->info.cpu, "system",
                  t->s->system ? report_text(t->s->system) : NULL, "settings", report_settings(t->r));
    if (!j) sac_fail_no_memory(err);
    return j;
}

static sac_status open_line(needle_table *t, needle_line *l, sac_error *err) {
    if (!(l->records = calloc(t->set.n_rows, sizeof *l->records))) return sac_fail_no_memory(err);
    if (l->given)
        compare_row_config(l->given, t->r, &l->config);
    else
        l->config = t->r->session_config;
    t->r->session_config = l->config;
    l->refused = run_create_session(t->r, &l->why);
    if (l->refused == SAC_OK) {
        sac_session_methods(t->r->session, &l->methods);
        l->header = make_header(t, err);
    }
    run_free_session(t->r);
    return l->refused != SAC_OK || l->header ? SAC_OK : err->status;
}

static sac_status open_lines(needle_table *t, const method_list *list, sac_error *err) {
    t->n_lines = list ? list->n : 1;
    if (!(t->lines = calloc(t->n_lines, sizeof *t->lines))) return sac_fail_no_memory(err);
    for (size_t i = 0; i < t->n_lines; i++) {
        needle_line *l = &t->lines[i];
        *l = (needle_line){.name = list ? list->lines[i].name : "as given",
                           .given = list ? &list->lines[i] : NULL};
        SAC_TRY(open_line(t, l, err));
        if (i || l->refused == SAC_OK) continue;
        *err = l->why; /* dense, or the only one */
        return l->refused;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- a line's journal */

typedef struct resume {
    const needle_table *t;
    needle_line *l;
    const char *path;
} resume;

static sac_status on_line(void *ctx, const journal_line *line, sac_error *err) {
    resume *k = ctx;
    char what[200];
    if (line->number == 1)
        return !journal_header_differs(line->json, k->l->header, (const char *const[]){NULL}, what,
                                       sizeof what)
                   ? SAC_OK
                   : sac_fail(err, SAC_BAD_CONFIG,
                              "%s: begun with other settings: %s; give these, or another --out", k->path,
                              what);
    const char *id = json_string_value(json_object_get(line->json, "id"));
    size_t at = id ? needle_set_find(&k->t->set, id) : SIZE_MAX;
    if (at >= k->t->set.n_rows) return SAC_OK; /* beyond --limit, which was larger */
    json_decref(k->l->records[at]);
    k->l->records[at] =
        json_object_get(line->json, "error") && k->t->s->retry ? NULL : json_incref(line->json);
    return SAC_OK;
}

static sac_status open_journal(const needle_table *t, needle_line *l, journal_file *j, sac_error *err) {
    interrupt_goes_on();
    static const method_line as_given = {0};
    char *name = method_line_file(l->given ? l->given : &as_given),
         *folder = run_files_path(t->s->out, "journals"), *path = NULL;
    sac_status st = name && folder && asprintf(&path, "%s/%s.jsonl", folder, name) >= 0
                        ? SAC_OK
                        : sac_fail_no_memory(err);
    if (st == SAC_OK) st = run_files_make_folder(t->s->out, err);
    if (st == SAC_OK) st = run_files_make_folder(folder, err);
    resume k = {t, l, path};
    if (st == SAC_OK) st = journal_open(j, path, JOURNAL_WRITE, on_line, &k, err);
    if (st == SAC_OK && !j->n_lines) st = journal_write(j, l->header, 17, NULL, NULL, err);
    if (st == SAC_OK) run_files_sync_folder(folder);
    if (st == SAC_OK) run_files_sync_folder(t->s->out);
    free(name);
    free(folder);
    free(path);
    return st;
}

/* ---------------------------------------------------------------- asking */

static sac_status ask_rows(needle_table *t, needle_line *l, journal_file *j, sac_error *err) {
    sac_status st = SAC_OK;
    for (size_t i = 0; i < t->set.n_rows && st == SAC_OK; i++) {
        if (l->records[i]) {
            t->done++;
            continue;
        }
        if (!t->r->session) st = run_create_session(t->r, err);
        if (st == SAC_OK) st = needle_ask(t->r, &t->set.rows[i], t->folder, &l->records[i], err);
        if (st == SAC_OK && j->path) st = journal_write(j, l->records[i], 9, NULL, NULL, err);
        progress_update(&t->line, "questions", ++t->done, t->todo);
    }
    return st;
}

static sac_status ask_line(needle_table *t, needle_line *l, sac_error *err) {
    journal_file j = {0};
    sac_error at_close;
    sac_status st = t->s->out ? open_journal(t, l, &j, err) : SAC_OK;
    snprintf(t->line.note, sizeof t->line.note, "%s", l->name);
    progress_update(&t->line, "questions", t->done, t->todo);
    t->r->session_config = l->config;
    if (st == SAC_OK) st = ask_rows(t, l, &j, err);
    if (t->r->session) run_free_session(t->r);
    if (journal_close(&j, &at_close) != SAC_OK && st == SAC_OK) {
        *err = at_close;
        st = at_close.status;
    }
    return st;
}

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

sac_status needle_table_ask(needle_table *t, const settings *s, run *r, const char *set_path,
                            const method_list *list, sac_error *err) {
    *t = (needle_table){
        .s = s, .set_path = set_path, .r = r, .folder = s->videos ? strdup(s->videos) : folder_of(set_path)};
    if (!t->folder) return sac_fail_no_memory(err);
    SAC_TRY(needle_set_read(&t->set, set_path, (size_t)s->limit, err));
    if (!settings_given(s, offsetof(settings, temperature))) r->sampling.temperature = 0;
    if (!settings_given(s, offsetof(settings, max_tokens))) r->sampling.max_tokens = 128;
    SAC_TRY(open_lines(t, list, err));
    progress_init(&t->line, s->quiet);
    bool was_on = r->progress.on;
    r->progress.on = false; /* one line: that of the set */
    sac_status st = SAC_OK;
    for (size_t i = 0; i < t->n_lines; i++)
        t->todo += t->lines[i].refused == SAC_OK ? (int64_t)t->set.n_rows : 0;
    for (size_t i = 0; i < t->n_lines && st == SAC_OK; i++)
        if (t->lines[i].refused == SAC_OK) st = ask_line(t, &t->lines[i], err);
    progress_clear(&t->line);
    r->progress.on = was_on;
    return st;
}

void needle_table_free(needle_table *t) {
    for (size_t i = 0; t->lines && i < t->n_lines; i++) {
        for (size_t k = 0; t->lines[i].records && k < t->set.n_rows; k++) json_decref(t->lines[i].records[k]);
        free(t->lines[i].records);
        json_decref(t->lines[i].header);
    }
    free(t->lines);
    free(t->folder);
    needle_set_free(&t->set);
    *t = (needle_table){0};
}
