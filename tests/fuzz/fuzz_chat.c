/* What a chat is given: 'l' a saved conversation, which is saved again; 'p' a pasted line. */
#include "fuzz.h"

#include "chat_file.h"
#include "chat_path.h"

#include <stdlib.h>
#include <string.h>

static void load(const uint8_t *data, size_t size) {
    sac_error err = {0};
    conversation c;
    sac_status st = chat_file_load(&c, fuzz_file(data, size), &err);
    if ((st == SAC_OK) != (err.text[0] == 0)) abort();
    if (st != SAC_OK && (c.n_messages || strchr(err.text, '\n'))) abort();
    if (st == SAC_OK && chat_file_save(&c, "/dev/null", &err) != SAC_OK) abort();
    conversation_free(&c);
}

static void check(const chat_paths *paths, size_t n_bytes) {
    for (size_t i = 0; i < paths->n; i++)
        if (strlen(paths->items[i]) > n_bytes + 4096) abort(); /* the home folder's */
}

static void paste(const uint8_t *data, size_t size) {
    char *line = malloc(size + 1);
    chat_paths paths;
    if (!line) abort();
    memcpy(line, data, size);
    line[size] = 0;
    if (!chat_paths_read(&paths, line)) abort();
    check(&paths, size);
    chat_paths_free(&paths);
    if (!chat_paths_find(&paths, line)) abort();
    check(&paths, size);
    chat_paths_free(&paths);
    free(chat_path_read(line));
    chat_path_unquote(line);
    if (strlen(line) > size) abort();
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size && data[0] == 'l') load(data + 1, size - 1);
    if (size && data[0] == 'p') paste(data + 1, size - 1);
    return 0;
}
