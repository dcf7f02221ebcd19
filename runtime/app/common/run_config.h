/* run_config.h - run settings from a YAML file.
 *
 *   model: models/demo
 *   threads: 2
 *   video: {num-frames: 16}
 *   sampling: {temperature: 0.7, seed: 1, stop: ["\n"]}
 *   session: {ctx: 8192, kv: f16}
 *
 * Keys are the names of the long options, in the groups that --help shows. The file may come from a stranger:
 * what is not expected is refused, with file and line. */
#ifndef APP_RUN_CONFIG_H
#define APP_RUN_CONFIG_H

#include "settings.h"

#define RUN_CONFIG_MAX_BYTES ((size_t)64 << 10)

/* Sets what the file names, with ORIGIN_CONFIG. On failure some settings may have been set. */
sac_status run_config_read(settings *s, const char *path, sac_error *err);

/* The same from memory; `name` stands for the file in errors. */
sac_status run_config_parse(settings *s, const char *text, size_t n_bytes, const char *name, sac_error *err);

#endif
