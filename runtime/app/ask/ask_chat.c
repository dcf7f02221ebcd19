/* ask_chat.c - `saccade ask` without a question, on a terminal. */
#define _GNU_SOURCE
#include "chat_line.h"
#include "chat_path.h"
#include "commands.h"
#include "draft.h"
#include "report.h"
#include "status.h"
#include "suggest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMANDS_MAX 16

typedef struct chat {
    run *r;
    conversation c;
    media_list pending; /* shown with the next question */
    char *kept;         /* a question that got no answer, for /retry; or NULL */
    chat_line *lines;
    bool done;
} chat;

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

static sac_status keep_question(chat *h, const char *question, sac_error *err) {
    char *kept = question ? strdup(question) : NULL;
    if (question && !kept) return sac_fail_no_memory(err);
    free(h->kept);
    h->kept = kept;
    return SAC_OK;
}

static void tell_kept(const chat *h) {
    fprintf(stderr, "The question is kept: /retry asks it again%s.%s\n",
            chat_line_has_history(h->lines) ? ", Up brings it back to be changed" : "",
            h->pending.n ? " What is attached stays, too (/detach drops it)." : "");
}

/* What was asked and not answered leaves the conversation and is kept for /retry; what was attached goes with the next
 * question. An answer cut short stays as far as it came. */
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
        st = kept == SAC_OK ? keep_question(h, NULL, err) : kept;
        media_list_clear(&h->pending);
    } else {
        conversation_cut(&h->c, before);
        if (st == SAC_CANCELLED) sac_fail(err, st, "stopped before an answer");
        st = tell(st, err);
        if (st == SAC_OK) st = keep_question(h, question, err);
        if (st == SAC_OK) tell_kept(h);
    }
    answer_free(&a);
    return st;
}

/* ---------------------------------------------------------------- what is attached */

/* Opens a picture or a video as the question will, and keeps nothing of it. Of frames the list is read: to open them
 * all may take long. */
static sac_status try_media(chat *h, const media_item *item, sac_error *err) {
    media_list one = {(media_item *)item, 1};
    conversation c = {0};
    size_t n_ids;
    sac_status st = media_list_check(&one, err);
    if (st == SAC_OK) st = conversation_ask(&c, h->r->s, &one, "?", err);
    if (st == SAC_OK && item->kind != MEDIA_FRAMES)
        st = sac_session_prompt(h->r->session, c.messages, c.n_messages, NULL, 0, &n_ids, err);
    conversation_free(&c);
    return st;
}

static sac_status attach(chat *h, media_kind kind, const char *path, sac_error *err) {
    size_t had = h->pending.n;
    SAC_TRY(media_list_add(&h->pending, kind, path, err));
    media_item *item = &h->pending.items[had];
    sac_status st = try_media(h, item, err);
    if (st == SAC_OK) return SAC_OK;
    sac_error ignored;
    item->kind = MEDIA_VIDEO;
    if (kind == MEDIA_IMAGE && (st == SAC_BAD_FILE || st == SAC_UNSUPPORTED) &&
        try_media(h, item, &ignored) == SAC_OK)
        st = sac_fail(err, st, "%s: a video: /video shows it", path);
    free(item->path);
    h->pending.n--;
    return st;
}

static sac_status attach_typed(chat *h, media_kind kind, const char *typed, sac_error *err) {
    char *path = chat_path_read(typed);
    if (!path) return sac_fail_no_memory(err);
    sac_status st = attach(h, kind, path, err);
    free(path);
    return st;
}

/* ---------------------------------------------------------------- commands */

static sac_status slash_image(chat *h, const char *value, sac_error *err) {
    return attach_typed(h, MEDIA_IMAGE, value, err);
}

static sac_status slash_video(chat *h, const char *value, sac_error *err) {
    return attach_typed(h, MEDIA_VIDEO, value, err);
}

static sac_status slash_frames(chat *h, const char *value, sac_error *err) {
    return attach_typed(h, MEDIA_FRAMES, value, err);
}

static sac_status slash_detach(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    media_list_clear(&h->pending);
    return SAC_OK;
}

static sac_status slash_retry(chat *h, const char *value, sac_error *err) {
    (void)value;
    char *question = h->kept;
    if (!question) return sac_fail(err, SAC_BAD_ARGUMENT, "no question is without an answer");
    h->kept = NULL; /* ask_next may keep it anew */
    sac_status st = ask_next(h, question, err);
    free(question);
    return st;
}

static sac_status slash_save(chat *h, const char *value, sac_error *err) {
    if (!*value) return sac_fail(err, SAC_BAD_ARGUMENT, "/save needs a file");
    char *path = chat_path_read(value);
    if (!path) return sac_fail_no_memory(err);
    sac_status st = save(&h->c, path, err);
    free(path);
    return st;
}

static sac_status slash_reset(chat *h, const char *value, sac_error *err) {
    (void)value;
    media_list_clear(&h->pending);
    SAC_TRY(keep_question(h, NULL, err));
    return start_over(h, err);
}

static sac_status slash_quit(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    h->done = true;
    return SAC_OK;
}

static sac_status slash_help(chat *h, const char *value, sac_error *err);

typedef struct slash {
    const char *name, *value; /* value: what follows, or NULL */
    const char *help;         /* NULL: another name of the one before */
    sac_status (*run)(chat *h, const char *value, sac_error *err);
} slash;

static const slash commands[] = {
    {"/image", "FILE", "show a picture with the next question", slash_image},
    {"/video", "FILE", "show a video with the next question", slash_video},
    {"/frames", "PATH", "show a folder or list of pictures as a video", slash_frames},
    {"/detach", NULL, "drop what is attached", slash_detach},
    {"/retry", NULL, "ask again what got no answer", slash_retry},
    {"/reset", NULL, "forget the conversation", slash_reset},
    {"/clear", NULL, NULL, slash_reset},
    {"/save", "FILE", "write the conversation as JSON", slash_save},
    {"/help", NULL, "this text", slash_help},
    {"/quit", NULL, "end (so does Ctrl-D)", slash_quit},
    {"/exit", NULL, NULL, slash_quit},
};
_Static_assert(SAC_COUNT(commands) <= COMMANDS_MAX, "room for Tab's words");

static sac_status slash_help(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    for (size_t i = 0; i < SAC_COUNT(commands); i++)
        if (commands[i].help)
            fprintf(stderr, "  %-7s %-6s %s\n", commands[i].name, commands[i].value ? commands[i].value : "",
                    commands[i].help);
    fputs("Several lines: between two \"\"\", or with a backslash at the end of a line.\n"
          "Ctrl-C stops an answer or drops the line; at an empty prompt it ends the chat.\n",
          stderr);
    if (chat_line_has_history(h->lines))
        fputs("Up and Ctrl-R bring back what was typed, also in chats before; Tab completes.\n", stderr);
    return SAC_OK;
}

static sac_status run_slash(chat *h, char *line, sac_error *err) {
    suggestion near = {.typed = line};
    char *value = line + strcspn(line, " \t\n");
    if (*value) *value++ = 0;
    value += strspn(value, " \t\n");
    for (size_t i = 0; i < SAC_COUNT(commands); i++) {
        if (!strcmp(line, commands[i].name)) return commands[i].run(h, value, err);
        suggest_offer(&near, commands[i].name);
    }
    return sac_fail(err, SAC_BAD_ARGUMENT, "unknown command %.60s; %s%s/help lists them", line,
                    near.best ? near.best : "", near.best ? " may be meant, " : "");
}

static sac_status run_line(chat *h, char *line, sac_error *err) {
    if (line[0] == '/') return run_slash(h, line, err);
    return *line ? ask_next(h, line, err) : SAC_OK;
}

static void greet(const chat *h) {
    if (h->r->s->quiet) return;
    fprintf(stderr, "%sModel: %s. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.%s\n",
            progress_dim(&h->r->progress), h->r->model_path, progress_plain(&h->r->progress));
}

static sac_status read_lines(chat *h, sac_error *err) {
    sac_status st = SAC_OK;
    while (st == SAC_OK && !h->done) {
        char prompt[40] = "> ", *line;
        if (h->pending.n) snprintf(prompt, sizeof prompt, "[%zu attached] > ", h->pending.n);
        st = chat_line_read(h->lines, prompt, &line, err);
        if (st == SAC_OK && !line) break;
        if (st == SAC_OK) st = tell(run_line(h, line, err), err);
    }
    return st;
}

static sac_status start(chat *h, chat_word words[COMMANDS_MAX], const media_list *media, sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(commands); i++)
        words[i] = (chat_word){commands[i].name, commands[i].value != NULL};
    SAC_TRY(run_create_session(h->r, err));
    SAC_TRY(start_over(h, err));
    for (size_t i = 0; i < media->n; i++) SAC_TRY(attach(h, media->items[i].kind, media->items[i].path, err));
    return chat_line_open(&h->lines, words, SAC_COUNT(commands), err);
}

sac_status chat_run(run *r, const media_list *media, sac_error *err) {
    chat h = {.r = r};
    chat_word words[COMMANDS_MAX];
    sac_status st = start(&h, words, media, err);
    if (st == SAC_OK) {
        greet(&h);
        st = read_lines(&h, err);
    }
    chat_line_close(h.lines);
    media_list_clear(&h.pending);
    free(h.kept);
    conversation_free(&h.c);
    return st;
}
