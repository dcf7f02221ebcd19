/* reproduce_file.h - the tables of a paper, with the settings and the figures that it prints, in YAML (samples/reproduce).
 *
 *   paper: ZipVL
 *   source: He et al., arXiv:2410.08584
 *   tables:
 *   - name: table2
 *     says: Video-MME, 128 frames
 *     model: LongVA-7B-DPO                  what the paper ran
 *     set: videomme.json                    in --data; Video-MME's file, or a needle set
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

enum { REPRODUCE_FIGURES_MAX = 12 };

typedef struct reproduce_table {
    json_t *file; /* texts belong to it */
    const char *paper, *source, *name, *says, *model, *set, *videos, *prompt, *lacks;
    int64_t frames; /* 0: as the command says */
    const json_t *differs;
    const char *figures[REPRODUCE_FIGURES_MAX];
    size_t n_figures;
    method_list list;
    double *printed; /* [list.n][n_figures]; NAN: the paper prints none */
} reproduce_table;

/* Table `name` of the file. On failure, too, reproduce_table_free frees what there is. NOT_FOUND: no
 * such table, and which there are. */
sac_status reproduce_table_read(reproduce_table *t, const char *path, const char *name, sac_error *err);
sac_status reproduce_table_parse(reproduce_table *t, const char *text, size_t n_bytes, const char *path,
                                 const char *name, sac_error *err);
void reproduce_table_free(reproduce_table *t);

/* "table1, table2" of a file; to free, NULL = out of memory. */
char *reproduce_table_names(const json_t *file);

#endif
