/* ask.c - `saccade ask`: one question and its answer, or a chat. */
#include "commands.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUESTION_MAX_BYTES ((size_t)16 << 20)

/* All of standard input, less its last line end; owned by the caller. */
static sac_status read_question(char **out, sac_error *err) {
    size_t room = 4096, n = 0;
    char *text = malloc(room);
    *out = NULL;
    while (text) {
        n += fread(text + n, 1, room - 1 - n, stdin);
        if (n < room - 1) break;
        char *more = room > QUESTION_MAX_BYTES ? NULL : realloc(text, room *= 2);
        if (!more) free(text);
        if (room > QUESTION_MAX_BYTES && !more)
            return sac_fail(err, SAC_TOO_LONG, "standard input: a question of more than %zu bytes",
                            QUESTION_MAX_BYTES);
        text = more;
    }
    if (!text) return sac_fail_no_memory(err);
    text[n] = 0;
    sac_status st = SAC_OK;
    if (ferror(stdin)) st = sac_fail(err, SAC_IO, "standard input: %s", strerror(errno));
    if (st == SAC_OK && memchr(text, 0, n))
        st = sac_fail(err, SAC_BAD_FILE, "standard input: not a text, it holds a zero byte");
    if (st != SAC_OK) {
        free(text);
        return st;
    }
    if (n && text[n - 1] == '\n') text[n - 1] = 0;
    *out = text;
    return SAC_OK;
}

static sac_status answer_question(run *r, const media_list *media, const char *question, sac_error *err) {
    const settings *s = r->s;
    conversation c = {0};
    answer a = {.quiet = s->json};
    sac_result result;
    sac_status st = SAC_OK;
    if (s->system) st = conversation_add_message(&c, "system", s->system, err);
    if (st == SAC_OK) st = conversation_ask(&c, s, media, question, err);
    if (st == SAC_OK) st = run_create_session(r, err);
    if (st == SAC_OK) st = run_answer(r, &c, &a, &result, err);
    if (st == SAC_OK && s->json)
        st = report_print(report_answer(r, &result, &a, &c), err);
    else if (st == SAC_OK && r->progress.on)
        report_print_summary(r, &result);
    answer_free(&a);
    conversation_free(&c);
    return st;
}

/* The question of the command line: *chat when there is none and somebody sits at a terminal. *owned: to
 * free. */
static sac_status find_question(const settings *s, char **words, int n_words, const char **question,
                                char **owned, bool *chat, sac_error *err) {
    *owned = NULL;
    *chat = false;
    if (n_words > 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "one question is expected, found '%.60s' and '%.60s': put the question in quotes and "
                        "--image, --video or --frames before each file",
                        words[0], words[1]);
    if (n_words == 0) {
        *chat = !s->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        if (*chat) return SAC_OK;
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "no question; give one in quotes, or - to read it from standard input");
    }
    bool is_stdin = !strcmp(words[0], "-");
    for (size_t i = 0; is_stdin && i < s->media.n; i++)
        if (!strcmp(s->media.items[i].path, "-"))
            return sac_fail(err, SAC_BAD_ARGUMENT, "standard input is the picture already; give the question in quotes");
    if (is_stdin) SAC_TRY(read_question(owned, err));
    *question = *owned ? *owned : words[0];
    if ((*question)[strspn(*question, " \t\r\n")] || s->media.n) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "no question: the text is empty");
}

static sac_status ask(const settings *s, char **words, int n_words, sac_error *err) {
    const char *question = NULL;
    char *owned;
    bool chat;
    run r = {0};
    media_list media = {0};
    sac_status st = find_question(s, words, n_words, &question, &owned, &chat, err);
    if (st == SAC_OK) st = media_list_take(&media, &s->media, err);
    if (st == SAC_OK) st = run_open(&r, s, (size_t)s->vision_cache_mib << 20, err);
    if (st == SAC_OK) st = chat ? chat_run(&r, &media, err) : answer_question(&r, &media, question, err);
    run_close(&r);
    media_list_clear(&media);
    free(owned);
    return st;
}

const command command_ask = {
    .name = "ask",
    .mask = COMMAND_ASK,
    .brief = "answer a question; without one, on a terminal, a chat",
    .synopsis = "[options] \"question\"",
    .summary = "Answers a question about pictures and videos. The answer goes to standard output. Without a\n"
               "question, on a terminal, it is a chat; the question - is read from standard input.",
    .examples = "  saccade ask --image cat.jpg \"What is this?\"\n"
                "  saccade ask --video clip.mp4 --num-frames 16 \"What happens?\"\n"
                "  saccade ask --image before.png --image after.png \"What has changed?\"\n"
                "  cat cat.jpg | saccade ask --image - \"What is this?\"\n"
                "  saccade ask --frames frames.txt \"What happens?\"  # lines: f/0001.jpg 0.04\n"
                "  saccade ask -m MODEL --temperature 0.7 --config run.yaml --json - <q.txt\n"
                "  saccade ask -m MODEL --image cat.jpg                 # a chat\n",
    .run = ask,
};
