/* reproduce_file.h - the tables of a paper, with the settings and the figures that it prints, in YAML (samples/reproduce).
 *
 *   paper: ZipVL
 *   source: He et al., arXiv:2410.08584
 *   tables:
 *   - name: table2
 *     says: Video-MME, 128 frames
 *     model: LongVA-7B-DPO                  what the paper ran
 *     set: videomme.json                    in --data; a needle set, or what eval reads: a file, or a folder of files
 *                                           left out: all figures are of speed (reproduce_figure_of_speed)
 *     benchmark: gsm8k_cot                  optional: which of eval's it is; otherwise its fields tell
 *     only: [qasper, lcc]                   optional: values of its dimensions (datasets of LongBench); other questions are left out
 *     videos: videos                        of it, in --data too
 *     frames: 128                           optional, as prompt: lmms-eval
 *     differs: [what is known to be otherwise here, a text each]
 *     figures: [short, overall, flops_saved]
 *     rows:
 *     - {name: Full, paper: [61.1, 52.6, 0]}
 *     - {name: Ours, prefill: "zipvl:min=0", kv: mixed, paper: [60.7, 52.4, 82.3]}
 *
 * The first row is dense. `lacks: TEXT` in the place of a set: a table that cannot be run yet, and why. */
#ifndef APP_REPRODUCE_FILE_H
#define APP_REPRODUCE_FILE_H

#include "method_list.h"

#include <jansson.h>

enum { REPRODUCE_FIGURES_MAX = 20 };

typedef struct reproduce_table {
    json_t *file; /* texts belong to it */
    const char *paper, *source, *name, *says, *model, *set, *videos, *prompt, *lacks;
    int64_t frames; /* 0: as the command says */
    const json_t *differs;
    const char *figures[REPRODUCE_FIGURES_MAX];
    size_t n_figures;
    method_list list;
    double *printed; /* [list.n][n_figures]; NAN: the paper prints none */
    bool is_speed;   /* no set: all figures are of speed */
    const char *benchmark;
    const json_t *only; /* texts; NULL: all */
} reproduce_table;

/* A figure that is measured without a set (reproduce_speed.h): "prefill@N", seconds of a prompt of N tokens; "step@N", milliseconds of a
 * token behind N, the median of eight; "tokens_s@N", tokens a second of N tokens behind a short prompt; "memory@N", megabytes of weights,
 * session and workspace for N tokens, of the cache what they fill. False: no such name. */
typedef enum speed_kind { SPEED_PREFILL, SPEED_STEP, SPEED_TOKENS, SPEED_MEMORY, SPEED_KINDS } speed_kind;
bool reproduce_figure_of_speed(const char *name, speed_kind *kind, int64_t *length);

/* Table `name` of the file. On failure, too, reproduce_table_free frees what there is. NOT_FOUND: no
 * such table, and which there are. */
sac_status reproduce_table_read(reproduce_table *t, const char *path, const char *name, sac_error *err);
sac_status reproduce_table_parse(reproduce_table *t, const char *text, size_t n_bytes, const char *path,
                                 const char *name, sac_error *err);
void reproduce_table_free(reproduce_table *t);

/* "table1, table2" of a file; to free, NULL = out of memory. */
char *reproduce_table_names(const json_t *file);

/* The whole file, for a list of its tables; the caller's, NULL on failure. */
json_t *reproduce_file_read(const char *path, sac_error *err);

#endif
