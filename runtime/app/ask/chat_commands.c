/* chat_commands.c - see chat_commands.h. */
#define _GNU_SOURCE
#include "chat_commands.h"
#include "chat_file.h"
#include "chat_path.h"
#include "chat_settings.h"
#include "chat_turn.h"
#include "output.h"
#include "report_value.h"
#include "status.h"
#include "suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sac_status slash_image(chat *h, const char *value, sac_error *err) {
    return chat_attach_typed(h, MEDIA_IMAGE, value, err);
}

static sac_status slash_video(chat *h, const char *value, sac_error *err) {
    return chat_attach_typed(h, MEDIA_VIDEO, value, err);
}

static sac_status slash_frames(chat *h, const char *value, sac_error *err) {
    return chat_attach_typed(h, MEDIA_FRAMES, value, err);
}

static sac_status slash_detach(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    media_list_clear(&h->pending);
    return SAC_OK;
}

static sac_status slash_retry(chat *h, const char *value, sac_error *err) {
    (void)value;
    return chat_ask_again(h, err);
}

static sac_status slash_undo(chat *h, const char *value, sac_error *err) {
    (void)value;
    SAC_TRY(chat_undo(h, err));
    fputs("[taken back: ", stderr);
    output_note(h->kept, 200);
    fputs("; /retry asks it again]\n", stderr);
    return SAC_OK;
}

/* The path in `value`, or an error that says what the command needs. */
static sac_status one_path(char **path, const char *command, const char *value, sac_error *err) {
    if (!*value) return sac_fail(err, SAC_BAD_ARGUMENT, "%s needs a file", command);
    *path = chat_path_read(value);
    return *path ? SAC_OK : sac_fail_no_memory(err);
}

static void tell_file(const chat *h, const char *path) {
    if (h->r->s->quiet) return;
    fputc('[', stderr);
    output_note(path, 4096);
    fprintf(stderr, ": %s]\n", report_counted((int64_t)h->c.n_messages, "message"));
}

static sac_status slash_save(chat *h, const char *value, sac_error *err) {
    char *path;
    SAC_TRY(one_path(&path, "/save", value, err));
    sac_status st = chat_file_save(&h->c, path, err);
    if (st == SAC_OK) tell_file(h, path);
    free(path);
    return st;
}

/* Would the next question still fit? */
static sac_status try_conversation(chat *h, conversation *c, sac_error *err) {
    media_list none = {0};
    size_t n_ids, n = c->n_messages;
    sac_status st = conversation_ask(c, h->r->s, &none, "?", err);
    if (st == SAC_OK)
        st = sac_session_prompt(h->r->session, c->messages, c->n_messages, NULL, 0, &n_ids, err);
    conversation_cut(c, n);
    return st;
}

static sac_status slash_load(chat *h, const char *value, sac_error *err) {
    char *path;
    conversation c = {0};
    SAC_TRY(one_path(&path, "/load", value, err));
    sac_status st = chat_file_load(&c, path, err);
    if (st == SAC_OK) {
        st = try_conversation(h, &c, err);
        if (st != SAC_OK) sac_fail_prefix(err, st, "%s", path);
    }
    if (st == SAC_OK) {
        conversation before = h->c;
        h->c = c;
        c = before;
        tell_file(h, path);
    }
    conversation_free(&c);
    free(path);
    return st;
}

static sac_status slash_stats(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    chat_stats(h);
    return SAC_OK;
}

static sac_status slash_reset(chat *h, const char *value, sac_error *err) {
    (void)value;
    media_list_clear(&h->pending);
    free(h->kept);
    h->kept = NULL;
    return chat_start_over(h, err);
}

static sac_status slash_quit(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    h->done = true;
    return SAC_OK;
}

static sac_status slash_help(chat *h, const char *value, sac_error *err);

typedef enum takes { NOTHING, A_PATH, A_SETTING, METHODS } takes;

static const struct slash {
    const char *name, *value; /* value: what follows, or NULL */
    const char *help;         /* NULL: another name of the one before */
    takes takes;
    sac_status (*run)(chat *h, const char *value, sac_error *err);
} commands[] = {
    {"/image", "FILE...", "show pictures with the next question", A_PATH, slash_image},
    {"/video", "FILE...", "show videos with the next question", A_PATH, slash_video},
    {"/frames", "PATH", "show a folder or list of pictures as a video", A_PATH, slash_frames},
    {"/detach", NULL, "drop what is attached", NOTHING, slash_detach},
    {"/retry", NULL, "ask again: what got no answer, or the last question", NOTHING, slash_retry},
    {"/undo", NULL, "take the last question and its answer back", NOTHING, slash_undo},
    {"/reset", NULL, "forget the conversation", NOTHING, slash_reset},
    {"/clear", NULL, NULL, NOTHING, slash_reset},
    {"/set", "NAME VALUE", "change a setting, as temperature 0.7; or list them", A_SETTING, chat_set},
    {"/methods", "NAME=...", "attention methods: list them, or take others", METHODS, chat_methods},
    {"/stats", NULL, "tokens, speed and memory", NOTHING, slash_stats},
    {"/save", "FILE", "write the conversation as JSON", A_PATH, slash_save},
    {"/load", "FILE", "go on with one that was saved", A_PATH, slash_load},
    {"/help", NULL, "this text", NOTHING, slash_help},
    {"/?", NULL, NULL, NOTHING, slash_help},
    {"/quit", NULL, "end (so does Ctrl-D)", NOTHING, slash_quit},
    {"/exit", NULL, NULL, NOTHING, slash_quit},
};

static sac_status slash_help(chat *h, const char *value, sac_error *err) {
    (void)value, (void)err;
    for (size_t i = 0; i < SAC_COUNT(commands); i++)
        if (commands[i].help)
            fprintf(stderr, "  %-8s %-11s %s\n", commands[i].name, commands[i].value ? commands[i].value : "",
                    commands[i].help);
    fputs("Files that are dropped on the terminal, or whose paths are typed alone, are\n"
          "attached without a command.\n"
          "Several lines: between two \"\"\", or with a backslash at the end of a line.\n"
          "Ctrl-C stops an answer or drops the line; at an empty prompt it ends the chat.\n",
          stderr);
    if (chat_line_has_history(h->lines))
        fputs("Up and Ctrl-R bring back what was typed, also in chats before; Tab completes.\n", stderr);
    return SAC_OK;
}

const chat_word *chat_commands_words(size_t *n_words) {
    static chat_word words[SAC_COUNT(commands)];
    for (size_t i = 0; i < SAC_COUNT(commands); i++)
        words[i] = (chat_word){.name = commands[i].name,
                               .takes_path = commands[i].takes == A_PATH,
                               .values = commands[i].takes == A_SETTING ? chat_set_names()
                                         : commands[i].takes == METHODS ? chat_method_names()
                                                                        : NULL};
    *n_words = SAC_COUNT(commands);
    return words;
}

sac_status chat_commands_run(chat *h, char *line, bool *known, sac_error *err) {
    suggestion near = {.typed = line};
    char *value = line + strcspn(line, " \t\n"), blank = *value;
    *known = true;
    if (blank) *value++ = 0;
    for (size_t i = 0; i < SAC_COUNT(commands); i++) {
        if (!strcmp(line, commands[i].name)) {
            value += strspn(value, " \t\n");
            if (*value && commands[i].takes == NOTHING)
                return sac_fail(err, SAC_BAD_ARGUMENT, "%s takes nothing behind it; found '%.60s'", line,
                                value);
            return commands[i].run(h, value, err);
        }
        suggest_offer(&near, commands[i].name);
    }
    *known = false;
    sac_fail(err, SAC_BAD_ARGUMENT, "unknown command %.60s; %s%s%s/help lists them", line,
             near.best ? "did you mean " : "", near.best ? near.best : "", near.best ? "? " : "");
    if (blank) value[-1] = blank;
    return err->status;
}
