/* ask_chat.c - `saccade ask` without a question, on a terminal. */
#define _GNU_SOURCE
#include "commands.h"
#include "draft.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat {
    run *r;
    conversation c;
    media_list pending; /* shown with the next question */
    bool done;
} chat;

static const char help[] = "  /image FILE    show a picture with the next question\n"
                           "  /video FILE    show a video with the next question\n"
                           "  /frames PATH   show a folder or list of pictures as a video\n"
                           "  /detach        drop what is attached\n"
                           "  /reset         forget the conversation\n"
                           "  /save FILE     write the conversation as JSON\n"
                           "  /help          this text\n"
                           "  /quit          end (so does Ctrl-D)\n"
                           "Ctrl-C stops an answer; at the prompt it ends the chat.\n";

/* A failure within a chat is told and the chat goes on, but for those that nothing can follow. */
static sac_status tell(sac_status st, const sac_error *err) {
    bool fatal = st == SAC_NO_MEMORY || st == SAC_INTERNAL || (st == SAC_IO && ferror(stdout));
    if (st == SAC_OK || fatal) return st;
    fprintf(stderr, "saccade: %s\n", err->text);
    return SAC_OK;
}

static sac_status start_over(chat *h, sac_error *err) {
    conversation_cut(&h->c, 0);
    sac_session_reset(h->r->session);
    const char *system = h->r->s->system;
    return system ? conversation_add_message(&h->c, "system", system, err) : SAC_OK;
}

static json_t *part_as_json(const sac_part *p) {
    static const char *const types[] = {
        [SAC_PART_TEXT] = "text",
        [SAC_PART_IMAGE] = "image",
        [SAC_PART_VIDEO] = "video",
        [SAC_PART_FRAMES] = "frames",
    };
    return json_pack("{s:s, s:o}", "type", types[p->kind], p->kind == SAC_PART_TEXT ? "text" : "file",
                     report_text(p->kind == SAC_PART_TEXT ? p->text : p->path));
}

static json_t *conversation_as_json(const conversation *c) {
    json_t *messages = json_array();
    for (size_t i = 0; messages && i < c->n_messages; i++) {
        json_t *parts = json_array();
        int bad = 0;
        for (size_t p = 0; p < c->messages[i].n_parts; p++)
            bad |= json_array_append_new(parts, part_as_json(&c->messages[i].parts[p]));
        bad |= json_array_append_new(messages,
                                     json_pack("{s:s, s:o}", "role", c->messages[i].role, "content", parts));
        if (!bad) continue;
        json_decref(messages);
        messages = NULL;
    }
    return messages;
}

static sac_status save(const conversation *c, const char *path, sac_error *err) {
    draft d;
    SAC_TRY(draft_open(&d, path, err));
    json_t *messages = conversation_as_json(c);
    bool made = messages && (json_dumpf(messages, d.f, JSON_INDENT(2)) == 0 || ferror(d.f));
    json_decref(messages);
    if (made) return draft_close(&d, err);
    draft_abandon(&d);
    return sac_fail_no_memory(err);
}

/* What was asked and not answered leaves the conversation; an answer cut short stays as far as it came. */
static sac_status ask_next(chat *h, const char *question, sac_error *err) {
    size_t before = h->c.n_messages;
    answer a = {0};
    sac_result result;
    sac_status st = conversation_ask(&h->c, h->r->s, &h->pending, question, err);
    if (st == SAC_OK) st = run_answer(h->r, &h->c, &a, &result, err);
    if (st == SAC_OK && h->r->progress.on) report_print_summary(h->r, &result);
    if (st == SAC_OK || (st == SAC_CANCELLED && a.n_bytes)) {
        sac_status kept = conversation_add_message(&h->c, "assistant", a.text, err);
        if (st == SAC_CANCELLED) fputs("[stopped]\n", stderr);
        st = kept;
    } else {
        conversation_cut(&h->c, before);
        if (st == SAC_CANCELLED)
            st = sac_fail(err, st, "stopped before an answer; the question is forgotten%s",
                          h->pending.n ? ", what is attached stays (/detach drops it)" : "");
        answer_free(&a);
        return st; /* what was attached goes with the next question */
    }
    media_list_clear(&h->pending);
    answer_free(&a);
    return st;
}

/* A path as a terminal pastes it: in quotes, with backslashes before blanks, or below "~/". In place, for it only
 * gets shorter; a home folder is put before it by the caller. A file of the very name wins. */
static void unquote(char *path) {
    if (access(path, F_OK) == 0) return;
    char quote = 0, *to = path;
    for (const char *p = path; *p; p++) {
        if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? 0 : *p;
        else if (*p == '\\' && quote != '\'' && p[1])
            *to++ = *++p;
        else
            *to++ = *p;
    }
    *to = 0;
}

static sac_status add_media(chat *h, media_kind kind, char *typed, sac_error *err) {
    char home_path[4096];
    const char *home = getenv("HOME"), *path = typed;
    bool at_home = typed[0] == '~' && typed[1] == '/' && home;
    unquote(typed);
    if (at_home && snprintf(home_path, sizeof home_path, "%s%s", home, typed + 1) < (int)sizeof home_path)
        path = home_path;
    size_t had = h->pending.n;
    SAC_TRY(media_list_add(&h->pending, kind, path, err));
    media_list added = {&h->pending.items[had], 1};
    sac_status st = media_list_check(&added, err);
    if (st != SAC_OK) free(h->pending.items[--h->pending.n].path);
    return st;
}

static sac_status run_slash(chat *h, char *line, sac_error *err) {
    char *value = line + strcspn(line, " \t");
    if (*value) *value++ = 0;
    value += strspn(value, " \t");
    if (!strcmp(line, "/image")) return add_media(h, MEDIA_IMAGE, value, err);
    if (!strcmp(line, "/video")) return add_media(h, MEDIA_VIDEO, value, err);
    if (!strcmp(line, "/frames")) return add_media(h, MEDIA_FRAMES, value, err);
    if (!strcmp(line, "/detach")) {
        media_list_clear(&h->pending);
        return SAC_OK;
    }
    if (!strcmp(line, "/save") && *value) return save(&h->c, value, err);
    if (!strcmp(line, "/save")) return sac_fail(err, SAC_BAD_ARGUMENT, "/save needs a file");
    if (!strcmp(line, "/quit") || !strcmp(line, "/exit")) {
        h->done = true;
        return SAC_OK;
    }
    if (!strcmp(line, "/reset") || !strcmp(line, "/clear")) {
        media_list_clear(&h->pending);
        return start_over(h, err);
    }
    if (!strcmp(line, "/help")) {
        fputs(help, stderr);
        return SAC_OK;
    }
    return sac_fail(err, SAC_BAD_ARGUMENT, "unknown command %.60s; /help lists them", line);
}

static sac_status run_line(chat *h, char *line, sac_error *err) {
    size_t n = strlen(line);
    while (n && strchr("\r\n \t", line[n - 1])) line[--n] = 0;
    line += strspn(line, " \t");
    if (line[0] == '/') return run_slash(h, line, err);
    return *line ? ask_next(h, line, err) : SAC_OK;
}

static void greet(const chat *h) {
    if (h->r->s->quiet) return;
    fprintf(stderr, "%sModel: %s. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.%s\n",
            progress_dim(&h->r->progress), h->r->model_path, progress_plain(&h->r->progress));
}

static sac_status chat_lines(chat *h, sac_error *err) {
    char *line = NULL;
    size_t room = 0;
    sac_status st = SAC_OK;
    while (st == SAC_OK && !h->done) {
        if (h->pending.n)
            fprintf(stderr, "[%zu attached] > ", h->pending.n);
        else
            fputs("> ", stderr);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0) {
            if (ferror(stdin)) st = sac_fail(err, SAC_IO, "standard input: %s", strerror(errno));
            fputc('\n', stderr);
            break;
        }
        st = tell(run_line(h, line, err), err);
    }
    free(line);
    return st;
}

sac_status chat_run(run *r, const media_list *media, sac_error *err) {
    chat h = {.r = r};
    sac_status st = run_create_session(r, err);
    if (st == SAC_OK) st = start_over(&h, err);
    for (size_t i = 0; st == SAC_OK && i < media->n; i++)
        st = media_list_add(&h.pending, media->items[i].kind, media->items[i].path, err);
    if (st == SAC_OK) {
        greet(&h);
        st = chat_lines(&h, err);
    }
    media_list_clear(&h.pending);
    conversation_free(&h.c);
    return st;
}
