/* chat_settings.c - see chat_settings.h. */
#define _GNU_SOURCE
#include "chat_settings.h"
#include "method_names.h"
#include "method_summary.h"
#include "report_value.h"
#include "status.h"
#include "suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const parts[] = {"prefill", "decode", "kv",
                                    "rope",    "reduce", "draft"}; /* of a method line */

static bool is_session_row(const setting *row) {
    return row->group && !strcmp(row->group, "session");
}

static bool can_be_set(const setting *row) {
    if (!(row->commands & COMMAND_ASK) || !row->group || row->kind == SETTING_MEDIA) return false;
    if (!strcmp(row->name, "set") || !strcmp(row->name, "vision-cache")) return false;
    return !strcmp(row->group, "sampling") || !strcmp(row->group, "video") || is_session_row(row);
}

const char *const *chat_set_names(void) {
    static const char *names[SETTINGS_MAX + 1];
    size_t n = 0;
    for (size_t i = 0; i < settings_n; i++)
        if (can_be_set(&settings_table[i])) names[n++] = settings_table[i].name;
    names[n] = NULL;
    return names;
}

const char *const *chat_method_names(void) {
    static const char *const names[] = {
        "decode=", "dense", "draft=", "kv=", "prefill=", "reduce=", "rope=", NULL};
    return names;
}

/* ---------------------------------------------------------------- taking over */

/* What the settings `next` make of the run, as run_open does; the session anew where a row of it may have changed. What was
 * before goes when all of that is there. */
static sac_status take_over(chat *h, settings *next, bool new_session, sac_error *err) {
    run *r = h->r;
    settings before = h->own;
    sac_controls *controls = NULL;
    sac_session *session = NULL;
    sac_session_config config_before = r->session_config;
    SAC_TRY(method_names_check(next, err));
    sac_status st = run_controls(&controls, next, r->model, err);
    h->own = *next; /* which run_make_session and the session's configuration point into */
    r->session_config = run_session_config(&h->own);
    r->session_config.guidance = controls && sac_controls_want_guidance(controls);
    new_session = new_session || r->session_config.guidance != config_before.guidance;
    if (st == SAC_OK && new_session) st = run_make_session(r, &session, err);
    if (st != SAC_OK) {
        sac_controls_free(controls);
        r->session_config = config_before;
        h->own = before;
        return st;
    }
    *next = before; /* the caller frees it */
    if (session) {
        run_free_session(r);
        r->session = session;
    }
    sac_controls_free(r->controls);
    r->sampling = run_sampling(&h->own, r->model);
    r->controls = controls;
    r->sampling.controls = controls;
    return SAC_OK;
}

/* ---------------------------------------------------------------- /set */

static void print_text_list(const text_list *list) {
    for (size_t i = 0; i < list->n; i++) fprintf(stderr, "%s%s", i ? ", " : "", list->items[i]);
}

/* What a row that nobody set comes to: the model's own or the default. */
static bool print_effective(const chat *h, const char *name) {
    const sac_sampling *p = &h->r->sampling;
    const struct {
        const char *name;
        double value;
    } all[] = {{"max-tokens", p->max_tokens}, {"temperature", p->temperature},
               {"top-k", p->top_k},           {"top-p", p->top_p},
               {"min-p", p->min_p},           {"repetition-penalty", p->repetition_penalty}};
    for (size_t i = 0; i < SAC_COUNT(all); i++)
        if (!strcmp(name, all[i].name)) return fprintf(stderr, "%g\n", all[i].value) > 0;
    return false;
}

static void print_row(const chat *h, const setting *row) {
    const void *field = (const char *)&h->own + row->offset;
    bool is_given = h->own.origin[row - settings_table] != ORIGIN_DEFAULT;
    fprintf(stderr, "  %c %-20s", is_given ? '*' : ' ', row->name);
    if (!is_given) {
        if (!print_effective(h, row->name)) fputs("-\n", stderr);
        return;
    }
    switch (row->kind) {
    case SETTING_FLAG: fputs(*(const bool *)field ? "true" : "false", stderr); break;
    case SETTING_INT: fprintf(stderr, "%lld", (long long)*(const int64_t *)field); break;
    case SETTING_SEED: fprintf(stderr, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case SETTING_REAL: fprintf(stderr, "%g", *(const double *)field); break;
    case SETTING_TEXT: fputs(*(char *const *)field, stderr); break;
    case SETTING_TEXTS: print_text_list(field); break;
    case SETTING_MEDIA: break;
    }
    fputc('\n', stderr);
}

static void print_settings(const chat *h) {
    for (size_t i = 0; i < settings_n; i++)
        if (can_be_set(&settings_table[i])) print_row(h, &settings_table[i]);
    if (h->own.set.n) {
        fprintf(stderr, "  * %-20s", "further");
        print_text_list(&h->own.set);
        fputc('\n', stderr);
    }
    fputs("/set NAME VALUE changes one (*: given), /set NAME takes the change back. Further\n"
          "names: those of generation_config.json and llama.cpp, as dry_multiplier 0.8\n",
          stderr);
}

static sac_status unknown_name(const char *name, sac_error *err) {
    suggestion near = {.typed = name};
    const char *const *names = chat_set_names();
    for (size_t i = 0; names[i]; i++) suggest_offer(&near, names[i]);
    return sac_fail(err, SAC_BAD_ARGUMENT, "\"%.60s\" cannot be set in a chat; %s%s%s/set lists what can",
                    name, near.best ? "did you mean " : "", near.best ? near.best : "",
                    near.best ? "? " : "");
}

/* A list has what is given now in the place of what was there. */
static sac_status set_row(settings *next, const setting *row, const char *value, sac_error *err) {
    if (row->kind == SETTING_TEXTS) next->origin[row - settings_table] = ORIGIN_DEFAULT;
    return settings_set(next, row, value, ORIGIN_COMMAND_LINE, err);
}

static sac_status drop_further(settings *next, const char *name, bool *had) {
    size_t n = strlen(name), kept = 0;
    text_list *list = &next->set;
    for (size_t i = 0; i < list->n; i++) {
        bool is_it = !strncmp(list->items[i], name, n) && list->items[i][n] == '=';
        if (is_it) free(list->items[i]);
        if (!is_it) list->items[kept++] = list->items[i];
        *had = *had || is_it;
    }
    list->n = kept;
    return SAC_OK;
}

/* A name of --set, which the library knows. */
static sac_status set_further(settings *next, const char *name, const char *value, sac_error *err) {
    bool had = false;
    char *line;
    SAC_TRY(drop_further(next, name, &had));
    if (!*value) return had ? SAC_OK : unknown_name(name, err);
    if (asprintf(&line, "%s=%s", name, value) < 0) return sac_fail_no_memory(err);
    sac_controls *c;
    sac_status st = sac_controls_create(&c, err);
    if (st == SAC_OK) {
        st = sac_controls_set(c, name, value, err);
        sac_controls_free(c);
    }
    if (st == SAC_UNSUPPORTED || (st != SAC_OK && strstr(err->text, "no setting")))
        st = unknown_name(name, err);
    if (st == SAC_OK) st = settings_set(next, settings_find("set"), line, ORIGIN_COMMAND_LINE, err);
    free(line);
    return st;
}

static sac_status change(chat *h, settings *next, const char *name, const char *value, bool *new_session,
                         sac_error *err) {
    const setting *row = settings_find(name);
    if (!row || !(row->commands & COMMAND_ASK)) return set_further(next, name, value, err);
    if (!can_be_set(row)) return unknown_name(name, err);
    *new_session = is_session_row(row);
    sac_status st = *value ? set_row(next, row, value, err) : settings_copy_row(next, h->given, row, err);
    return st == SAC_OK || st == SAC_NO_MEMORY ? st : sac_fail_prefix(err, st, "%s", row->name);
}

sac_status chat_set(chat *h, const char *typed, sac_error *err) {
    if (!*typed) {
        print_settings(h);
        return SAC_OK;
    }
    char name[80];
    typed += strspn(typed, "-"); /* "--temperature" */
    size_t n = strcspn(typed, " \t=");
    const char *value = typed + n + strspn(typed + n, " \t=");
    snprintf(name, sizeof name, "%.*s", (int)(n < 79 ? n : 79), typed);
    settings next;
    bool new_session = false;
    sac_status st = settings_copy(&next, &h->own, err);
    if (st == SAC_OK) st = change(h, &next, name, value, &new_session, err);
    if (st == SAC_OK) st = take_over(h, &next, new_session, err);
    settings_free(&next);
    if (st == SAC_OK && !h->own.quiet)
        fprintf(stderr, *value ? "[%s: %s]\n" : "[%s: as it was]\n", name, value);
    return st;
}

/* ---------------------------------------------------------------- /methods */

static void print_names(const char *what, const char *const *names) {
    size_t column = (size_t)fprintf(stderr, "  %-9s", what);
    for (size_t i = 0; names[i]; i++) {
        size_t n = strlen(names[i]) + 2;
        if (column + n > 79) column = (size_t)fprintf(stderr, "\n  %-9s", "") - 1;
        column += (size_t)fprintf(stderr, "%s%s", names[i], names[i + 1] ? ", " : "");
    }
    fputc('\n', stderr);
}

enum { MOST_NAMES = 32 };

static void print_methods(const chat *h) {
    static const char *const rope[] = {"model", "ntk:factor=F", NULL},
                             *const draft[] = {"none", "lookup", "model:PATH", "eagle3:PATH", "sparse", NULL};
    sac_session_method_lines l;
    sac_session_methods(h->r->session, &l);
    const char *const now[] = {l.prefill, l.decode, l.kv, l.rope, l.reduce, l.draft};
    fputs("In use:\n", stderr);
    for (size_t i = 0; i < SAC_COUNT(parts); i++) fprintf(stderr, "  %-9s%s\n", parts[i], now[i]);
    fputs("There are (docs/methods.md says what each does):\n", stderr);
    print_names("prefill", sac_prefill_names());
    print_names("decode", sac_decode_names());
    print_names("kv", sac_kv_names());
    print_names("rope", rope);
    const char *reduce[MOST_NAMES] = {"none"};
    const char *const *names = sac_reduce_names();
    for (size_t i = 0; names[i] && i + 2 < SAC_COUNT(reduce); i++) reduce[i + 1] = names[i];
    print_names("reduce", reduce);
    print_names("draft", draft);
    fputs("/methods prefill=zipvl kv=mixed takes others, /methods dense none.\n", stderr);
}

static const setting *part_row(const char *word, size_t n, sac_error *err) {
    char name[40];
    suggestion near = {.typed = name};
    snprintf(name, sizeof name, "%.*s", (int)(n < 39 ? n : 39), word);
    for (size_t i = 0; i < SAC_COUNT(parts); i++) {
        if (!strcmp(name, parts[i])) return settings_find(name);
        suggest_offer(&near, parts[i]);
    }
    suggest_offer(&near, "dense");
    sac_fail(err, SAC_BAD_ARGUMENT,
             "/methods %s: expected prefill=, decode=, kv=, rope=, reduce=, draft= or dense%s%s%s", name,
             near.best ? "; did you mean " : "", near.best ? near.best : "",
             !near.best                   ? ""
             : strcmp(near.best, "dense") ? "=?"
                                          : "?");
    return NULL;
}

static sac_status drop_methods(settings *next, sac_error *err) {
    settings none;
    settings_init(&none);
    for (size_t i = 0; i < SAC_COUNT(parts); i++)
        SAC_TRY(settings_copy_row(next, &none, settings_find(parts[i]), err));
    return SAC_OK;
}

static sac_status read_methods(settings *next, const char *typed, sac_error *err) {
    for (const char *p = typed; *p;) {
        size_t n = strcspn(p, " \t\n"), n_name = strcspn(p, "= \t\n");
        if (n == 5 && !strncmp(p, "dense", 5)) {
            SAC_TRY(drop_methods(next, err));
        } else {
            const setting *row = part_row(p, n_name, err);
            if (!row) return err->status;
            if (n <= n_name + 1)
                return sac_fail(err, SAC_BAD_ARGUMENT, "/methods %s: give %s=NAME", row->name, row->name);
            char *value = strndup(p + n_name + 1, n - n_name - 1);
            sac_status st =
                value ? settings_set(next, row, value, ORIGIN_COMMAND_LINE, err) : sac_fail_no_memory(err);
            free(value);
            SAC_TRY(st);
        }
        p += n + strspn(p + n, " \t\n");
    }
    return SAC_OK;
}

sac_status chat_methods(chat *h, const char *typed, sac_error *err) {
    settings next;
    if (!*typed) {
        print_methods(h);
        return SAC_OK;
    }
    sac_status st = settings_copy(&next, &h->own, err);
    if (st == SAC_OK) st = read_methods(&next, typed, err);
    if (st == SAC_OK) st = take_over(h, &next, true, err);
    settings_free(&next);
    if (st != SAC_OK) return st;
    sac_session_method_lines l;
    sac_session_methods(h->r->session, &l);
    fprintf(stderr, "[prefill %s, decode %s, kv %s; the conversation is read anew with the next question]\n",
            l.prefill, l.decode, l.kv);
    return SAC_OK;
}

/* ---------------------------------------------------------------- /stats */

void chat_stats(const chat *h) {
    const sac_session *s = h->r->session;
    const chat_count *n = &h->count;
    sac_memory_report m;
    sac_session_memory(s, &m);
    fprintf(stderr, "  context   %s of %s tokens, %s of keys and values\n",
            report_count(sac_session_n_tokens(s)), report_count(m.n_ctx),
            report_bytes((double)sac_session_kv_bytes(s)));
    fprintf(stderr, "  memory    %s of this session, %s of weights\n", report_bytes((double)m.total_bytes),
            report_bytes((double)m.weight_bytes));
    if (!n->n_answers) {
        fputs("  answers   none yet\n", stderr);
        return;
    }
    int64_t n_read = n->last_prompt - n->last_reused;
    fprintf(stderr, "  last      %s in %.2f s", report_counted(n->last_tokens, "answer token"),
            n->last_total);
    if (n->last_decode > 0 && n->last_tokens > 0)
        fprintf(stderr, ", written at %s", report_rate((double)n->last_tokens / n->last_decode));
    fprintf(stderr, "\n            %s", report_counted(n->last_prompt, "prompt token"));
    fprintf(stderr, " (%s visual, %s reused)", report_count(n->last_visual), report_count(n->last_reused));
    if (n->last_prefill > 0) fprintf(stderr, ", read at %s", report_rate((double)n_read / n->last_prefill));
    if (n->last_visual > 0) fprintf(stderr, "\n            looked at in %.2f s", n->last_vision);
    fprintf(stderr, "\n  answers   %s, %s, ", report_counted(n->n_answers, "answer"),
            report_counted(n->n_tokens, "token"));
    fprintf(stderr, "%.2f s\n", n->seconds);
}
