#include "method_record.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json_t *method_record(const sac_session *s, const method_summary *m) {
    double stepped = m->decode_rows > 0 ? 1 : (double)NAN; /* a step reads its own row at least */
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kept_ratio",
                     report_nine_digits(m->kept), "kept_by_layer", method_summary_layers_json(s),
                     "attention_flops_saved", report_nine_digits(m->flops_saved), "attention_pairs_saved",
                     report_nine_digits(m->pairs_saved), "decode_rows_read",
                     report_nine_digits(stepped * m->decode_read), "decode_rows",
                     report_nine_digits(stepped * m->decode_rows), "decode_budget",
                     report_nine_digits(stepped * m->decode_budget), "prefill_mass",
                     report_nine_digits(m->prefill_mass), "decode_mass", report_nine_digits(m->decode_mass),
                     "selection_cache_hits", report_nine_digits(m->cache_hits), "kv_bytes_per_token",
                     report_nine_digits(m->kv_bytes_token), "kv_factor", report_nine_digits(m->kv_factor));
}

/* ---------------------------------------------------------------- means */

static double mean(json_t *const *records, size_t n_records, const char *key) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < n_records; i++) {
        const json_t *v = json_object_get(json_object_get(records[i], "methods"), key);
        if (json_is_number(v)) sum += json_number_value(v), n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

static double seconds(json_t *const *records, size_t n_records, const char *part) {
    double sum = 0;
    for (size_t i = 0; i < n_records; i++)
        sum += json_number_value(json_object_get(json_object_get(records[i], "seconds"), part));
    return sum;
}

/* Bytes of a token at f16, which do not change from question to question. */
static double f16_bytes(json_t *const *records, size_t n_records) {
    for (size_t i = 0; i < n_records; i++) {
        const json_t *m = json_object_get(records[i], "methods");
        if (m)
            return json_number_value(json_object_get(m, "kv_bytes_per_token")) *
                   json_number_value(json_object_get(m, "kv_factor"));
    }
    return (double)NAN;
}

void method_record_mean(json_t *const *records, size_t n, method_summary *m) {
    m->kept = mean(records, n, "kept_ratio");
    m->flops_saved = mean(records, n, "attention_flops_saved");
    m->pairs_saved = mean(records, n, "attention_pairs_saved");
    m->decode_read = mean(records, n, "decode_rows_read");
    m->decode_rows = mean(records, n, "decode_rows");
    m->decode_budget = mean(records, n, "decode_budget");
    m->prefill_mass = mean(records, n, "prefill_mass");
    m->decode_mass = mean(records, n, "decode_mass");
    m->cache_hits = mean(records, n, "selection_cache_hits");
    m->kv_bytes_token = mean(records, n, "kv_bytes_per_token");
    m->kv_factor = f16_bytes(records, n) / m->kv_bytes_token;
    m->select_seconds = seconds(records, n, "select");
    m->attend_seconds = seconds(records, n, "attend");
    m->select_share = m->select_seconds / (m->select_seconds + m->attend_seconds);
}

static double layer_mean(json_t *const *records, size_t n_records, size_t layer, bool *any) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < n_records; i++) {
        const json_t *list = json_object_get(json_object_get(records[i], "methods"), "kept_by_layer");
        if (layer < json_array_size(list)) sum += json_number_value(json_array_get(list, layer)), n++;
    }
    *any = n > 0;
    return sum / n;
}

json_t *method_record_mean_layers(json_t *const *records, size_t n_records) {
    json_t *list = json_array();
    bool any = true;
    for (size_t layer = 0; list && any; layer++) {
        double v = layer_mean(records, n_records, layer, &any);
        if (!any || !json_array_append_new(list, json_real(v))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}
