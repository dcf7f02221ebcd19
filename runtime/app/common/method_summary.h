/* method_summary.h - what attention methods did in a session, over all layers, as tables print it. */
#ifndef APP_METHOD_SUMMARY_H
#define APP_METHOD_SUMMARY_H

#include "saccade/status.h"

#include <jansson.h>
#include <saccade/saccade.h>

typedef struct method_summary {
    sac_session_method_lines lines;
    double kept;                      /* share of tokens in prefill attention, mean over layers */
    double flops_saved;               /* of prefill attention: 1 - mean of kept^2, as the papers count */
    double pairs_saved;               /* 1 - query-key pairs met / those of dense attention */
    double decode_read;               /* rows read / rows there, mean over layers */
    double decode_rows;               /* rows read a step */
    double decode_budget;             /* rows chosen a step and query head, before a union */
    double prefill_mass, decode_mass; /* of dense attention's weight, mean over layers; NAN where not known */
    double select_share;              /* of the time in attention and selection */
    double select_seconds, attend_seconds;
    double cache_hits;     /* selections answered by a selection cache, of all; NAN without one */
    double kv_bytes_token; /* bytes of keys and values a token of the sequence */
    double kv_factor;      /* f16 bytes / bytes */
} method_summary;

/* Of a session whose statistics were not reset since the calls of interest. */
void method_summary_read(const sac_session *s, const sac_model_info *m, method_summary *out);

/* Kept share of prefill by layer, [n_layers]. */
void method_summary_layers(const sac_session *s, int n_layers, double *kept);

/* The same as a list; NULL when out of memory, as below. */
json_t *method_summary_layers_json(const sac_session *s);

json_t *method_summary_json(const method_summary *m);

#endif
