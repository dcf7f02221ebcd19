/* chat_query.h - what the terminal says of itself: kitty's graphics query and, behind it, the request for device attributes (DA1),
 * which every terminal answers, so that nobody waits for one that does not know the first. */
#ifndef APP_CHAT_QUERY_H
#define APP_CHAT_QUERY_H

#include <stdbool.h>

#define CHAT_QUERY_TYPED_MAX 256

typedef struct chat_query_answer {
    bool has_kitty, has_sixel;
} chat_query_answer;

/* Takes up to a second where nothing answers. typed [CHAT_QUERY_TYPED_MAX + 1]: the keys that came meanwhile. False: it was not
 * asked, because something is typed already or standard input is no terminal. */
bool chat_query(chat_query_answer *a, char *typed);

#endif
