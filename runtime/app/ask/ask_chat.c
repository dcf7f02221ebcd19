/* ask_chat.c - `saccade ask` without a question, on a terminal. */
#define _GNU_SOURCE
#include "chat.h"
#include "chat_commands.h"
#include "chat_turn.h"
#include "commands.h"
#include "report_value.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sac_status run_line(chat *h, char *line, sac_error *err) {
    bool known = true, dropped;
    sac_error why;
    if (!*line) return SAC_OK;
    sac_status st = line[0] == '/' ? chat_commands_run(h, line, &known, &why) : SAC_OK;
    if (line[0] == '/' && known) {
        *err = why;
        return st;
    }
    SAC_TRY(chat_attach_dropped(h, line, &dropped, err));
    if (dropped) return SAC_OK;
    if (!strcmp(line, "quit") || !strcmp(line, "exit"))
        return sac_fail(err, SAC_BAD_ARGUMENT, "/%s ends the chat, and so does Ctrl-D", line);
    if (!strcmp(line, "help") || !strcmp(line, "?"))
        return sac_fail(err, SAC_BAD_ARGUMENT, "/help lists the commands");
    if (line[0] != '/') return chat_ask(h, line, err);
    *err = why;
    return st;
}

static void greet(const chat *h) {
    if (h->r->s->quiet) return;
    fprintf(stderr, "%sModel: %s\n/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.%s\n",
            progress_dim(&h->r->progress), h->r->model_path, progress_plain(&h->r->progress));
}

static sac_status read_lines(chat *h, sac_error *err) {
    sac_status st = SAC_OK;
    while (st == SAC_OK && !h->done) {
        char prompt[40] = "> ", *line;
        if (h->pending.n) snprintf(prompt, sizeof prompt, "[%zu attached] > ", h->pending.n);
        st = chat_line_read(h->lines, prompt, &line, err);
        if (st == SAC_OK && !line) break;
        if (st == SAC_OK) st = chat_tell(run_line(h, line, err), err);
    }
    return st;
}

static sac_status start(chat *h, const media_list *media, sac_error *err) {
    size_t n_words;
    const chat_word *words = chat_commands_words(&n_words);
    SAC_TRY(settings_copy(&h->own, h->given, err));
    h->r->s = &h->own;
    SAC_TRY(chat_pictures_open(&h->pictures, !h->own.no_pictures && !h->own.quiet, err));
    SAC_TRY(run_create_session(h->r, err));
    SAC_TRY(chat_start_over(h, err));
    SAC_TRY(chat_line_open(&h->lines, words, n_words, err));
    greet(h);
    for (size_t i = 0; i < media->n; i++) SAC_TRY(chat_attach(h, &media->items[i], err));
    return SAC_OK;
}

sac_status chat_run(run *r, const media_list *media, sac_error *err) {
    chat h = {.r = r, .given = r->s};
    sac_status st = start(&h, media, err);
    if (st == SAC_OK) st = read_lines(&h, err);
    chat_line_close(h.lines);
    media_list_clear(&h.pending);
    free(h.kept);
    conversation_free(&h.c);
    r->s = h.given;
    settings_free(&h.own);
    return st;
}
