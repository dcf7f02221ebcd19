/* chat_complete.h - what Tab adds at the chat's prompt: names of commands, and of files after a command that takes one.
 */
#ifndef APP_CHAT_COMPLETE_H
#define APP_CHAT_COMPLETE_H

#include <stdbool.h>
#include <stddef.h>

/* A command of the chat, as far as Tab has to know it. */
typedef struct chat_word {
    const char *name; /* "/image" */
    bool takes_path;
    const char *const *values; /* what may follow otherwise, NULL-terminated; or NULL */
} chat_word;

typedef struct chat_completion {
    char *insert; /* to add at the cursor, with a backslash before what needs one; "" = nothing */
    char **names; /* [n_names] what fits, sorted; folders end in '/' */
    size_t n_names;
} chat_completion;

/* For the text before the cursor. Files with control characters in their names are never offered: they would reach
 * the terminal. False without memory; freed by the caller in either case. */
bool chat_complete(chat_completion *c, const char *before, const chat_word *words, size_t n_words);
void chat_completion_free(chat_completion *c);

#endif
