/* caption_output.h - the results of a job, made from its records, in the order of its input.
 *
 *   jsonl  captions.jsonl: the records as they are
 *   coco   captions.json: [{"image_id", "caption"}]; errors are left out
 *   text   text/PATH.txt: a caption a file, named as the item without its ending
 *   tar    tar/SHARD.tar: KEY.txt and KEY.json for each item of the input's shard; other inputs give one
 *          captions.tar
 *   webdataset  webdataset/SHARD.tar likewise: KEY.jpg (the picture or video as it is in the input), KEY.txt and
 *          KEY.json; what has no caption is left out
 *   batch  batch_output.jsonl: OpenAI's batch results, errors among them
 *
 * A file is written whole or not at all, and the same records give the same bytes. */
#ifndef APP_CAPTION_OUTPUT_H
#define APP_CAPTION_OUTPUT_H

#include "caption_records.h"
#include "settings.h"

/* Checks the names before any work. input: its kind (caption_kind_name). */
sac_status caption_formats_check(const text_list *formats, const char *input, sac_error *err);

/* formats: as given; none = what suits the input. folder: made unless it is there. */
sac_status caption_output_write(const caption_records *r, const text_list *formats, const char *folder,
                                sac_error *err);

/* ---- one format each (caption_output_files.c, caption_output_tar.c) */

sac_status caption_write_samples(const caption_records *r, const char *folder, sac_error *err);
sac_status caption_write_tars(const caption_records *r, const char *folder, sac_error *err);
sac_status caption_write_text(const caption_records *r, const char *folder, sac_error *err);
sac_status caption_write_batch(const caption_records *r, const char *folder, sac_error *err);

#endif
