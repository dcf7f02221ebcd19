#define _GNU_SOURCE
#include "draft.h"
#include "status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sac_status fail(draft *d, const char *path, int why, sac_error *err) {
    sac_fail(err, SAC_IO, "%s: cannot be written: %s", path, strerror(why));
    draft_abandon(d);
    return err->status;
}

sac_status draft_open(draft *d, const char *path, sac_error *err) {
    struct stat st;
    bool is_there = stat(path, &st) == 0, is_link = !is_there && lstat(path, &st) == 0,
         is_straight = is_link || (is_there && !S_ISREG(st.st_mode));
    *d = (draft){.path = is_there && !is_straight ? realpath(path, NULL) : strdup(path)};
    if (!d->path || (!is_straight && asprintf(&d->part, "%s.part", d->path) < 0)) {
        d->part = NULL;
        draft_abandon(d);
        return sac_fail_no_memory(err);
    }
    const char *name = d->part ? d->part : d->path;
    d->f = fopen(name, "we");
    return d->f ? SAC_OK : fail(d, name, errno, err);
}

sac_status draft_check(const char *path, sac_error *err) {
    struct stat st;
    draft d;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? sac_fail(err, SAC_IO, "%s: cannot be written: %s", path, strerror(EISDIR)) : SAC_OK;
    SAC_TRY(draft_open(&d, path, err));
    draft_abandon(&d);
    return SAC_OK;
}

sac_status draft_close(draft *d, sac_error *err) {
    if (!d->f) return SAC_OK;
    bool bad = ferror(d->f) || fflush(d->f) || (d->part && fsync(fileno(d->f)));
    int why = errno;
    if (fclose(d->f) && !bad) bad = true, why = errno;
    d->f = NULL;
    if (!bad && d->part && rename(d->part, d->path)) bad = true, why = errno;
    if (bad && d->part) unlink(d->part);
    if (bad) return fail(d, d->path, why, err);
    draft_abandon(d);
    return SAC_OK;
}

void draft_abandon(draft *d) {
    if (d->f) {
        fclose(d->f);
        if (d->part) unlink(d->part);
    }
    free(d->path);
    free(d->part);
    *d = (draft){0};
}
