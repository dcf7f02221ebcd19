/* caption_bytes.c - pictures and videos as they are in the input, for results that hold them. */
#define _GNU_SOURCE
#include "caption_bytes.h"
#include "status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_ending(caption_bytes *out, const char *ending) {
    size_t n = 0;
    for (; ending[n] && n + 1 < sizeof out->ending; n++)
        out->ending[n] = (char)tolower((unsigned char)ending[n]);
    out->ending[n] = 0;
}

static sac_status read_whole(caption_bytes *out, const char *path, sac_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return sac_fail(err, errno == ENOENT ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path, strerror(errno));
    bool fits = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= CAPTION_MEMBER_MAX_BYTES;
    sac_status s = fits ? caption_read_file(fd, path, (size_t)st.st_size, &out->data, &out->n_bytes, err)
                        : sac_fail(err, SAC_BAD_FILE, "%s: not a file of at most %lld bytes", path,
                                   (long long)CAPTION_MEMBER_MAX_BYTES);
    close(fd);
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    set_ending(out, dot ? dot + 1 : "bin");
    return s;
}

/* The one file that a line names; NULL *path where that is another number. */
static sac_status path_of_line(caption_reader *r, const caption_source *s, const caption_item *item,
                               char **path, sac_error *err) {
    json_t *line = NULL;
    sac_status st = caption_read_line(r, s, item, &line, err);
    const json_t *image = json_object_get(line, "image"), *video = json_object_get(line, "video");
    const json_t *one = image ? image : video;
    if (json_is_array(one) && json_array_size(one) == 1) one = json_array_get(one, 0);
    bool is_one = json_is_string(one) && !(image && video) && !json_object_get(line, "frames");
    if (st == SAC_OK && is_one && !(*path = caption_path_beside(s->path, json_string_value(one))))
        st = sac_fail_no_memory(err);
    json_decref(line);
    return st;
}

sac_status caption_read_media(caption_reader *r, size_t source, size_t index, caption_bytes *out,
                              sac_error *err) {
    const caption_source *s = &r->in->sources[source];
    const caption_item *item = &s->items[index];
    *out = (caption_bytes){0};
    if (r->in->kind == CAPTION_TAR) {
        size_t n_key;
        SAC_TRY(caption_find_member(r, source, item, err));
        const char *ending = caption_tar_key(r->member.name, &n_key);
        set_ending(out, ending ? ending : "bin");
        return caption_tar_read(r->tar, &out->data, &out->n_bytes, err);
    }
    char *path = NULL;
    sac_status st = SAC_OK;
    if (r->in->kind != CAPTION_FOLDER && r->in->kind != CAPTION_FILES)
        st = path_of_line(r, s, item, &path, err);
    else if (!(path = caption_item_path(s, item)))
        st = sac_fail_no_memory(err);
    if (st == SAC_OK && path) st = read_whole(out, path, err);
    free(path);
    return st;
}
