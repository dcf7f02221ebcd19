/* replay.c - runs every file of the folders given through a fuzz target, without a fuzzer. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        perror(path);
        if (f) fclose(f);
        return 1;
    }
    size_t size = (size_t)ftell(f);
    uint8_t *data = malloc(size ? size : 1); /* exactly as long, so that a sanitizer sees one byte too far */
    rewind(f);
    int bad = !data || fread(data, 1, size, f) != size;
    fclose(f);
    if (!bad) LLVMFuzzerTestOneInput(data, size);
    free(data);
    return bad;
}

int main(int argc, char **argv) {
    int n_files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *e; (e = readdir(d));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (replay_file(path)) return 1;
            n_files++;
        }
        closedir(d);
    }
    printf("%d inputs\n", n_files);
    return n_files == 0; /* an empty corpus tests nothing */
}
