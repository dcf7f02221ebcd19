/* choice.h - which stored rows a decode step reads: what a policy answers and the shared attention reads.
 *
 * A choice is one of three kinds:
 *   rows    stored rows, at the positions they were stored for: all of them, or those of lists
 *   places  the rows of one list as if these tokens were all there ever was: keys are read at positions 0, 1
 *           .. of the list, the query at its last, where its own row stands
 *   view    keys and values that lie side by side already, turned to where they are to be read, and the query
 *           turned too: all of the view, or lists of its places
 *
 * Lists are read by ops: their numbers and starts are where ops run. The host's copy of the starts tells how
 * long they are; where only a GPU knows (it counted what passes a threshold), there is none. */
#ifndef SAC_CHOICE_H
#define SAC_CHOICE_H

#include "buffer.h"
#include "ops.h"

typedef enum sac_choice_kind { SAC_CHOICE_ROWS, SAC_CHOICE_PLACES, SAC_CHOICE_VIEW } sac_choice_kind;

/* One list for all heads, one for each key-value head or one for each query head. */
typedef struct sac_choice_lists {
    const int32_t *rows; /* NULL: no lists, all there is */
    sac_buffer start;    /* int64_t [n_lists + 1]; host NULL: only the device knows */
    int n_lists;
} sac_choice_lists;

/* What a view shows. */
typedef struct sac_choice_view {
    sac_kv_view kv;
    int64_t n_near; /* so many of the sequence's last rows are the view's last ones, but are not in it yet,
                       and the query is not turned: who reads the view reads these where they lie. 0: the
                       view is whole */
    const int32_t *rows; /* which row stands at each place, where ops run; NULL: nobody has asked */
} sac_choice_view;

typedef struct sac_choice {
    sac_choice_kind kind;
    sac_choice_lists lists; /* of rows; of a view's places */
    double n_chosen;        /* rows chosen, summed over query heads, where heads read what others chose; 0 =
                               those of the lists */
    struct sac_gathered *room; /* of the kind places: where its rows are gathered (gathered.h) */
    sac_choice_view view;      /* of the kind view */
    bool wants_rows;           /* set by whoever cuts the choice down: rows or places, no view */
} sac_choice;

static inline bool sac_choice_is_all(const sac_choice *c) {
    return c->kind == SAC_CHOICE_ROWS && !c->lists.rows;
}
/* Whether the host knows how long the lists are. */
static inline bool sac_choice_is_counted(const sac_choice *c) {
    return !c->lists.rows || c->lists.start.host;
}

/* As attention reads them. */
static inline sac_row_lists sac_choice_row_lists(const sac_choice_lists *l) {
    return (sac_row_lists){l->rows, l->start.device, l->n_lists};
}

/* Where list i begins among the rows of all; of n_lists, where the last one ends. */
static inline int64_t sac_choice_begin(const sac_choice_lists *l, int i) {
    return ((const int64_t *)l->start.host)[i];
}

#endif
