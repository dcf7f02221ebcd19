/* caption_list.h - looking for the items of a job's sources. */
#ifndef APP_CAPTION_LIST_H
#define APP_CAPTION_LIST_H

#include "caption_input.h"

/* Lists the items of the sources that the shard needs to know; limit: of all sources, 0 = all. A tar that is missing is
 * an item with an error; NOT_FOUND when all are. */
sac_status caption_input_list(caption_input *in, const caption_shard *shard, size_t limit, sac_error *err);

/* ---- one kind of source each: caption_files.c, caption_folder.c, caption_lines.c, caption_tar.c. They add to s->items. */

/* A file that is no item is counted by its ending, and named by its path. */
sac_status caption_skip(caption_source *s, const char *name, const char *path, sac_error *err);

/* Where a path begins is no part of a name: without slashes, ./ and ../ in front. */
const char *caption_without_root(const char *path);

sac_status caption_list_files(caption_source *s, sac_error *err);
sac_status caption_list_folder(caption_source *s, sac_error *err);
sac_status caption_list_lines(caption_source *s, caption_kind kind, sac_error *err);
sac_status caption_list_tar(caption_source *s, sac_error *err);

#endif
