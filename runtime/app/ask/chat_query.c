#define _GNU_SOURCE
#include "chat_query.h"

#include "clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { ANSWER_MAX = 512, WAIT_MS = 1000 };

static bool has_input(int wait_ms) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, wait_ms) == 1 && (p.revents & POLLIN);
}

/* Of "\033[?62;4;22c" behind the '?': whether a number of it is 4. */
static bool has_attribute_4(const char *p) {
    for (; *p && *p != 'c'; p += *p == ';')
        if (strtol(p, (char **)&p, 10) == 4 && (*p == ';' || *p == 'c'))
            return true;
        else if (*p != ';' && *p != 'c')
            return false;
    return false;
}

/* The end of the answer that begins at p, or NULL: there is none, or not all of it. */
static const char *answer_end(const char *p, const char *begin, const char *end) {
    if (strncmp(p, begin, strlen(begin))) return NULL;
    const char *at = strstr(p, end);
    return at ? at + strlen(end) : NULL;
}

/* Takes both answers out of the text; true once that of DA1 is there. */
static bool read_answers(char *text, chat_query_answer *a, char *typed) {
    bool done = false;
    size_t n = 0;
    *a = (chat_query_answer){0};
    for (const char *p = text; *p;) {
        const char *kitty = answer_end(p, "\033_G", "\033\\"), *da1 = answer_end(p, "\033[?", "c");
        if (kitty) a->has_kitty = !strncmp(p, "\033_Gi=31;OK", 10);
        if (da1) a->has_sixel = has_attribute_4(p + 3);
        done = done || da1;
        if (kitty || da1)
            p = kitty ? kitty : da1;
        else if (n < CHAT_QUERY_TYPED_MAX)
            typed[n++] = *p++;
        else
            p++;
    }
    typed[n] = 0;
    return done;
}

bool chat_query(chat_query_answer *a, char *typed) {
    static const char query[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c";
    static const char clean[] = "\r\033[K"; /* of one that shows what it does not know */
    struct termios before, raw;
    *a = (chat_query_answer){0};
    *typed = 0;
    if (has_input(0) || tcgetattr(STDIN_FILENO, &before)) return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG); /* Ctrl-C is typed, too */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    fflush(stderr);
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw)) return false;
    char text[ANSWER_MAX + 1] = "";
    size_t n = 0;
    bool done = write(STDERR_FILENO, query, sizeof query - 1) < 0;
    int64_t start = sac_now_ns();
    while (!done && n < ANSWER_MAX) {
        int left = WAIT_MS - (int)(sac_seconds_since(start) * 1000);
        if (left <= 0 || !has_input(left)) break;
        ssize_t got = read(STDIN_FILENO, text + n, ANSWER_MAX - n);
        if (got <= 0) break;
        n += (size_t)got;
        text[n] = 0;
        done = read_answers(text, a, typed);
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (write(STDERR_FILENO, clean, sizeof clean - 1) < 0) done = true;
    if (!done) read_answers(text, a, typed);
    return true;
}
