#ifndef SAC_OP_CHOICE_ROWS_H
#define SAC_OP_CHOICE_ROWS_H

#include "device.h"

/* The rows that a selecting method reads: 0 .. init - 1, then init + chosen[i], then n_rows - local .. n_rows
 * - 1; and, where asked for, how far each lies from its place: turn_back[i] = rows[i] - i. With n_lists above
 * 1 as many lists lie one after the other, list l made from chosen [n_lists][n_chosen] and n_rows + l *
 * n_more rows. With `page` above 1 a chosen number stands for so many rows: init + chosen[i] * page and those
 * after it. */
typedef struct sac_choice_rows_args {
    int32_t *rows, *turn_back; /* [init + n_chosen * page + local]; turn_back may be NULL */
    const int32_t *chosen;     /* [n_chosen] */
    int64_t n_chosen, init, local, n_rows;
    int64_t n_lists, n_more; /* n_lists 0 as 1 */
    int64_t page;            /* 0 as 1 */
    int64_t *start;          /* [n_lists + 1] where the lists begin, and the end; or NULL */
} sac_choice_rows_args;

#endif
