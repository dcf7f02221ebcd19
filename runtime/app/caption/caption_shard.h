/* caption_shard.h - which part of a job this process does. */
#ifndef APP_CAPTION_SHARD_H
#define APP_CAPTION_SHARD_H

#include "caption_input.h"

#define CAPTION_SHARDS_MAX 100000

/* text: of --shard, or NULL. n_shards: of --shards, 0 = not given. Otherwise from the environment, the first
 * that is there: JOB_COMPLETION_INDEX (Kubernetes; needs --shards), SLURM_ARRAY_TASK_* (times the tasks of an
 * srun step), SLURM_PROCID of an srun step, OMPI_COMM_WORLD_*, PMI_*. Without any of them the whole job. With
 * --shards the number from the environment is taken as it is, so that single shards can be run again. */
sac_status caption_shard_find(caption_shard *shard, const char *text, int64_t n_shards, sac_error *err);

/* "shard-00003-of-00016" */
void caption_shard_folder(const caption_shard *shard, char *name, size_t n_bytes);

/* The shard of a folder's name; false when it is another folder's. */
bool caption_shard_parse_folder(const char *name, caption_shard *shard);

#endif
